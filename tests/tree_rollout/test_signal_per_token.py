import pytest
from branching_trees import CRASH, END, select, through, tree, turn, turns_of

from tree_rollout.branching import Branch


def told(solved: float, unsolved: float) -> float:
    """By how much one more rollout lowers the variance of a Beta distribution, from the definition."""

    def variance(a: float, b: float) -> float:
        return a * b / ((a + b) ** 2 * (a + b + 1))

    chance = solved / (solved + unsolved)
    after = chance * variance(solved + 1, unsolved) + (1 - chance) * variance(solved, unsolved + 1)
    return variance(solved, unsolved) - after


def test_signal_by_hand() -> None:
    """Four rollouts of two turns, two solved: mean 1/2, prior 1 and 1. All start in S; A ends 1 0, B ends 1, C ends 0.

    Tokens to the end are 2 from S and 1 behind. S: 3 and 3, A: 2 and 2 of half the weight, B and C: 2 and 1 of a quarter each.
    """
    grown = through(("SA", True), ("SA", False), ("SB", True), ("SC", False))
    expected = {0: told(3, 3) / 2, 1: told(2, 2) / 2, 5: told(2, 1) / 4, 7: told(1, 2) / 4}
    assert told(2, 2) == pytest.approx(4 / 400) and told(2, 1) == pytest.approx(2 / 144)
    picked = select("signal_per_token", grown, 1)
    assert picked == [Branch(1, pytest.approx(0.005))]
    assert max(expected, key=lambda index: expected[index]) == 1
    # A again counts 2.5 and 2.5; then the starts, then A, and so on: the queue is followed, not the first score.
    counts = {0: [3.0, 3.0, 2.0], 1: [2.0, 2.0, 2.0], 5: [2.0, 1.0, 4.0], 7: [1.0, 2.0, 4.0]}
    for branch in select("signal_per_token", grown, 12):
        scores = {index: told(a, b) / per for index, (a, b, per) in counts.items()}
        best = max(scores, key=lambda index: round(scores[index], 12))
        assert branch == Branch(best, pytest.approx(scores[best], rel=1e-9))
        a, b, _ = counts[best]
        counts[best][0] += a / (a + b)
        counts[best][1] += b / (a + b)
    assert {0, 1, 5, 7} == {index for index, (a, b, _) in counts.items() if a + b > 3.1}


def test_signal_asks_for_fresh_starts_once_rollouts_agree_on_what_lies_behind() -> None:
    """The first turn decides. With two rollouts nobody knows that yet; with 40 the start is at 21 and 21, each side at 21 and 1."""
    few, many = (through(*[("Sw", True), ("Sl", False)] * times) for times in (1, 20))
    assert few.turns[select("signal_per_token", few, 1)[0].turn].state != "S"
    assert select("signal_per_token", many, 1) == [Branch(0, pytest.approx(told(21, 21) / 2))]
    assert told(21, 21) / 2 > told(21, 1) / 2


def test_signal_prefers_the_state_whose_rollouts_end_differently() -> None:
    grown = through(("SU", True), ("SU", True), ("SM", True), ("SM", False), ("SV", False), ("SV", False))
    assert grown.turns[select("signal_per_token", grown, 1)[0].turn].state == "M"


def test_signal_prefers_the_shorter_rest() -> None:
    """Two states with equal outcomes: from the one it is three tokens to the end, from the other one."""
    grown = through(("SLxx", True), ("SLyy", False), ("SQ", True), ("SQ", False))
    picked = select("signal_per_token", grown, 1)
    assert grown.turns[picked[0].turn].state == "Q"


def test_signal_counts_tokens_not_turns() -> None:
    def score(tokens: int) -> float:
        return select("signal_per_token", through(("S", True), ("S", False), tokens=tokens), 1)[0].score

    assert score(1) == pytest.approx(told(2, 2)) and score(5) == pytest.approx(told(2, 2) / 5)


def test_signal_counts_a_rollout_once_in_a_state_that_it_comes_back_to() -> None:
    once, often = (select("signal_per_token", through((path, True), ("S", False)), 1)[0] for path in ("S", "SSS"))
    assert once.score == pytest.approx(told(2, 2))
    # From S it is 3, 2, 1 and 1 tokens to the end.
    assert often.score == pytest.approx(told(2, 2) / (7 / 4))


def test_signal_counts_what_lies_below_one_turn_once_however_often_it_was_forked() -> None:
    """Root 0 was forked after its first turn, one of three continuations solved and one crashed; root 1 failed. Mean (.5 + 1) / 4."""
    grown = tree(
        turn(-1, "S"),
        turn(0, "A", stop=END, solved=True),
        turn(0, "A", [1.0] * 3, stop=END),
        turn(0, "A", stop=CRASH, solved=True),
        turn(-1, "S", stop=END),
    )
    a = 2 * 1.5 / 4
    starts, behind = told(a + 0.5, 3.5 - a) / ((3 + 1) / 2), told(a + 1, 3 - a) * 0.5 / 2
    picked = select("signal_per_token", grown, 1)
    assert picked == [Branch(0 if starts > behind else 1, pytest.approx(max(starts, behind)))]
    more = {branch.turn: branch.score for branch in reversed(select("signal_per_token", grown, 8))}
    assert more == pytest.approx({0: starts, 1: behind})


def test_signal_takes_the_first_turn_of_a_state_that_can_be_forked() -> None:
    grown = through(("SA", True), ("SA", False))
    grown.turns[1].snapshot = None
    grown.turns[0].snapshot = None
    assert set(turns_of(select("signal_per_token", grown, 6))) == {2, 3}


def test_signal_leaves_failed_rollouts_out() -> None:
    grown = through(("SA", True), ("SB", False))
    alone = select("signal_per_token", grown, 5)
    grown.add(turn(-1, "S", stop=CRASH, solved=True))
    assert select("signal_per_token", grown, 5) == alone


def test_signal_goes_on_where_all_rollouts_ended_alike() -> None:
    picked = select("signal_per_token", through(("SA", False), ("SB", False)), 4)
    assert len(picked) == 4 and all(branch.score > 0 for branch in picked)
