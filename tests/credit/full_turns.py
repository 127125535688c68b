"""Turns with every optional field set, so that one group of rollouts suits every method.

Each field depends on the turn's own content alone: equal turns get equal fields, wherever they stand and in whatever order they come.
What a policy or a critic says of a state depends on the state alone, so that rollouts from one state differ by actions and rewards only.
"""

from dataclasses import replace
from zlib import crc32

from credit import Turn


def share(*what: object) -> float:
    """A number in [0, 1) that looks random and depends on its arguments alone."""
    return crc32(repr(what).encode()) / 2**32


def filled(rollouts: list[list[Turn]]) -> list[list[Turn]]:
    """The rollouts with all optional fields set, except `node`, which stays as it is."""
    return [[_full(turn, last=t == len(rollout) - 1) for t, turn in enumerate(rollout)] for rollout in rollouts]


def _full(turn: Turn, last: bool) -> Turn:
    cut_off = last and share("cut off", turn.next_state) < 0.3
    return replace(
        turn,
        rewards={"task": turn.reward, "process": round(share("process", turn.state), 1)},
        entropy=2 * share("entropy", turn.state),
        value=share("value", turn.state),
        next_value=share("value", turn.next_state) if cut_off else None,
        teacher_logprob_gap=4 * share("gap", turn.state, turn.action) - 2,
        cited=int(3 * share("cited", turn.state, turn.action)) / 2,
        information_gain=share("gain", turn.state) - 0.3,
        anchor=0.5,
        truncated=cut_off,
    )
