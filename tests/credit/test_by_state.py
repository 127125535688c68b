"""A method says truly whether it matters which turns stand in the same state."""

from dataclasses import replace

import numpy as np
import pytest
from full_turns import filled

from credit import Turn, estimate, methods, resolve


def rollouts() -> list[list[Turn]]:
    """Six rollouts that pass through two states in the middle; half of them win."""
    paths = ["pqx", "pqy", "prx", "pry", "qqx", "qry"]
    won = (1.0, 1.0, 0.0, 1.0, 0.0, 0.0)
    return filled([_through(path, outcome) for path, outcome in zip(paths, won, strict=True)])


def _through(path: str, outcome: float) -> list[Turn]:
    first, second, third = path
    return [
        Turn("s", first, f"m{first}", 0.0),
        Turn(f"m{first}", second, f"n{second}", 0.0),
        Turn(f"n{second}", third, "e", outcome),
    ]


def apart(given: list[list[Turn]]) -> list[list[Turn]]:
    """The same with no state in common but the first."""
    return [
        [
            replace(turn, state=(row, t) if t else turn.state, next_state=(row, t + 1))
            for t, turn in enumerate(rollout)
        ]
        for row, rollout in enumerate(given)
    ]  # fmt: skip


@pytest.mark.parametrize("method", methods())
def test_states_matter_where_a_method_says_so(method: str) -> None:
    together, split = (np.concatenate(estimate(given, method)) for given in (rollouts(), apart(rollouts())))
    assert resolve(method, {}).by_state == (not np.array_equal(together, split))


def test_a_method_on_a_base_compares_states_where_the_base_does() -> None:
    assert resolve("empg", {"base": "rtmc"}).by_state and not resolve("empg", {"base": "rloo"}).by_state
    assert resolve("mix", {"terms": ["grpo", "salt"]}).by_state and not resolve("mix", {"terms": ["grpo", "tree_mc"]}).by_state
