import math
import time

import numpy as np
import pytest
from branching_trees import CRASH, END, tree, turn
from hypothesis import given, settings
from hypothesis import strategies as st
from stopping_views import fork, says, sure, view

from tree_rollout.branching.hybrid import group_confidences
from tree_rollout.confidence import confidence, mean_confidence
from tree_rollout.stop_reason import StopReason
from tree_rollout.stopping import RolloutView, stopping_rule
from tree_rollout.stopping.decided import beta_below_half, chance_of_turning
from tree_rollout.stopping.edit_distance import closer_than, edit_distance, least_distance
from tree_rollout.tree import TrajectoryTree


def table_distance(first: list[int], second: list[int]) -> int:
    """The edit distance as it is written down."""
    row = list(range(len(second) + 1))
    for i, symbol in enumerate(first, start=1):
        above, row = row, [i]
        for j, other in enumerate(second, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (symbol != other)))
    return row[-1]


# ---------------------------------------------------------------------- edit distance


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("", "", 0), ("abcdef", "bcdefa", 2), ("ab", "ba", 2), ("a", "a", 0)],
)
def test_edit_distance_by_hand(first: str, second: str, distance: int) -> None:
    assert edit_distance(first, second) == edit_distance(second, first) == distance


@settings(max_examples=300, deadline=None)
@given(*[st.lists(st.integers(0, 3), max_size=80) for _ in range(2)], st.floats(0.01, 1))
def test_edit_distance_is_exact_and_its_bound_holds(first: list[int], second: list[int], share: float) -> None:
    distance = table_distance(first, second)
    assert edit_distance(first, second) == distance
    assert abs(len(first) - len(second)) <= least_distance(first, second) <= distance
    assert closer_than(first, second, share) == (distance < share * max(len(first), len(second), 1))


def test_the_bound_sees_what_was_never_said_and_how_often() -> None:
    assert [least_distance("aabb", other) for other in ("bbaa", "abab", "aacc", "aaab", "ab", "aabbc")] == [0, 0, 2, 1, 2, 1]


def test_thirty_turns_of_two_hundred_tokens_are_compared_in_a_moment() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(1000, size=6000)
    second = np.where(rng.random(6000) < 0.1, rng.integers(1000, size=6000), first)
    started = time.perf_counter()
    assert closer_than(first.tolist(), second.tolist(), 0.2)
    assert time.perf_counter() - started < 2, "a table of 36 million entries, row by row, takes longer"


# ---------------------------------------------------------------------- similar_siblings


def asked(rule: str, path: RolloutView, *others: RolloutView, **options: object) -> bool:
    return stopping_rule(rule, options).should_stop(path, others)


def test_similar_siblings_by_hand() -> None:
    """abcde fghij against abcdx fghiy: 2 edits of 10 letters."""
    elder, younger = view(0, says("abcde"), says("fghij")), view(1, says("abcdx"), says("fghiy"))
    assert asked("similar_siblings", younger, elder, window=2, distance=0.21)
    assert not asked("similar_siblings", younger, elder, window=2, distance=0.2), "below the share, not at it"
    assert not asked("similar_siblings", elder, younger, window=2, distance=0.21), "the elder one stays"
    assert asked("similar_siblings", younger, elder, window=2, distance=1, by="actions") is False, "both actions differ"
    assert asked("similar_siblings", view(1, says("abcde"), says("x")), elder, window=2, distance=0.51, by="actions")


def test_similar_siblings_compares_once_when_the_younger_one_is_that_far() -> None:
    elder = view(0, *[says("abc")] * 5)
    for turns in range(1, 6):
        assert asked("similar_siblings", view(1, *[says("abc")] * turns), elder, distance=0.9) == (turns == 3)
    assert not asked("similar_siblings", view(1, *[says("abc")] * 3), view(0, *[says("abc")] * 2, over=True), distance=0.9), (
        "it ended before"
    )
    late = fork(2, elder, 4, says("abc"), says("abc"), says("abc"))
    assert not asked("similar_siblings", late, elder, view(1, says("abc"), over=True), distance=0.9), "neither is that far"


def test_what_is_plainly_different_is_not_compared_symbol_by_symbol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tree_rollout.stopping.edit_distance.edit_distance", lambda first, second: 1 / 0)
    assert not closer_than("aaaa", "abcd", 0.75)
    with pytest.raises(ZeroDivisionError):
        closer_than("aaaa", "abcd", 0.8)


