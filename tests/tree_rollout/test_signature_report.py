import json
from itertools import combinations

import numpy as np
import pytest
from counter_world import CounterEnv, grow, make_turn, record, tree_of
from signature_trees import extend, seen, told

from tree_rollout.collisions import Collisions, Sighting, find_collisions
from tree_rollout.outcome_agreement import TaskAgreement, agreement, outcomes, task_agreement
from tree_rollout.signature_report import SignatureTally, report_signature
from tree_rollout.signatures import UserFunction, make_signature, sign_trees
from tree_rollout.state_graph import companies, count_merges, state_places
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.walk import depths, walk

ENV = make_signature("env")
BLIND = UserFunction("blind", lambda tree: [("", "")] * len(tree.turns))
"""Takes all states for one."""


def solving(tree: TrajectoryTree, *rollouts: int) -> TrajectoryTree:
    """The tree, with success at the ends of these rollouts and of no others."""
    for number, leaf in enumerate(tree.leaves()):
        tree.turns[leaf].success = number in rollouts
    return tree


def agreed(tree: TrajectoryTree) -> TaskAgreement | None:
    places = state_places([tree])
    return task_agreement([tree], places, list(companies([tree], places)))


# ---------------------------------------------------------------------- counts


def test_a_walk_enters_after_the_parent_and_leaves_after_all_below() -> None:
    tree = tree_of("012", "03")
    extend(tree, 0, [("", "go")])
    assert list(walk(tree)) == [(0, True), (1, True), (1, False), (3, True), (3, False), (0, False), (2, True), (2, False)]
    assert depths(tree) == [0, 1, 0, 1]


def test_merges_by_depth_counted_by_hand() -> None:
    """R1 0-1-2-3, R2 0-4-2-3, R3 0-1-5: state 0 is where all start, 1 was reached by R1 and R3 with a turn of their own, 2 by R1 and R2."""
    report = report_signature([tree_of("0123", "0423", "015")], ENV)
    rows = [(row.depth, row.turns, row.merged, row.convergent) for row in report.depths]
    assert rows == [(0, 3, 3, 0), (1, 3, 2, 2), (2, 2, 2, 2)]
    assert report.depths[1].merge_rate == report.depths[1].convergence_rate == 2 / 3
    assert (report.merges.turns, report.merges.merged_turns, report.merges.singletons) == (8, 7, 1)


def test_a_rollout_that_meets_itself_is_counted_apart() -> None:
    report = report_signature([tree_of("01012")], ENV)
    assert (report.merges.self_merges, report.merges.merged_turns) == (2, 0)
    assert all(row.merged == 0 for row in report.depths)
    assert [(state.turns, state.ways, state.first_depth, state.last_depth) for state in report.largest] == [(2, 2, 0, 2), (2, 2, 1, 3)]


def test_the_largest_states_come_first_and_single_ones_not_at_all() -> None:
    trees = [tree_of("0123", "0423", "0623"), tree_of("02", seed=1), tree_of("0153", seed=1)]
    solving(trees[0], 0)
    report = report_signature(trees, ENV, largest=2)
    first, second = report.largest
    assert (first.turns, first.ways, first.first_depth, first.last_depth, first.tree, first.turn) == (3, 1, 0, 0, 0, 0)
    assert (second.turns, second.ways, second.first_depth, second.tree, second.turn) == (3, 3, 2, 0, 2)
    assert first.solved == second.solved == 1 / 3
    assert second.observation == "in 2"
    assert [(state.turns, state.tree) for state in report_signature(trees, ENV, largest=9).largest] == [(3, 0), (3, 0), (2, 1)]


def test_other_signatures_on_the_same_trees() -> None:
    """Four observations in three rollouts; the recorded states are all different but the middle one of two rollouts."""
    tree = told([("hall", "a"), ("door", "b")], [("hall", "c"), ("door", "b")], [("Hall", "a"), ("door", "d")])
    counts = {name: report_signature([tree], make_signature(name)).merges for name in ("observation", "normalised", "actions")}
    assert {name: (merges.states, merges.merged_turns) for name, merges in counts.items()} == {
        "observation": (3, 5),
        "normalised": (2, 6),
        "actions": (3, 5),
    }
    assert counts["observation"].convergent_turns == 3 and counts["actions"].convergent_turns == 2


def test_two_trees_of_one_task_meet_and_two_tasks_do_not() -> None:
    one, other = report_signature([seen("a", "b"), seen("b", "c")], make_signature("observation")), seen("b", "c", seed=1)
    assert one.merges.merged_turns == 2
    apart = report_signature([seen("a", "b"), other], make_signature("observation"))
    assert apart.merges.merged_turns == 0 and apart.merges.states == 4


