import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sampler_world import Maker, RandomWorld, agent, engine, frozen, grow, settings, tasks

from agents.engine import Sample, SampleRequest
from tree_rollout.branching import Branch
from tree_rollout.branching.random_turns import RandomTurns
from tree_rollout.sampler import Sampler
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree


def sampled(tree: TrajectoryTree) -> int:
    return sum(int(turn.mask_T.sum()) for turn in tree.turns)


# ---------------------------------------------------------------- tokens


@pytest.mark.parametrize("rule", ["topk_entropy", "random"])
@pytest.mark.parametrize("max_length", [100_000, 60])
def test_every_path_is_exactly_what_the_engine_saw_and_produced(rule: str, max_length: int):
    """50 trees for each of the 4 cases, 200 in all."""
    by = engine(max_length=max_length)
    report = grow(range(50), by, branching=rule)
    assert len(report.trees) == 50 and not by.sequences
    seen = Counter(tuple(tokens) for tokens in by.finished.values())
    recorded = Counter()
    for tree in report.trees:
        for path in tree.rollouts():
            mask_T = np.concatenate([tree.turns[index].mask_T for index in path])
            recorded[tuple(zip(tree.ids(path[-1]).tolist(), mask_T.tolist(), strict=True))] += 1
    assert recorded == seen
    assert report.branches == 200
    assert (report.stop_reasons[StopReason.CONTEXT_LENGTH] > 0) == (max_length == 60)


def test_numbers_of_the_engine_stand_at_sampled_tokens_and_zeros_elsewhere():
    by = engine()
    answers: list[Sample] = []
    generate = by.generate

    def generate_and_keep(requests: Sequence[SampleRequest]) -> list[Sample]:
        answers.extend(generate(requests))
        return answers[-len(requests) :]

    by.generate = generate_and_keep
    tree = grow([5], by, forks=0, branching="none", roots=1).trees[0]
    for turn, answer in zip(tree.turns, answers, strict=True):
        assert np.array_equal(turn.ids_T[turn.mask_T], answer.ids_T)
        assert np.array_equal(turn.logprobs_T[turn.mask_T], answer.logprobs_T)
        assert np.array_equal(turn.entropies_T[turn.mask_T], answer.entropies_T)
        assert not turn.logprobs_T[~turn.mask_T].any() and not turn.entropies_T[~turn.mask_T].any()
        assert turn.policy_version == 7
        assert (turn.ids_T.dtype, turn.mask_T.dtype, turn.logprobs_T.dtype) == (np.int32, np.bool_, np.float32)


def test_a_turn_that_was_cut_off_is_closed_before_the_next_observation():
    template, cut = agent().template, 0
    stop = template.stop_id
    for tree in grow(range(10), max_new_tokens=2).trees:
        for turn in tree.turns:
            if turn.parent >= 0:
                stopped = tree.turns[turn.parent].ids_T[-1] == stop
                closing_T = np.array([] if stopped else [stop], dtype=np.int32)
                assert np.array_equal(turn.ids_T[: len(closing_T) + len(template.after_stop_T)], [*closing_T, *template.after_stop_T])
                assert (turn.ids_T[0] == stop) == (not stopped)
                cut += not stopped
    assert cut > 10


def test_sequences_are_freed_as_soon_as_nobody_can_fork_them():
    by = engine()
    held: list[tuple[bool, int, int]] = []
    generate = by.generate

    def watch(requests: Sequence[SampleRequest]) -> list[Sample]:
        held.append((any(request.seed[3] >= 3 for request in requests), len(by.sequences), len(requests)))
        return generate(requests)

    by.generate = watch
    grow([0], by)
    forking = [(sequences, live) for forks, sequences, live in held if forks]
    assert forking and all(sequences == live for sequences, live in forking)
    held.clear()
    grow([0], by, forks=0, branching="none")
    assert held and all(sequences == live for _, sequences, live in held)


def test_shared_tokens_are_computed_once():
    by = engine()
    report = grow(range(10), by)
    assert report.sampled_tokens == sum(sampled(tree) for tree in report.trees)
    assert by.computed == report.prefilled_tokens + report.sampled_tokens
    # A turn's observation is computed by the first of its siblings alone.
    families = [(tree, tree.children(index)) for tree in report.trees for index in range(-1, len(tree.turns)) if tree.children(index)]
    assert report.prefilled_tokens == sum(int((~tree.turns[children[0]].mask_T).sum()) for tree, children in families)
    paths = sum(len(tree.ids(leaf)) for tree in report.trees for leaf in tree.leaves())
    assert report.shared_tokens == paths - by.computed


# ---------------------------------------------------------------- the tree's shape


def test_roots_come_first_then_forks_and_parents_before_children():
    for tree in grow(range(10)).trees:
        firsts = [turn.origin for turn in tree.turns if turn.origin]
        assert [origin.kind for origin in firsts] == ["root"] * 3 + ["branch"] * 4
        assert all(turn.parent < index for index, turn in enumerate(tree.turns))
        assert len(tree.leaves()) == 7
        for index, turn in enumerate(tree.turns):
            assert (turn.stop_reason is not None) == (not tree.children(index))


def test_siblings_share_observation_state_and_observation_tokens():
    shared = 0
    for tree in grow(range(10)).trees:
        for index in range(-1, len(tree.turns)):
            first, *others = [tree.turns[child] for child in tree.children(index)] or [None]
            for turn in others:
                assert first is not None
                assert (turn.observation, turn.state, turn.parent) == (first.observation, first.state, first.parent)
                assert np.array_equal(turn.ids_T[~turn.mask_T], first.ids_T[~first.mask_T])
                shared += 1
    assert shared == 10 * (2 + 4)


