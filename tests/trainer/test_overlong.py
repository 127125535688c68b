import numpy as np
import pytest
from credit_trees import forked_tree
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trainer.config import CreditConfig, RewardConfig
from trainer.overlong import overlong_penalty, penalised
from trainer.tree_credit import assign


@pytest.mark.parametrize(
    ("tokens", "penalty"),
    [(0, 0.0), (16000, 0.0), (16384, 0.0), (16385, -1 / 4096), (18000, -0.394531), (20479, -4095 / 4096), (20480, -1.0), (99999, -1.0)],
)
def test_the_numbers_of_the_paper(tokens: int, penalty: float) -> None:
    assert overlong_penalty(tokens, limit=20480, buffer=4096) == pytest.approx(penalty, abs=1e-6)


@given(st.integers(0, 500), st.integers(1, 300), st.integers(1, 300))
def test_it_falls_and_stays_between_its_ends(tokens: int, limit: int, buffer: int) -> None:
    buffer = min(buffer, limit)
    penalty = overlong_penalty(tokens, limit, buffer)
    assert -1 <= overlong_penalty(tokens + 1, limit, buffer) <= penalty <= 0
    assert (penalty == 0) == (tokens <= limit - buffer)
    assert (penalty == -1) == (tokens >= limit)


@pytest.mark.parametrize(("limit", "buffer"), [(10, None), (None, 5), (10, 11)])
def test_what_makes_no_ramp_is_refused(limit: int | None, buffer: int | None) -> None:
    with pytest.raises(ValidationError, match="overlong_buffer"):
        RewardConfig(overlong_limit=limit, overlong_buffer=buffer)


def test_a_rollout_that_is_too_long_loses_outcome_and_the_turns_it_shares_do_not() -> None:
    tree = forked_tree()
    tree.turns[-1].mask_T = np.ones(9, np.bool_)
    lengths = [sum(int(tree.turns[index].mask_T.sum()) for index in path) for path in tree.rollouts()]
    reward = RewardConfig(overlong_limit=max(lengths), overlong_buffer=max(lengths))
    turns = penalised(tree, reward)
    for path, tokens in zip(tree.rollouts(), lengths, strict=True):
        assert turns[path[-1]].reward == pytest.approx(tree.turns[path[-1]].reward - tokens / max(lengths))
        assert all(turns[index] is tree.turns[index] for index in path[:-1])
    assert penalised(tree, RewardConfig()) is tree.turns
    plain, taxed = (assign([tree], CreditConfig(method="dr_grpo"), chosen).trees[0] for chosen in (RewardConfig(), reward))
    assert not np.allclose(plain.advantages_N, taxed.advantages_N)