def test_a_report_is_the_sum_of_its_tasks() -> None:
    trees = [grow(CounterEnv(), seed, np.random.default_rng(seed + 10 * copy)) for seed in range(3) for copy in range(2)]
    tally = SignatureTally(ENV, label="mine")
    for seed in range(3):
        tally.add(trees[2 * seed : 2 * seed + 2], numbers=(2 * seed, 2 * seed + 1))
    report = report_signature(trees, ENV)
    assert report.merges == count_merges(trees) and tally.report().label == "mine"
    assert (tally.report().merges, tally.report().depths) == (report.merges, report.depths)
    assert sum(row.convergent for row in report.depths) == report.merges.convergent_turns
    assert report.largest == tally.report().largest and report.agreement == tally.report().agreement


def test_failed_rollouts_count_nowhere_but_in_their_own_figure() -> None:
    tree = told([("a", "x"), ("b", "y")], [("a", "z"), ("b", "y")], solved=[0])
    plain = report_signature([tree], make_signature("observation"))
    extend(tree, 0, [("b", "w"), ("b", "w")], stop_reason=StopReason.STEP_TIMEOUT)
    report = report_signature([tree], make_signature("observation"))
    assert report.merges.failed_turns == 2
    assert (report.depths, report.largest, report.recorded) == (plain.depths, plain.largest, plain.recorded)
    assert report.agreement == plain.agreement is not None
    assert outcomes(tree) == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]


def test_nothing_gives_an_empty_report() -> None:
    for trees in ([], [TrajectoryTree("test/Told-v0", 0)]):
        report = report_signature(trees, make_signature("observation"))
        assert (report.merges.turns, report.depths, report.largest, report.agreement) == (0, (), (), None)
        assert json.dumps(report.as_json(), allow_nan=False)


def test_json_is_strict_and_keeps_the_text() -> None:
    tree = told([("NaN", "a"), ("NaN", "c")], [("NaN", "b"), ("NaN", "d")], solved=[0])
    values = json.loads(json.dumps(report_signature([tree], make_signature("observation")).as_json(), allow_nan=False))
    assert values["largest"][0]["observation"] == "NaN"
    assert values["agreement"]["low"] is None and values["agreement"]["beyond_chance"] == 0.0
    assert values["merges"]["merge_rate"] == 1.0
    assert values["recorded"]["collided"] == 1 and values["replayed"] is None


# ---------------------------------------------------------------------- do merged states end alike?


def test_states_that_decide_the_outcome_agree_beyond_chance() -> None:
    """X is met by the two solved rollouts, Y by the two others; two of four rollouts end alike with probability (2 + 2) / 12."""
    tree = solving(tree_of("01X9", "02X9", "03Y8", "04Y8"), 0, 1)
    assert agreed(tree) == TaskAgreement(turns=4, agreed=4.0, chance=1 / 3)
    found = agreement([TaskAgreement(4, 4.0, 1 / 3)])
    assert found is not None and (found.observed, found.beyond_chance) == (1.0, 1.0) and np.isnan(found.low)


def test_states_that_mislead_agree_less_than_chance() -> None:
    tree = solving(tree_of("01X9", "02Y9", "03X8", "04Y8"), 0, 1)
    assert agreed(tree) == TaskAgreement(turns=4, agreed=0.0, chance=1 / 3)
    found = agreement([TaskAgreement(4, 0.0, 1 / 3)])
    assert found is not None and found.beyond_chance == pytest.approx(-0.5)