def test_a_fork_says_which_rule_chose_it_and_with_which_score():
    tree = grow([3], forks=2).trees[0]
    forks = [index for index, turn in enumerate(tree.turns) if turn.origin and turn.origin.kind == "branch"]
    origin = tree.turns[forks[0]].origin
    assert origin is not None and origin.rule == "topk_entropy"
    # Only the roots' first turns had siblings then, two each.
    assert origin.score == pytest.approx(max(turn.entropy - 0.05 * 2 * (turn.parent < 0) for turn in tree.turns[: forks[0]]))


def test_executing_each_path_again_gives_what_was_recorded():
    """Forks start from the exact state: a fresh episode with a fork's actions meets the same signatures, observations and rewards."""
    for tree in grow(range(10), forks=6, branching="random").trees:
        for path in tree.rollouts():
            env = RandomWorld()
            observation, _ = env.reset(seed=tree.seed)
            for index in path:
                turn = tree.turns[index]
                assert (turn.observation, turn.state) == (observation, env.state_signature())
                observation, reward, terminated, truncated, info = env.step(turn.action)
                assert (turn.reward, turn.terminated, turn.truncated) == (reward, terminated, truncated)
                assert (turn.valid, turn.success, turn.next_state) == (info["valid"], info["success"], env.state_signature())


def test_one_reset_per_tree_and_instances_are_used_again():
    resets: list[RandomWorld] = []
    maker = Maker(reset_fault=resets.append)
    with Sampler(engine(), maker, agent(), settings()) as sampler:
        sampler.sample(tasks(range(4)), run_seed=0)
        made = len(maker.made)
        assert made <= 4 * 4
        sampler.sample(tasks(range(4, 8)), run_seed=0)
        assert len(resets) == 8 and len(maker.made) <= made + 4
    assert all(env.closed for env in maker.made)


def test_a_snapshot_that_comes_back_as_another_state_is_a_failure_and_not_silence():
    class Forgetful(RandomWorld):
        def restore(self, snapshot: Any) -> None:
            super().restore(snapshot)
            self.here = (self.here + 1) % self.states

    with Sampler(engine(), lambda env_id: Forgetful(), agent(), settings()) as sampler:
        report = sampler.sample(tasks([0]), run_seed=0)
    assert report.stop_reasons[StopReason.ENV_ERROR] == 2 + 4
    assert "restore() gave the state" in report.failures[0].message


# ---------------------------------------------------------------- the same seed, the same trees


def test_trees_do_not_depend_on_how_tasks_are_spread_over_calls():
    together = [frozen(tree) for tree in grow(range(12)).trees]
    split = [frozen(tree) for seeds in ([7, 3, 11], [0, 1, 2], [10, 4], [5, 6, 8, 9]) for tree in grow(seeds).trees]
    assert sorted(together, key=lambda tree: tree[1]) == sorted(split, key=lambda tree: tree[1])
    assert [tree[1] for tree in together] == list(range(12))


@pytest.mark.parametrize("change", [{"run_seed": 1}, {"iteration": 1}])
def test_run_seed_and_iteration_change_the_samples(change: dict[str, int]):
    assert frozen(grow([0]).trees[0]) == frozen(grow([0]).trees[0])
    assert frozen(grow([0]).trees[0]) != frozen(grow([0], **change).trees[0])


def test_the_rule_draws_from_a_generator_of_run_seed_iteration_and_task(monkeypatch: pytest.MonkeyPatch):
    states: list[dict[str, Any]] = []

    def record(self: RandomTurns, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        states.append(dict(rng.bit_generator.state["state"]))
        return []

    monkeypatch.setattr(RandomTurns, "select", record)
    for changes in ({}, {}, {"run_seed": 1}, {"iteration": 1}):
        grow([0], branching="random", **changes)
    grow([1], branching="random")
    assert states[0] == states[1]
    assert len({state["state"] for state in states}) == 4


def test_the_seed_of_each_request_names_run_iteration_task_rollout_and_depth():
    by = engine()
    tree = grow([42], by, run_seed=5, iteration=9).trees[0]
    seeds = [request.seed for batch in by.batches for request in batch]
    assert len(set(seeds)) == len(seeds) == len(tree.turns)
    depths = {index: len(tree.path(index)) - 1 for index in range(len(tree.turns))}
    number, expected = -1, set()
    for index, turn in enumerate(tree.turns):
        number += turn.origin is not None
        expected.add((5, 9, 42, number, depths[index]))
    assert set(seeds) == expected


def test_every_engine_call_holds_the_next_turn_of_all_live_rollouts():
    by = engine()
    report = grow(range(6), by)
    longest = max(len(path) for tree in report.trees for path in tree.rollouts())
    # One call for the first roots' first turn; the other roots come one call later, the forks after the last root.
    assert report.engine_calls == len(by.batches) <= 2 * (longest + 1)
    assert len(by.batches[0]) == 6 and len(by.batches[1]) <= 6 * 3
    kinds = [{request.seed[3] >= 3 for request in batch} for batch in by.batches]
    assert {True, False} in kinds, "trees whose roots are finished fork while other roots still run"


# ---------------------------------------------------------------- the report


def test_the_report_counts_what_happened():
    report = grow(range(5))
    assert report.env_steps == sum(len(tree.turns) for tree in report.trees)
    assert sum(report.stop_reasons.values()) == report.rollouts == 5 * 7
    assert report.engine_s > 0 and report.env_s > 0 and report.rest_s > 0
    assert json.dumps(report.stop_reasons)


def test_seconds_go_to_the_part_that_spent_them():
    slow_env = grow([0], maker=Maker(lambda env, action: time.sleep(0.01)))
    assert slow_env.env_s > 0.01 * slow_env.env_steps > 5 * slow_env.engine_s
