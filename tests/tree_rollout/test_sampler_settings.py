import pickle
from typing import Any

import pytest
from sampler_world import ENV_ID, Maker, RandomWorld, agent, engine, frozen, grow, settings, tasks

from tree_rollout.errors import BranchingError, SamplerError
from tree_rollout.sampler import Sampler
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.stop_reason import StopReason
from tree_rollout.task import Task


def test_the_token_budget_stops_new_forks_and_lets_the_rest_finish():
    free = grow(range(10))
    assert free.unforked_trees == 0 and not free.budget_reached and free.branches == 40
    tight = grow(range(10), token_budget=1)
    assert tight.unforked_trees == 10 and tight.budget_reached and tight.branches == 0 and tight.rollouts == 30
    roots_only = [frozen(tree) for tree in grow(range(10), forks=0, branching="none").trees]
    assert [frozen(tree) for tree in tight.trees] == roots_only
    middle = grow(range(10), token_budget=tight.sampled_tokens * 3 // 4)
    assert 0 < middle.unforked_trees < 10
    assert middle.branches == 4 * (10 - middle.unforked_trees)
    assert all(turn.stop_reason for tree in middle.trees for turn in (tree.turns[leaf] for leaf in tree.leaves()))


def test_max_turns_ends_rollouts_and_forks_count_from_the_root():
    def longest(limit: int) -> int:
        return max(len(tree.path(leaf)) for tree in grow(range(8), max_turns=limit).trees for leaf in tree.leaves())

    assert [longest(limit) for limit in (2, 4, 8)] == [2, 4, 6]  # The world's own limit is 6.
    for tree in grow(range(8), max_turns=2).trees:
        for leaf in tree.leaves():
            turn = tree.turns[leaf]
            assert turn.stop_reason == (StopReason.TERMINATED if turn.terminated else StopReason.TRUNCATED)
            assert not turn.truncated, "the flag is the environment's own word"


def test_max_new_tokens_and_temperature_reach_the_engine():
    by = engine()
    report = grow(range(5), by, max_new_tokens=2, temperature=0.7)
    assert {(request.max_tokens, request.temperature) for batch in by.batches for request in batch} == {(2, 0.7)}
    assert max(int(turn.mask_T.sum()) for tree in report.trees for turn in tree.turns) == 2
    assert report.cut_turns > 0 and grow(range(5), engine(), max_new_tokens=100).cut_turns == 0


def test_roots_forks_branching_and_its_options_bite():
    report = grow(range(4), roots=2, forks=5)
    assert (report.rollouts, report.branches) == (4 * 7, 20)
    assert all(len(tree.leaves()) == 7 for tree in report.trees)
    variants = [{"branching": "random"}, {"branching_options": {"sibling_penalty": 0.0}}, {"branching_options": {"sibling_penalty": 5.0}}]
    trees = [[frozen(tree) for tree in grow(range(4), **variant).trees] for variant in variants]
    assert trees[0] != trees[1] != trees[2] != trees[0]


def test_snapshots_are_released_unless_they_are_to_be_kept():
    assert all(turn.snapshot is None for tree in grow(range(5)).trees for turn in tree.turns)
    for tree in grow(range(5), keep_snapshots=True).trees:
        for turn in tree.turns:
            env = RandomWorld()
            env.restore(turn.snapshot)
            assert env.state_signature() == turn.state


def test_plain_sampling_takes_no_snapshot_and_one_rollout_per_task():
    class NoSnapshots(RandomWorld):
        def snapshot(self) -> Any:
            raise AssertionError("a snapshot was taken")

    plain = SamplerSettings.plain(max_turns=4, max_new_tokens=5)
    with Sampler(engine(), lambda env_id: NoSnapshots(), agent(), plain) as sampler:
        report = sampler.sample(tasks(range(8)), run_seed=0)
    assert not report.failures and report.rollouts == 8 and report.shared_tokens == 0
    assert all(len(tree.leaves()) == 1 for tree in report.trees)


def test_plain_sampling_at_temperature_zero_ignores_the_seed():
    def trees(run_seed: int) -> list[Any]:
        plain = SamplerSettings.plain(max_turns=4, max_new_tokens=5, temperature=0)
        with Sampler(engine(), Maker(), agent(), plain) as sampler:
            return [frozen(tree) for tree in sampler.sample(tasks(range(8)), run_seed=run_seed).trees]

    assert trees(0) == trees(1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"roots": 0}, "roots is 0; give an integer of at least 1"),
        ({"forks": -1}, "forks is -1"),
        ({"max_turns": 2.5}, "max_turns is 2.5"),
        ({"max_new_tokens": True}, "max_new_tokens is True"),
        ({"token_budget": 0}, "token_budget is 0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"branching": "none"}, "'none' never forks"),
        ({"forks": 0, "token_budget": 5}, "token_budget limits forks"),
        ({"temperature": 0}, "at temperature 0 all rollouts of a task are the same"),
    ],
)
def test_settings_that_cannot_take_effect_are_errors(changes: dict[str, Any], message: str):
    with pytest.raises(SamplerError, match=message) as caught:
        settings(**changes)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert caught.value.exit_code == 2


def test_an_unknown_rule_is_an_error_when_the_settings_are_made():
    with pytest.raises(BranchingError, match="did you mean topk_entropy"):
        settings(branching="topk-entropy")


def test_bad_tasks_and_seeds_are_errors():
    with pytest.raises(SamplerError, match="task seed"):
        Task(ENV_ID, -1)
    with pytest.raises(SamplerError, match="JSON values"):
        Task(ENV_ID, 0, {"rooms": {1, 2}})
    with pytest.raises(SamplerError, match="given twice"):
        grow([1, 2, 1])
    with pytest.raises(SamplerError, match="run_seed is -1"):
        grow([1], run_seed=-1)