def test_a_fork_shares_the_weight_of_its_turn() -> None:
    """Turns 2 and 6 are siblings in X, one solved and one not; both met turn 5 there, which is not solved and met both of them."""
    tree = tree_of("01XA", "02XB")
    tree.add(make_turn(1, "X", "C", stop_reason=StopReason.TERMINATED))
    solving(tree, 0)
    assert outcomes(tree) == [0.5, 0.5, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert agreed(tree) == TaskAgreement(turns=3, agreed=0.0 + 1.0 + 0.5, chance=1 / 3)


def test_chance_is_what_any_dealing_of_the_outcomes_gives_on_average() -> None:
    tree = grow(CounterEnv(), 2, np.random.default_rng(5), roots=3, forks=3)
    rollouts = len(tree.leaves())
    for solved in (1, 3):
        found = [agreed(solving(tree, *chosen)) for chosen in combinations(range(rollouts), solved)]
        parts = [part for part in found if part]
        assert len(parts) == len(found) and parts[0].turns > 3
        mean = np.mean([part.agreed / part.turns for part in parts])
        assert mean == pytest.approx(parts[0].chance, abs=1e-12)


@pytest.mark.parametrize("rollouts", [(), (0, 1)])
def test_rollouts_that_all_end_alike_say_nothing(rollouts: tuple[int, ...]) -> None:
    assert agreed(solving(tree_of("01X9", "02X9"), *rollouts)) is None


def test_rollouts_that_never_meet_say_nothing() -> None:
    assert agreed(solving(tree_of("012", "034"), 0)) is None, "they start together, and that is no meeting"
    assert agreement([]) is None


def test_the_interval_is_over_tasks_and_comes_from_the_seed() -> None:
    parts = [TaskAgreement(4, 4.0, 0.5), TaskAgreement(4, 2.0, 0.5)]
    found = agreement(parts, seed=1)
    assert found is not None
    assert (found.tasks, found.turns, found.observed, found.chance) == (2, 8, 0.75, 0.5)
    assert (found.low, found.beyond_chance, found.high) == (0.0, 0.5, 1.0), "one task alone is drawn in a quarter of the resamples each"
    assert found == agreement(parts, seed=1)
    many = [TaskAgreement(4, 2.0 + index % 3, 0.5) for index in range(30)]
    bounds = [(found.low, found.high) for seed in (1, 2) if (found := agreement(many, seed))]
    assert bounds[0] != bounds[1] and all(low < 0.5 < high for low, high in bounds)


# ---------------------------------------------------------------------- collisions


def test_collisions_counted_by_hand() -> None:
    sightings = [
        Sighting("A", 0, "x", (1, 0)), Sighting("A", 1, "x", (1, 1)), Sighting("A", 2, "y", (2, 0)), Sighting("A", 3, "z", (2, 1)),
        Sighting("B", 0, "x", (3, 0)), Sighting("B", 1, "x", (3, 1)),
        Sighting("C", 0, "x", (4, 0)), Sighting("C", 0, "x", (4, 1)),
        Sighting("D", 0, "u", (5, 0)), Sighting("D", 0, "v", (5, 1)),
        Sighting("E", 0, "w", (6, 0)),
    ]  # fmt: skip
    found = find_collisions(sightings)
    assert found == Collisions(turns=11, compared=3, collided=2, misplaced=3, example=((1, 0), (2, 0)))
    assert found.rate == 2 / 3
    assert found + found == Collisions(22, 6, 4, 6, ((1, 0), (2, 0)))
    other = Collisions(2, 1, 1, 1, ((8, 0), (9, 0)))
    assert (found + other).example == found.example and (find_collisions([]) + other).example == other.example
    assert find_collisions([]) == Collisions(0, 0, 0, 0, None) and find_collisions([]).rate == 0


def test_collisions_against_what_was_recorded() -> None:
    tree = tree_of("0123", "0423", "0563")
    report = report_signature([tree], ENV)
    assert report.recorded is None, "it is what was recorded"
    assert report_signature([tree], make_signature("window")).recorded == Collisions(9, 0, 0, 0, None)
    blind = report_signature([tree], BLIND).recorded
    assert blind == Collisions(turns=9, compared=1, collided=1, misplaced=6, example=((0, 0), (0, 1)))


def test_collisions_against_given_digests_are_of_equal_depth() -> None:
    tree = tree_of("0123", "0423", "02")
    digests = {(0, turn): f"{name}, after {turn % 3} turns" for turn, name in enumerate("abcdec")}
    report = report_signature([tree, tree_of("0", seed=1)], ENV, exact={**digests, (0, 6): "a, after 0 turns"})
    assert report.replayed is not None
    assert report.replayed.example == ((0, 0), (0, 3)), "both are in state 0, in a and in d"
    assert (report.replayed.turns, report.replayed.compared, report.replayed.collided) == (7, 2, 1)
    moved = report_signature([tree_of("9", seed=1), tree], ENV, exact={(1, turn): digest for (_, turn), digest in digests.items()})
    assert moved.replayed is not None and moved.replayed.example == ((1, 0), (1, 3))


def test_an_exact_signature_is_not_accused() -> None:
    trees = [grow(CounterEnv(), seed, np.random.default_rng(seed)) for seed in range(4)]
    exact = {(number, index): str(turn.snapshot) for number, tree in enumerate(trees) for index, turn in enumerate(tree.turns)}
    report = report_signature(trees, ENV, exact=exact)
    assert report.replayed is not None and report.replayed.compared > 5 and report.replayed.collided == 0
    anyhow = {key: f"{digest} {place}" for place, (key, digest) in enumerate(exact.items())}
    wrong = report_signature(trees, ENV, exact=anyhow)
    assert wrong.replayed is not None and wrong.replayed.collided == wrong.replayed.compared > 5


def test_a_script_of_a_real_world() -> None:
    """up, down and down, up come to the same number; the actions so far are the same set as well, and `look` tells them apart."""
    tree = record(CounterEnv(), 0, "udl", "dul", "lud")
    assert [ends.before for ends in sign_trees(ENV, [tree])[0] if ends][2::3] == [
        tree.turns[0].state,
        tree.turns[0].state,
        tree.turns[1].state,
    ]
    states = [ends.before for ends in sign_trees(make_signature("actions"), [tree])[0] if ends]
    assert states[2] == states[5] != states[8]
