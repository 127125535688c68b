"""One iteration: sample trees, put them on disk, assign credit, then learn from them in a fixed number of optimizer steps."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.backend import Backend
from trainer.config import Config
from trainer.critic_credit import CriticValues
from trainer.errors import TooManyFailuresError
from trainer.iteration_metrics import IterationMetrics
from trainer.learn_report import LearnReport
from trainer.mini_batch import mini_batches
from trainer.run_state import RunState
from trainer.sampled_trees import SampledTrees
from trainer.scoring import attach_proximal, charge, criticised
from trainer.task_source import TaskSource
from trainer.tree_credit import TreeCredit, assign
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.task import Task
from tree_rollout.task_choice import refill
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree


class Trainer:
    """Advances a run by one iteration at a time; `state` says where it stands."""

    def __init__(self, config: Config, backend: Backend, trace: Trace, state: RunState) -> None:
        self._config = config
        self._backend = backend
        self._trace = trace
        self._tasks = TaskSource(config, state)
        self._metrics = IterationMetrics(state)
        self.state = state

    def advance(self) -> dict[str, Any]:
        """Do the next iteration and return its metrics."""
        number, restarts = self.state.iteration + 1, self._backend.restarts
        with self.state.timing("rollout"):
            sampled = self._sample(number)
        chosen = [sampled.trees[index] for index in sampled.chosen]
        shards = [sampled.shards[index] for index in sampled.chosen]
        judged, divergence = self._charged(chosen, shards)
        values = self._criticised(chosen, shards)
        with self.state.timing("credit"):
            assigned = assign(judged, self._config.credit, self._config.reward, number, values)
        advantages: list[Any] = [None] * len(sampled.trees)
        for index, credit in zip(sampled.chosen, assigned.trees, strict=True):
            advantages[index] = credit.advantages_N
        with self.state.timing("trace"):
            self._trace.append(sampled.trees, number, advantages)
        self._check_failures(sampled.reports, number)
        with self.state.timing("training"):
            learned = self._learn(chosen, assigned.trees, shards, number)
        self.state.iteration, self.state.version = number, self._backend.learner.version
        figures = {f"credit_{name}": value for name, value in assigned.diagnostics.items()}
        figures |= self._tasks.observe(sampled.trees, number) | sampled.figures | divergence
        figures["restarts"] = self._backend.restarts - restarts
        return self._metrics.record(number, sampled.reports, sampled.trees, assigned.trees) | figures | learned

    def _sample(self, number: int) -> SampledTrees:
        """This iteration's trees; with dynamic sampling in rounds, until enough are worth learning from."""
        config = self._config.rollout
        sampled = SampledTrees()
        draw = config.tasks
        while draw:
            tasks = self._tasks.draw(number, draw, sampled.tasks)
            sampled.add(tasks, self._round(tasks, number))
            draw = 0
            if config.dynamic_sampling.most is not None:
                drawn, fill_up = len(sampled.tasks), config.dynamic_sampling.fill_up
                outcome = refill(config.tasks, sampled.trees, drawn, config.most_tasks, fill_up=fill_up)
                draw = sampled.refilled(outcome)
        return sampled

    def _round(self, tasks: Sequence[Task], number: int) -> list[SamplerReport]:
        """Shard s takes every S-th task."""
        shards = self._config.run.shards
        parts, version = [tasks[shard::shards] for shard in range(shards)], self._backend.learner.version
        return self._backend.rollout.call("sample", [(part, number, version, self._tasks.memory(part)) for part in parts])

    def _check_failures(self, reports: Sequence[SamplerReport], number: int) -> None:
        """Stop where too many rollouts failed; the trees that show it are on the disk by now."""
        failures = [failure for report in reports for failure in report.failures]
        rollouts = sum(report.rollouts for report in reports)
        if len(failures) > self._config.run.max_failed_share * rollouts:
            first = failures[0]
            raise TooManyFailuresError(
                f"{len(failures)} of {rollouts} rollouts of iteration {number} failed, and run.max_failed_share allows "
                f"{self._config.run.max_failed_share:g} of them; the first: task seed {first.task.seed}, {first.reason}: {first.message}"
            )

    def _charged(self, trees: Sequence[TrajectoryTree], shards: Sequence[int]) -> tuple[Sequence[TrajectoryTree], dict[str, float]]:
        """What credit is assigned to: the trees as they are, unless the divergence from the start policy counts in their rewards."""
        config = self._config
        if config.loss.kl_in != "reward":
            return trees, {}
        with self.state.timing("training"):
            judged, divergence = charge(self._backend.learning, trees, shards, config.run.shards, config.loss)
        return judged, {"reward_kl": divergence}

    def _criticised(self, trees: Sequence[TrajectoryTree], shards: Sequence[int]) -> CriticValues | None:
        """What the critic says before it learns from them; None where there is none."""
        config = self._config
        if config.critic.kind == "none":
            return None
        with self.state.timing("training"):
            return criticised(self._backend.learning, trees, shards, config.run.shards, config.critic)

    def _learn(
        self, trees: Sequence[TrajectoryTree], credits: Sequence[TreeCredit], shards: Sequence[int], number: int
    ) -> dict[str, float]:
        """The iteration's optimizer steps; how many is set by the configuration alone."""
        config = self._config
        rng = np.random.default_rng([config.run.seed, 4, number])
        steps: list[LearnReport] = []
        norms: list[float] = []
        batches = mini_batches(trees, credits, shards, config.optimizer.mini_batches, config.run.shards, rng)
        if config.loss.decoupled:
            attach_proximal(self._backend.learning, batches)
        for batch in batches:
            reports: list[LearnReport] = self._backend.learning.call("learn", [(share,) for share in batch.shares])
            learned = sum(reports, LearnReport())
            if config.loss.constant is not None:
                scale = 1 / config.loss.constant  # Summed losses are divided by a constant: what is not computed adds nothing to them.
            else:
                scale = batch.informative_share / (learned.stats.coefficient or 1.0)
            # VCPO (arXiv 2602.17616): the less samples count, the noisier the gradient, the smaller the step.
            rate = math.sqrt(learned.stats.ess) if config.loss.ess_learning_rate and learned.stats.coefficient else 1.0
            norms.append(self._backend.learner.step(number, scale, rate))
            steps.append(learned)
        total, first = sum(steps, LearnReport()), steps[0].stats.means()
        self.state.unique_tokens += total.unique_tokens
        self.state.flattened_tokens += total.flattened_tokens
        figures = {f"loss_{name}": value for name, value in total.stats.means().items()}
        # Before the first step the policy is the one that sampled: what differs there is what computes it.
        figures |= {f"first_{name}": first[name] for name in ("behaviour_kl", "max_ratio")}
        if config.critic.kind != "none":
            figures |= {f"critic_{name}": value for name, value in total.values.means().items()}
        sharing = total.flattened_tokens / max(1, total.unique_tokens)
        return figures | {
            "trained_tokens": total.unique_tokens,
            "recomputed_tokens": total.recomputed_tokens,
            "recomputed_share": total.recomputed_tokens / max(1, total.unique_tokens),
            "sharing": sharing,
            "gradient_norm": float(np.mean(norms)),
        }
