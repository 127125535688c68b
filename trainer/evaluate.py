"""An evaluation measures fixed held-out tasks, the same at every call with the same seed; what is sampled depends on that seed alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import envs
from trainer.backend import WorkerGroup
from trainer.config import Config
from trainer.errors import TooManyFailuresError
from trainer.rollout_outcome import Outcome
from trainer.statistics import Proportion
from tree_rollout.task import Task

MODES = {"sampled": 1.0, "greedy": 0.0}
"""Name of each way to act, and its temperature."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One mode's outcomes on all tasks; rollouts that do not count (`StopReason.counts`) are left out."""

    success: Proportion
    by_type: dict[str, Proportion]
    """Every type that the tasks have, also where none of its rollouts counts; empty where the environment knows no types."""
    mean_turns: float
    invalid_share: float
    failures: int

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], task_types: Sequence[str]) -> "Measurement":
        """Count the tasks' outcomes, whole and by type of task."""
        kinds: dict[str, list[bool]] = {kind: [] for kind in sorted(set(task_types)) if kind}
        for outcome, kind in zip(outcomes, task_types, strict=True):
            if kind and outcome.stop_reason.counts:
                kinds[kind].append(outcome.success)
        sound = [outcome for outcome in outcomes if outcome.stop_reason.counts]
        turns = sum(outcome.turns for outcome in sound)
        return cls(
            Proportion(sum(outcome.success for outcome in sound), len(sound)),
            {kind: Proportion(sum(won), len(won)) for kind, won in kinds.items()},
            turns / max(1, len(sound)),
            sum(outcome.invalid_turns for outcome in sound) / max(1, turns),
            sum(outcome.stop_reason.failed for outcome in outcomes),
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "success": proportion_json(self.success),
            "by_type": {kind: proportion_json(share) for kind, share in self.by_type.items()},
            "mean_turns": self.mean_turns,
            "invalid_share": self.invalid_share,
            "failures": self.failures,
        }

    @classmethod
    def of_json(cls, plain: dict[str, Any]) -> "Measurement":
        """What `as_json` gave."""
        by_type = {kind: _proportion(share) for kind, share in plain["by_type"].items()}
        return cls(**{**plain, "success": _proportion(plain["success"]), "by_type": by_type})


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All modes at one iteration."""

    iteration: int
    generated_tokens: int
    """Tokens that had been sampled for training by then."""
    modes: dict[str, Measurement] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        modes = {name: measurement.as_json() for name, measurement in self.modes.items()}
        return {"iteration": self.iteration, "generated_tokens": self.generated_tokens, "modes": modes}

    @classmethod
    def of_json(cls, plain: dict[str, Any]) -> "Evaluation":
        """What `as_json` gave."""
        modes = {name: Measurement.of_json(measurement) for name, measurement in plain["modes"].items()}
        return cls(plain["iteration"], plain["generated_tokens"], modes)

    def figures(self) -> dict[str, Any]:
        """Success by mode and by type of task, for the record of the iteration; a type of which no rollout counts is left out."""
        by_type = {
            mode: {kind: share.rate for kind, share in measured.by_type.items() if share.trials} for mode, measured in self.modes.items()
        }
        return {f"eval_{mode}": measured.success.rate for mode, measured in self.modes.items()} | {"eval_by_type": by_type}


def proportion_json(share: Proportion) -> dict[str, float | int | None]:
    """A proportion with its 95 % interval as plain values; the rate is None where nothing was tried."""
    return {
        "rate": share.rate if share.trials else None,
        "low": share.low,
        "high": share.high,
        "successes": share.successes,
        "tasks": share.trials,
    }


def held_out_tasks(config: Config, split: str | None = None, count: int | None = None, seed: int | None = None) -> list[Task]:
    """The fixed tasks of the evaluation split (or another one)."""
    evaluation, env = config.evaluation, config.env
    first = evaluation.seed if seed is None else seed
    arguments = env.arguments(split or env.eval_split)
    return [Task(env.id, first + number, arguments) for number in range(evaluation.tasks if count is None else count)]


def measure(
    workers: WorkerGroup, config: Config, tasks: Sequence[Task], kinds: Sequence[str], mode: str, version: int, seed: int | None = None
) -> Measurement:
    """Measure the present weights, which are called `version`, on tasks of these kinds in one mode; shard s takes every S-th task.

    Raises `TooManyFailuresError` where more rollouts failed than `run.max_failed_share` allows, or all of them.
    """
    shards, drawn = config.run.shards, config.evaluation.seed if seed is None else seed
    parts = workers.call("measure", [(tasks[shard::shards], MODES[mode], drawn, version) for shard in range(shards)])
    outcomes: list[Outcome] = [parts[index % shards][index // shards] for index in range(len(tasks))]
    failed = [(task, outcome) for task, outcome in zip(tasks, outcomes, strict=True) if outcome.stop_reason.failed]
    if len(failed) == len(tasks) or len(failed) > config.run.max_failed_share * len(tasks):
        task, first = failed[0]
        raise TooManyFailuresError(
            f"{len(failed)} of {len(tasks)} rollouts of the evaluation failed, and run.max_failed_share allows "
            f"{config.run.max_failed_share:g} of them; the first: task seed {task.seed}, {first.stop_reason}: {first.failure}"
        )
    return Measurement.of(outcomes, kinds)


def task_types(tasks: Sequence[Task]) -> list[str]:
    """What the environment calls each task's kind (`info["task_type"]` at reset); empty where it has no kinds, or fails to say."""
    kinds: list[str] = []
    worlds: dict[str, envs.TextEnv] = {}
    for task in tasks:
        if task.instance_key not in worlds:
            worlds[task.instance_key] = envs.make(task.env_id, **task.env_kwargs)
        kinds.append(_task_type(worlds[task.instance_key], task.seed))
    for world in worlds.values():
        world.close()
    return kinds


def _task_type(world: envs.TextEnv, seed: int) -> str:
    try:
        return str(world.reset(seed=seed)[1].get("task_type", ""))
    except envs.EnvsError:
        raise
    except Exception:
        return ""  # The rollout on this task will fail as well, and say why.


def _proportion(plain: dict[str, Any]) -> Proportion:
    return Proportion(plain["successes"], plain["tasks"])
