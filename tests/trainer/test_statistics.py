import math

import pytest

from trainer.statistics import Proportion, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # Newcombe (1998), table I, method 3 (score without continuity correction).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (29, 29, 0.8830, 1.0),
    ],
)
def test_wilson_matches_published_intervals(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5.1e-5)


def test_wilson_of_nothing_knows_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


def test_interval_holds_the_rate_and_shrinks_with_trials() -> None:
    widths = []
    for trials in (10, 100, 1000):
        share = Proportion(trials // 2, trials)
        assert share.low < share.rate < share.high
        widths.append(share.high - share.low)
    assert widths == sorted(widths, reverse=True)


def test_proportion_as_text() -> None:
    assert str(Proportion(81, 263)) == "30.8 % [25.5, 36.6]"
    assert str(Proportion(0, 0)) == "none tried"
    assert math.isnan(Proportion(0, 0).rate)


@pytest.mark.parametrize(("successes", "trials"), [(3, 2), (-1, 2)])
def test_impossible_proportion_is_refused(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="is no proportion"):
        Proportion(successes, trials)
