import time
from typing import Any

import pytest
from sampler_world import Maker, RandomEngine, RandomWorld, agent, engine, frozen, grow, settings, tasks

from tree_rollout.errors import SamplerError
from tree_rollout.steady_sampler import GrownTree, SteadySampler


def steady(by: RandomEngine, maker: Maker | None = None, **changes: Any) -> SteadySampler:
    return SteadySampler(by, maker or Maker(), agent(), settings(**changes), run_seed=0)


def all_of(sampler: SteadySampler) -> dict[int, GrownTree]:
    """Grow what is there to its end."""
    grown: dict[int, GrownTree] = {}
    while sampler.live:
        grown |= {tree.number: tree for tree in sampler.advance(0.05)}
    return grown


def test_a_tree_is_the_same_whenever_it_begins():
    sampler, by = None, engine()
    sampler = steady(by)
    expected = [frozen(tree) for tree in grow(range(4)).trees]
    for number, task in enumerate(tasks(range(4))):
        sampler.add(number, task, 0)
        sampler.advance()
    grown = all_of(sampler)
    assert [frozen(grown[number].tree) for number in range(4)] == expected
    assert not by.sequences and not by.pending and sampler.advance(0.01) == []
    sampler.close()


def test_what_grows_goes_on_with_other_weights_and_every_turn_names_its_own():
    by = engine()
    sampler = steady(by)
    for number, task in enumerate(tasks(range(6))):
        sampler.add(number, task, 0)
    changed = []
    while set(sampler.oldest_versions().values()) == {None}:
        sampler.advance()
    sampler.renew(lambda: changed.append(by.pending), 8)
    assert changed == [0] and by.version == 8, "no turn was on its way while the weights changed"
    assert set(sampler.oldest_versions().values()) <= {7, 8, None}
    grown = all_of(sampler)
    versions = [{turn.policy_version for turn in tree.tree.turns if turn.mask_T.any()} for tree in grown.values()]
    assert {7, 8} in versions, "a partial rollout was carried over"
    for tree in grown.values():
        for index, turn in enumerate(tree.tree.turns):
            assert all(tree.tree.turns[earlier].policy_version <= turn.policy_version for earlier in tree.tree.path(index))
    sampler.close()


def test_a_tree_that_is_dropped_leaves_nothing_and_its_late_answers_reach_nobody():
    by = engine()
    worlds: list[RandomWorld] = []

    def slow(env: RandomWorld, action: str) -> None:
        worlds.append(env)
        time.sleep(0.02)

    sampler = steady(by, Maker(slow), env_threads=4)
    sampler.add(1, tasks([1])[0], 0)
    sampler.add(2, tasks([2])[0], 0)
    while not worlds:
        sampler.advance(0.01)
    for _ in range(5):
        sampler.advance(0.01)
    sampler.drop(1)
    assert sampler.live == 1 and 1 not in sampler.oldest_versions()
    grown = all_of(sampler)
    assert list(grown) == [2] and frozen(grown[2].tree) == frozen(grow([2]).trees[0])
    time.sleep(0.05)
    assert not by.sequences and not by.pending
    sampler.drop(1)
    sampler.close()


def test_waiting_for_an_environment_ends_in_time_so_that_others_may_begin():
    sampler = steady(engine(), Maker(lambda env, action: time.sleep(0.3 if env.task == 0 else 0.002)), env_threads=4)
    sampler.add(0, tasks([0])[0], 0)
    for _ in range(10):
        sampler.advance(0.01)
    sampler.add(1, tasks([1])[0], 0)
    order = []
    while sampler.live:
        order += [tree.number for tree in sampler.advance(0.01)]
    assert order == [1, 0]
    sampler.close()


def test_what_was_spent_is_told_once():
    sampler = steady(engine())
    sampler.add(0, tasks([0])[0], 0)
    all_of(sampler)
    first, second = sampler.take_report(), sampler.take_report()
    whole = grow([0])
    assert (first.sampled_tokens, first.env_steps, first.rollouts) == (whole.sampled_tokens, whole.env_steps, whole.rollouts)
    assert (second.sampled_tokens, second.env_steps, second.rollouts) == (0, 0, 0)
    sampler.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"allocation": "pilot_commit"}, "looks at all trees of a call"), ({"token_budget": 100}, "are for the trees of a call")],
)
def test_settings_that_speak_of_a_whole_call_are_refused(changes: dict[str, Any], words: str):
    with pytest.raises(SamplerError, match=words):
        steady(engine(), **changes)


def test_a_number_is_one_trees():
    sampler = steady(engine())
    sampler.add(0, tasks([0])[0], 0)
    with pytest.raises(SamplerError, match="number 0 grows already"):
        sampler.add(0, tasks([1])[0], 0)
    sampler.close()
