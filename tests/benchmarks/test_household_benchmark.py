from typing import Any

from benchmarks.household import rows


def result(seed: int, before: float, mean: float) -> dict[str, Any]:
    share = {"rate": before, "low": 0.1, "high": 0.5, "successes": int(200 * before), "tasks": 200}
    success = {"before": share, "after": {**share, "rate": mean}, "mean_of_last_3": mean}
    return {
        "seed": seed,
        "success": {"sampled": success, "greedy": success},
        "generated_tokens": 1000,
        "minutes": {"rollout": 2.0, "training": 1.0, "total": 3.0},
        "warm_start": {"minutes": 5.0},
        "trained_tokens": {"unique": 100, "flattened": 250},
    }


def test_seeds_are_averaged_and_the_warm_start_is_counted() -> None:
    found = {row.name: row for row in rows([result(0, 0.25, 0.75), result(1, 0.25, 0.85)])}
    mean = found["sampled success, mean of 2 seeds"]
    assert (mean.value, mean.baseline) == (0.8, 0.25)
    assert "gain +55.0 points" in mean.note
    assert found["greedy success, seed 1"].ratio == 0.85 / 0.25
    assert found["minutes, seed 0"].value == 8.0
    assert found["trained tokens"].ratio == 2.5