def test_siblings_part_at_the_first_turn_of_the_younger_ones_own() -> None:
    root = view(0, says("a"), says("b"), says("c"), says("d"), says("e"), over=True)
    other_root = view(1, says("x"), says("b"), says("c"), says("d"), says("e"), over=True)
    same = fork(2, root, 2, says("c"), says("d"))
    assert same.start == 2 and root.start == 0
    assert asked("similar_siblings", same, root, window=2)
    assert not asked("similar_siblings", same, other_root, window=2), "it parted before"
    sibling = fork(3, root, 2, says("c"), says("d"))
    assert asked("similar_siblings", sibling, same, window=2)
    assert not asked("similar_siblings", sibling, fork(2, root, 1, says("b"), says("c"), says("d")), window=2), "it parted earlier"
    assert not asked("similar_siblings", fork(3, root, 2, says("c"), says("q")), root, same, window=2)
    # A fork that left further down is, up to there, the rollout that it left: alike, but no sibling.
    deeper = fork(1, root, 3, says("d"))
    again = fork(2, root, 2, says("c"), says("d"))
    assert asked("similar_siblings", again, deeper, window=2), "the two part at the turn c, and say the same"
    assert not asked("similar_siblings", fork(3, deeper, 3, says("z"), says("y")), deeper, window=2)


def test_what_a_turn_shares_with_itself_is_no_similarity() -> None:
    """A fork of a fork shares its first turns with it; before it parts it cannot be similar."""
    root = view(0, says("a"), says("b"), says("c"))
    late = fork(1, root, 2, says("q"))
    assert late.turns[:2] == root.turns[:2]
    assert not asked("similar_siblings", late, root, window=1)
    assert asked("similar_siblings", fork(1, root, 2, says("c")), root, window=1)


def test_a_rollout_that_failed_or_was_stopped_stops_nobody() -> None:
    younger = view(2, says("abc"))
    for reason in StopReason:
        elder = view(0, says("abc", reason=reason), over=True)
        assert asked("similar_siblings", younger, elder, window=1) == reason.counts
    assert asked("similar_siblings", younger, view(0, says("abc"), over=False), window=1)


def test_observations_are_not_compared() -> None:
    one, other = says("abc"), says("abc")
    other.ids_T[:2] = 7
    assert asked("similar_siblings", view(1, one), view(0, other), window=1, distance=0.001)


# ---------------------------------------------------------------------- low_confidence


def test_confidence_is_one_formula() -> None:
    """The geometric mean of .2 and .8 is .4; a turn without sampled tokens has none."""
    grown = tree(turn(-1, entropy=[1.0, 1.0], logprob=np.log([0.2, 0.8]).tolist()), turn(0, logprob=np.log(0.1)), turn(1, entropy=[]))
    assert [confidence(made) for made in grown.turns[:2]] == pytest.approx([0.4, 0.1])
    assert confidence(grown.turns[2]) is None and mean_confidence(grown.turns[2:]) is None
    for window in (1, 2, 3):
        expected = [mean_confidence(grown.turns[max(0, end - window) : end]) for end in (1, 2)]
        assert group_confidences(grown, window)[:2] == pytest.approx(expected)


def test_low_confidence_by_hand() -> None:
    """Own .1, .3: mean .2 over two turns. Others .8 and .4 up to that depth, mean .6; what they did later does not matter."""
    own, others = sure(0, [0.9, 0.1, 0.3]), (sure(1, [0.1, 0.8, 0.8, 0.01]), sure(2, [0.1, 0.4, 0.4]))
    assert asked("low_confidence", own, *others, window=2, share=0.34)
    assert not asked("low_confidence", own, *others, window=2, share=0.33)
    assert not asked("low_confidence", own, *others, window=3, share=0.34), "over three turns it is .433 of .433"
    assert not asked("low_confidence", own, *others, window=4), "it is not far enough to be judged"
    assert not asked("low_confidence", own, *others, window=2, least_others=3)
    assert asked("low_confidence", sure(0, [0.7]), sure(1, [0.8]), sure(2, [0.8]), window=1, share=0.9), ".7 is below .72"
    assert not asked("low_confidence", own, others[0], window=2) and asked("low_confidence", own, others[0], window=2, least_others=1)


def test_a_rollout_that_is_a_turn_behind_or_ended_before_is_measured_by_as_well() -> None:
    own = sure(0, [0.9, 0.1, 0.1])
    behind, ended = sure(1, [0.8, 0.8]), sure(2, [0.8, 0.8], END)
    assert asked("low_confidence", own, behind, ended, window=2)
    assert not asked("low_confidence", own, behind, sure(2, [0.8], END), window=2), "one turn is too short"


def test_the_last_live_rollout_of_a_tree_stays() -> None:
    own, over = sure(0, [0.1] * 4), [sure(number, [0.9] * 4, END) for number in (1, 2, 3)]
    assert not asked("low_confidence", own, *over)
    assert asked("low_confidence", own, *over, sure(4, [0.9] * 2))
    stopped = sure(4, [0.9] * 4, StopReason.PRUNED_UNSURE)
    assert not asked("low_confidence", own, *over, stopped)


def test_rollouts_that_do_not_count_set_no_scale() -> None:
    own, live = sure(0, [0.3] * 4), sure(1, [0.5] * 4)
    for reason in StopReason:
        assert asked("low_confidence", own, live, sure(2, [1.0] * 4, reason), share=0.5) == reason.counts


# ---------------------------------------------------------------------- decided


