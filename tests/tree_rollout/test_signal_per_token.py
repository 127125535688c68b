import numpy as np
import pytest
from branching_trees import CRASH, END, select, through, tree, turn, turns_of

from tree_rollout.branching import Branch, forkable_turns
from tree_rollout.branching.signal_per_token import SignalPerToken, _Plan
from tree_rollout.branching.state_evidence import StateEvidence, _falling

LATE = 0.7


def settled(grown, prior: float) -> list[float]:
    return StateEvidence.of(grown, prior).settled_N.tolist()


def test_what_a_turn_settles_by_hand() -> None:
    """Four rollouts of two turns, two solved: the variance of the outcomes is 1/3. A, met twice, ends 1 0: a spread of 1/2, one pair.

    In units of 1/3 that is 3/2 on one pair; the prior of turn 1 is (1/2)^.7 on one pair. B, met twice, ends 1 1.
    """
    grown = through(("SA", True), ("SA", False), ("SB", True), ("SB", True))
    variance, prior = 0.25, 0.5**LATE
    open_1 = (0.5 / variance + prior) / (2 + 1)
    open_a, open_b = (0.5 / variance + 8 * open_1) / (1 + 8), 8 * open_1 / (1 + 8)
    first = 1 - (open_a + open_b) / 2
    assert settled(grown, 8.0) == pytest.approx([first, open_a, first, open_a, first, open_b, first, open_b])


def test_what_is_open_only_falls_and_is_at_most_all() -> None:
    """At turn 1 rollouts that meet end alike, at turn 2 they do not: both turn numbers get the mean of what was seen."""
    grown = through(("SAX", True), ("SAY", True), ("SBX", False), ("SBY", False))
    evidence = StateEvidence.of(grown, 1000.0)
    first, second, last = evidence.settled_N[:3]
    # Turn 1: no spread on one pair's worth of visits in each state; turn 2: 1/2 on one pair in each, over a variance of 1/3.
    open_1, open_2 = (2 / 3) ** LATE / 3, (3 + (1 / 3) ** LATE) / 3
    assert second == pytest.approx(0.0, abs=5e-3) and last == pytest.approx((open_1 + open_2) / 2, abs=5e-3)
    assert first == pytest.approx(1 - last, abs=5e-3)
    assert _falling([1.0, 3.0, 2.0, 0.5], [1.0, 1.0, 2.0, 1.0]) == pytest.approx([2.0, 2.0, 2.0, 0.5])
    assert _falling([3.0, 1.0], [1.0, 5.0]) == [3.0, 1.0] and _falling([], []) == []


@pytest.mark.parametrize("solved", [True, False])
def test_where_all_rollouts_end_alike_the_prior_is_all_that_is_known(solved: bool) -> None:
    """Two and one tokens left of two: settled is 1 - (1/2)^.7, then the rest; meeting in A says nothing."""
    grown = through(("SA", solved), ("SA", solved))
    assert settled(grown, 8.0) == pytest.approx([1 - 0.5**LATE, 0.5**LATE] * 2)
    assert len(select("signal_per_token", grown, 4)) == 4


def test_scores_by_hand() -> None:
    """Two roots of two turns, s and 1 - s settled: D is s + 2 (1 - s) from the start and 2 (1 - s) behind the first turn.

    A fresh start takes D (1/2 - 1/3) off and costs 2 tokens; a fork of a second turn, of weight 1/2, 2 (1 - s) (1 - 1/2) / 4 for 1.
    """
    grown = through(("SA", True), ("SB", True))
    first, last = 1 - 0.5**LATE, 0.5**LATE
    whole, behind = first + 2 * last, 2 * last
    start, fork = whole * (1 / 2 - 1 / 3) / 2, behind / 2 / 4
    assert fork > start
    picked = select("signal_per_token", grown, 2)
    assert picked[0] == Branch(1, pytest.approx(fork))
    # The second root's last turn is as good as the first's was.
    assert picked[1] == Branch(3, pytest.approx(fork))
    # Both forked, half of what lies behind is gone, from the start as well; a second fork of one turn takes off 1/2 - 1/3 of it.
    again = behind * (1 / 2 - 1 / 3) / 4
    # The two roots have half their late noise left; a fresh one would have all of it.
    fresh = (2 * (first + behind / 2) / 4 - (2 * (first + behind / 2) + whole) / 9) / 2
    third = select("signal_per_token", grown, 3)[2]
    assert third == (Branch(0, pytest.approx(fresh)) if fresh > again else Branch(1, pytest.approx(again)))


