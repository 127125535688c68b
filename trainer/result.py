"""A run's outcome as one JSON file: what was measured before and after, with intervals, and what it cost."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from trainer.config import Config
from trainer.evaluate import MODES, Evaluation, proportion_json
from trainer.run_state import RunState
from trainer.warm_start import WarmStartReport
from tree_rollout.stop_reason import StopReason

AVERAGED = 3
"""The outcome is the mean of this many last evaluations, since single ones rise and fall."""


def last_mean(evaluations: Sequence[Evaluation], mode: str) -> float:
    """Mean success rate of the last `AVERAGED` evaluations after the start (all there are, where there are fewer)."""
    chosen = evaluations[1:][-AVERAGED:] or evaluations[-1:]
    return sum(evaluation.modes[mode].success.rate for evaluation in chosen) / len(chosen)


def result_record(config: Config, state: RunState, warm_start: WarmStartReport | None) -> dict[str, Any]:
    """What goes into result.json."""
    evaluations = state.evaluations
    last = evaluations[-1]
    minutes = {phase: seconds / 60 for phase, seconds in state.seconds.items()}
    return {
        "benchmark": config.benchmark,
        "method": config.credit.method,
        "seed": config.run.seed,
        "iterations": last.iteration,
        "success": {mode: _success(evaluations, mode) for mode in MODES},
        "by_type": {mode: last.modes[mode].as_json()["by_type"] for mode in MODES},
        "generated_tokens": state.generated_tokens,
        "env_steps": state.env_steps,
        "rollouts": state.rollouts,
        "branches": state.branches,
        "trained_tokens": {"unique": state.unique_tokens, "flattened": state.flattened_tokens},
        "stop_reasons": dict(state.stop_reasons),
        "failures": {reason: state.stop_reasons[reason] for reason in StopReason if reason.failed},
        "minutes": minutes | {"total": sum(minutes.values())},
        "warm_start": None if warm_start is None else asdict(warm_start),
        "evaluations": [
            {
                "iteration": evaluation.iteration,
                "generated_tokens": evaluation.generated_tokens,
                **{mode: proportion_json(evaluation.modes[mode].success) for mode in MODES},
            }
            for evaluation in evaluations
        ],
    }


def _success(evaluations: Sequence[Evaluation], mode: str) -> dict[str, Any]:
    before, after, mean = evaluations[0].modes[mode].success, evaluations[-1].modes[mode].success, last_mean(evaluations, mode)
    return {
        "before": proportion_json(before),
        "after": proportion_json(after),
        f"mean_of_last_{AVERAGED}": mean,
        "gain_points": 100 * (mean - before.rate),
    }
