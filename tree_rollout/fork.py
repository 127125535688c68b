"""A fork starts in the recorded state or not at all: the way there is executed again, and its first difference is an error.

Every fork makes a new child of the turn before; what was recorded stays as it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from envs.forking.known_state import known_state
from envs.policies import ExpertPolicy, RandomPolicy, ScriptedPolicy
from envs.text_env import TextEnv
from tree_rollout.errors import ForkError, ReplayDivergedError
from tree_rollout.replay import Difference, compare_after, compare_before, shown
from tree_rollout.stepping import reset, step, stop_reason_of
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin, Turn


def _empty(dtype: type[np.generic]) -> Callable[[], npt.NDArray]:
    return lambda: np.zeros(0, dtype)


@dataclass(frozen=True, slots=True)
class PolicyAction:
    """What a policy answers to one observation; a policy without a model gives the text alone.

    The arrays share the axis T and mean what they mean in `Turn`: the observation's delta, then what was sampled.
    """

    action: str
    ids_T: npt.NDArray[np.int32] = field(default_factory=_empty(np.int32))
    mask_T: npt.NDArray[np.bool_] = field(default_factory=_empty(np.bool_))
    logprobs_T: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    entropies_T: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    policy_version: int = -1
    """Which weights sampled it; -1 for a policy without weights."""
    new_segment: bool = False
    """True where `ids_T` begins a new sequence, as in `Turn`."""

    def __post_init__(self) -> None:
        shapes = {array_T.shape for array_T in (self.ids_T, self.mask_T, self.logprobs_T, self.entropies_T)}
        if shapes != {(len(self.ids_T),)}:
            raise ValueError(f"the arrays of one action have the shapes {sorted(shapes)}; they must be one axis of equal length")


class Policy(Protocol):
    """Anything that can continue a rollout."""

    @property
    def name(self) -> str:
        """Recorded as the rule of the fork's origin."""
        ...

    def act(self, env: TextEnv, observation: str, history: Sequence[Turn], rng: np.random.Generator) -> PolicyAction | None:
        """Answer `observation`.

        `history` has the turns from the root on, those of this fork included, with the token ids that any of them has; the environment
        stands in the state of the observation and may be asked (admissible actions, expert) but not stepped. All that is drawn comes
        from `rng`. None means that the observation does not fit into the policy's context.
        """
        ...


@dataclass(frozen=True, slots=True)
class Scripted:
    """A policy without a model."""

    name: str
    make: Callable[[np.random.Generator], ScriptedPolicy]

    def act(self, env: TextEnv, observation: str, history: Sequence[Turn], rng: np.random.Generator) -> PolicyAction:
        """The script's action; it looks at the environment alone."""
        return PolicyAction(self.make(rng)(env))


SCRIPTED_POLICIES = {policy.name: policy for policy in (Scripted("random", RandomPolicy), Scripted("expert", lambda _: ExpertPolicy()))}
"""The policies that need no checkpoint, by name."""


def fork(tree: TrajectoryTree, node: int, policy: Policy, env: TextEnv, *, rng: np.random.Generator, max_turns: int) -> list[Turn]:
    """Continue from the state before turn `node` with `policy`, for at most `max_turns` turns; adds the turns to `tree`, returns them.

    `env` was made with the tree's id and arguments. A way to the node that does not replay is a `ReplayDivergedError`, and an observation
    that does not fit into the policy's context at once a `ForkError`. An environment that fails later ends the fork with that reason;
    reaching `max_turns` is recorded as `StopReason.TRUNCATED`. `Trace.add_fork` records what is returned.
    """
    if not 0 <= node < len(tree.turns):
        raise ForkError(
            f"the tree has no turn {node}; choose one from 0 to {len(tree.turns) - 1}" if tree.turns else "the tree has no turns"
        )
    if max_turns < 1:
        raise ForkError(f"max_turns is {max_turns}; give at least 1")
    path = tree.path(node)[:-1]
    observation = _reach(tree, path, node, env)
    turns = _continue(policy, env, observation, [tree.turns[index] for index in path], rng, max_turns)
    parent = tree.turns[node].parent
    for turn in turns:
        turn.parent = parent
        parent = tree.add(turn)
    return turns


def _reach(tree: TrajectoryTree, path: list[int], node: int, env: TextEnv) -> str:
    """Execute the turns of `path` again and return the observation before turn `node`."""
    observation = reset(env, tree.seed).observation
    for index in path:
        turn = tree.turns[index]
        _expect(compare_before(env, index, turn, observation))
        try:
            result = step(env, turn.action)
        except Exception as fault:
            raise ReplayDivergedError(index, "step", "an answer", f"{type(fault).__name__}: {fault}") from fault
        _expect(compare_after(index, turn, result))
        observation = result.observation
    _expect(compare_before(env, node, tree.turns[node], observation))
    return observation


def _expect(differences: list[Difference]) -> None:
    for first in differences[:1]:
        raise ReplayDivergedError(first.turn, first.field, shown(first.expected), shown(first.got))


def _continue(policy: Policy, env: TextEnv, observation: str, past: Sequence[Turn], rng: np.random.Generator, max_turns: int) -> list[Turn]:
    turns: list[Turn] = []
    history = list(past)
    state = known_state(env)
    while not turns or turns[-1].stop_reason is None:
        choice = policy.act(env, observation, history, rng)
        if choice is None:
            if not turns:
                raise ForkError(f"the context of policy {policy.name!r} has no room for the observation to fork at; choose an earlier turn")
            turns[-1].stop_reason = StopReason.CONTEXT_LENGTH
            break
        turn = _new_turn(observation, state, choice, None if turns else Origin("fork", policy.name))
        turns.append(turn)
        history.append(turn)
        try:
            result = step(env, choice.action)
        except Exception as fault:
            turn.stop_reason = stop_reason_of(fault)
            break
        turn.reward, turn.terminated, turn.truncated = result.reward, result.terminated, result.truncated
        turn.valid, turn.success, turn.next_state = result.valid, result.success, result.state
        observation, state = result.observation, result.state
        if result.terminated:
            turn.stop_reason = StopReason.TERMINATED
        elif result.truncated or len(turns) == max_turns:
            turn.stop_reason = StopReason.TRUNCATED
    return turns


def _new_turn(observation: str, state: str, choice: PolicyAction, origin: Origin | None) -> Turn:
    """A turn to which the environment has not answered yet."""
    return Turn(
        parent=-1,
        observation=observation,
        action=choice.action,
        ids_T=choice.ids_T,
        mask_T=choice.mask_T,
        logprobs_T=choice.logprobs_T,
        entropies_T=choice.entropies_T,
        policy_version=choice.policy_version,
        reward=0.0,
        terminated=False,
        truncated=False,
        valid=True,
        state=state,
        next_state="",
        origin=origin,
        new_segment=choice.new_segment,
    )