@pytest.mark.parametrize(("solved", "failed", "chance"), [(0, 0, 1 / 2), (3, 0, 1 / 16), (4, 0, 1 / 32), (5, 1, 1 / 16), (6, 1, 9 / 256)])
def test_the_chance_by_hand(solved: int, failed: int, chance: float) -> None:
    """P(p < 1/2) under Beta(s + 1, f + 1) is the chance of at least s + 1 heads among s + f + 1 tosses of a fair coin."""
    assert chance_of_turning(solved, failed) == pytest.approx(chance, rel=1e-12)
    assert chance_of_turning(failed, solved) == chance_of_turning(solved, failed)


def test_the_chance_is_that_of_a_fair_coin_for_any_numbers() -> None:
    for a in range(1, 60):
        for b in range(1, a + 1):
            heads = sum(math.comb(a + b - 1, k) for k in range(a, a + b)) / 2 ** (a + b - 1)
            assert beta_below_half(a, b) == pytest.approx(heads, rel=1e-12)
    assert beta_below_half(5000, 5000) == pytest.approx(0.5, rel=1e-10)
    assert 0 < beta_below_half(900, 1) < 1e-200


def test_the_chance_between_whole_numbers_is_the_integral() -> None:
    p = (np.arange(400_000) + 0.5) / 400_000
    for a, b in ((4.5, 1.5), (3.25, 2.75), (7.3, 1.0)):
        density = p ** (a - 1) * (1 - p) ** (b - 1)
        assert beta_below_half(a, b) == pytest.approx(density[p < 0.5].sum() / density.sum(), rel=1e-5)


def starts(solved: int, failed: int, crashed: int = 0, pruned: int = 0) -> TrajectoryTree:
    """A tree of fresh starts of two turns each."""
    grown = TrajectoryTree("test/World-v0", 0)
    reasons = [*[END] * (solved + failed), *[CRASH] * crashed, *[StopReason.PRUNED_SIMILAR] * pruned]
    for number, reason in enumerate(reasons):
        grown.add(turn(grown.add(turn(-1)), stop=reason, solved=number < solved))
    return grown


def test_enough_needs_agreement_and_some_outcomes() -> None:
    decided = stopping_rule("decided")
    assert [decided.enough(starts(solved, 0)) for solved in range(7)] == [False] * 4 + [True] * 3
    assert [decided.enough(starts(0, failed)) for failed in (3, 4)] == [False, True]
    assert [decided.enough(starts(solved, 1)) for solved in (5, 6)] == [False, True]
    assert [decided.enough(starts(solved, 0, crashed=3, pruned=3)) for solved in (0, 3, 4)] == [False, False, True], "no outcomes"
    assert stopping_rule("decided", {"doubt": 0.07}).enough(starts(5, 1))
    assert stopping_rule("decided", {"doubt": 0.07, "least": 3}).enough(starts(3, 0))
    assert [stopping_rule("decided", {"least": 6}).enough(starts(solved, 0)) for solved in (5, 6)] == [False, True]
    assert not decided.should_stop(sure(0, [0.5] * 5), [])


def test_a_turn_that_was_forked_often_does_not_decide_a_task() -> None:
    """Three fresh starts, one of them forked to five solved rollouts: three outcomes, not seven."""
    grown = starts(3, 0)
    for _ in range(4):
        grown.add(turn(0, stop=END, solved=True))
    assert not stopping_rule("decided").enough(grown)
    # Four starts, the first solved in one of two forks: 3.5 against .5.
    grown = starts(4, 0)
    grown.add(turn(0, stop=END))
    chance = chance_of_turning(3.5, 0.5)
    assert 1 / 32 < chance < chance_of_turning(4, 1)
    assert stopping_rule("decided", {"doubt": chance + 1e-9}).enough(grown)
    assert not stopping_rule("decided", {"doubt": chance - 1e-9}).enough(grown)


# ---------------------------------------------------------------------- length_limit


def test_length_limit_counts_turns_sampled_tokens_and_all_tokens() -> None:
    """Three turns of 2 observation tokens and 3, 4 and 5 sampled ones: 12 sampled, 18 in all."""
    path = view(0, says("abc"), says("abcd"), says("abcde"))
    for option, length in (("turns", 3), ("tokens", 12), ("context", 18)):
        reached = [asked("length_limit", path, **{option: limit}) for limit in (length - 1, length, length + 1)]
        assert reached == [True, True, False]
    assert asked("length_limit", path, turns=9, tokens=12) and not asked("length_limit", path, turns=9, tokens=13)


def test_the_turns_that_a_fork_shares_count() -> None:
    root = view(0, *[says("abc")] * 4)
    late = fork(1, root, 3, says("x"))
    assert asked("length_limit", late, turns=4) and asked("length_limit", late, tokens=10) and not asked("length_limit", late, tokens=11)


def test_the_outcome_of_a_length_limit_is_its_reason() -> None:
    keep, mask = (stopping_rule("length_limit", {"turns": 3, "outcome": outcome}) for outcome in ("keep", "mask"))
    assert (keep.reason, mask.reason) == (StopReason.OVERLONG, StopReason.OVERLONG_MASKED)
    assert (keep.decision, mask.decision) == ("prospective", "retrospective")