def test_forks_of_one_rollout_tell_less_than_those_of_different_ones() -> None:
    """Four rollouts of eight turns that never meet: no rollout is forked twice before all have been."""
    grown = through(*((f"S{name * 7}", solved) for name, solved in zip("abcd", (True, False, True, False), strict=True)))
    roots = [index // 8 for index in turns_of(select("signal_per_token", grown, 4))]
    assert sorted(roots) == [0, 1, 2, 3]


def test_fresh_starts_where_rollouts_that_meet_end_alike() -> None:
    """The first turn decides: behind it every rollout ends as those that it meets."""
    grown = through(*[("Swvu", True), ("Slmn", False)] * 8)
    assert turns_of(select("signal_per_token", grown, 4)) == [0] * 4


def test_late_forks_where_rollouts_that_meet_end_differently() -> None:
    grown = through(*[("Sabc", True), ("Sabc", False)] * 8)
    assert {index % 4 for index in turns_of(select("signal_per_token", grown, 8))} == {3}


def test_the_state_whose_rollouts_end_differently_comes_first() -> None:
    grown = through(("SU", True), ("SU", True), ("SM", True), ("SM", False), ("SV", False), ("SV", False))
    assert grown.turns[select("signal_per_token", grown, 1, prior_rollouts=1.0)[0].turn].state == "M"


def test_how_the_forked_rollout_went_on_makes_no_difference() -> None:
    """Of two rollouts through one state the earlier is forked, whichever was solved, and at one score."""
    paths = [("SA", True), ("SA", False), ("SB", True), ("SB", False)]
    one, other = (select("signal_per_token", through(*(paths[k] for k in order)), 1)[0] for order in ((0, 1, 2, 3), (1, 0, 3, 2)))
    assert one.turn == other.turn == 1 and one.score == pytest.approx(other.score)


def test_tokens_count_not_turns() -> None:
    def score(tokens: int) -> float:
        return select("signal_per_token", through(("SA", True), ("SA", False), tokens=tokens), 1)[0].score

    assert score(5) == pytest.approx(score(1) / 5)


def test_a_rollout_counts_once_in_a_state_that_it_comes_back_to() -> None:
    """S is met three times by one rollout and once by the other: two visits, one pair, as if it had not come back."""
    grown = through(("SSS", True), ("S", False))
    evidence = StateEvidence.of(grown, 1e-3)
    assert evidence.state_N.tolist() == [0] * 4
    # All is open in S, so what comes after S in S leaves half of the visits' turns to settle it.
    assert evidence.settled_N == pytest.approx([0.5] * 4, abs=1e-3)


def test_what_lies_below_one_turn_counts_once_however_often_it_was_forked() -> None:
    """Root 0's fork sees 1 and 0 (a crash counts nothing), root 1 ends 0: outcomes 1/2 and 0. A was met by two rollouts, as it was once."""
    grown = tree(
        turn(-1, "S"),
        turn(0, "A", stop=END, solved=True),
        turn(0, "A", [1.0] * 3, stop=END),
        turn(0, "A", stop=CRASH, solved=True),
        turn(-1, "S", stop=END),
    )
    evidence = StateEvidence.of(grown, 8.0)
    assert evidence.children_P[1] == [1, 2] and evidence.counted_N.tolist() == [True, True, True, False, True]
    # From the roots 1 + 2 and 1 tokens, behind 1 and 3.
    assert evidence.left_N[[0, 1, 2, 4]] == pytest.approx([2, 2, 2, 2])


def test_the_first_turn_of_a_place_that_can_be_forked_stands_for_it() -> None:
    grown = through(("SA", True), ("SA", False))
    grown.turns[1].snapshot = None
    grown.turns[0].snapshot = None
    assert set(turns_of(select("signal_per_token", grown, 6))) == {2, 3}


def test_failed_rollouts_are_left_out_however_deep_they_went() -> None:
    grown = through(("SA", True), ("SB", False))
    alone = select("signal_per_token", grown, 5)
    parent = -1
    for state in "SABCD":
        parent = grown.add(turn(parent, state, stop=CRASH if state == "D" else None, solved=True))
    assert select("signal_per_token", grown, 5) == alone


def noise(children: list[list[int]], own: list[float], planned: list[tuple[int, float]], place: int = 0, weight: float = 1.0) -> float:
    """What lies below a place of that weight, from the definition; a planned fork is (its place, the noise of a whole continuation)."""
    forks = [whole for where, whole in planned if where == place]
    part = weight / max(len(children[place]) + len(forks), 1)
    below = sum(part**2 * own[turn] + noise(children, own, planned, turn + 1, part) for turn in children[place])
    return below + sum(part**2 * whole for whole in forks)


def test_a_score_is_the_noise_that_the_fork_takes_off_the_planned_tree_per_token() -> None:
    """Only turns that start in one place share a state, and one root was forked before; then forks above, below and beside each other."""
    grown = through(("SABC", True), ("SDEF", False), ("SGHI", True))
    parent = grown.add(turn(1, "B"))
    grown.add(turn(parent, "K", stop=END))
    evidence = StateEvidence.of(grown, 8.0)
    own = (evidence.settled_N * (1 + evidence.depth_N)).tolist()
    below = [own[turn] + noise(evidence.children_P, own, [], turn + 1) for turn in range(len(own))]
    plan = _Plan(grown, forkable_turns(grown), evidence)
    planned: list[tuple[int, float]] = []
    for place in (3, 1, 2, 0, 6, 3, 0, 1):
        before = noise(evidence.children_P, own, planned)
        for one, score in zip(plan.place_C.tolist(), plan.scores(), strict=True):
            whole = float(np.mean([below[turn] for turn in evidence.children_P[one]]))
            after = noise(evidence.children_P, own, [*planned, (one, whole)])
            assert score == pytest.approx(max(before - after, 0) / evidence.left_N[evidence.children_P[one][0]], abs=1e-12)
        chosen = plan.place_C.tolist().index(place)
        planned.append((place, float(plan.one_C[chosen])))
        plan.add(chosen)


def test_time_is_short_for_a_large_tree() -> None:
    import time

    rng = np.random.default_rng(0)
    paths = [("S" + "".join(chr(97 + letter) for letter in rng.integers(26, size=29)), bool(rng.integers(2))) for _ in range(16)]
    grown = through(*paths)
    rule = SignalPerToken()
    times = []
    for _ in range(5):
        start = time.process_time()
        assert len(rule.select(grown, 16, rng)) == 16
        times.append(time.process_time() - start)
    assert min(times) < 0.05
