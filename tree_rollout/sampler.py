"""One loop grows all trees at once: each engine call holds the next turn of every live rollout, and each rollout has its own environment.

Equal tasks, seeds and weights give equal trees, however the tasks are spread over calls (floating-point arithmetic of the engine aside).
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType

from agents.context import TurnTemplate
from agents.engine import Engine, Sample
from envs.text_env import TextEnv
from tree_rollout.branching import branching_rule
from tree_rollout.env_pool import EnvPool
from tree_rollout.errors import EngineAnswerError, SamplerError
from tree_rollout.growth import Ground, TreeGrowth
from tree_rollout.rollout import Rollout
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.task import Task


class Sampler:
    """Grows one `TrajectoryTree` per task with the policy that the engine serves.

    make_env: called as `make_env(env_id, **env_kwargs)`, for example `envs.make`.
    template: how a conversation becomes token ids.
    decode: the tokenizer's `decode`, from the ids of one sample to its text (transformers declares lists of texts as well).
    Environments are kept from call to call; use the sampler in a `with` block, or call `close()`.
    """

    def __init__(
        self,
        engine: Engine,
        make_env: Callable[..., TextEnv],
        template: TurnTemplate,
        decode: Callable[[list[int]], str | list[str]],
        settings: SamplerSettings,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self._template = template
        self._decode = decode
        self._pool = EnvPool(make_env)
        self._rule = branching_rule(settings.branching, settings.branching_options)

    def sample(self, tasks: Sequence[Task], *, run_seed: int, iteration: int = 0) -> SamplerReport:
        """Grow a tree for each task, and return them in the order of the tasks.

        The seed of each sampled turn is (run_seed, iteration, task seed, rollout number in the tree, depth), and the branching rule's
        generator comes from the first three: so a tree depends on its own task only. `token_budget` alone looks across trees.
        A rollout whose environment fails is part of its tree and of `SamplerReport.failures`; faults of the engine, and those of an
        environment that the user can mend, are raised.
        """
        _check(tasks, run_seed, iteration)
        report = SamplerReport()
        ground = Ground(self.engine, self._pool, self._template, self._decode, self.settings, self._rule, run_seed, iteration, report)
        growths = [TreeGrowth(task, ground) for task in tasks]
        started = time.perf_counter()
        try:
            for growth in growths:
                growth.start()
                growth.settle()
            while turns := [(growth, rollout) for growth in growths for rollout in growth.waiting()]:
                samples = self._generate(turns, report)
                for (growth, rollout), sample in zip(turns, samples, strict=True):
                    growth.take(rollout, sample)
                for growth in growths:
                    growth.settle()
        finally:
            for growth in growths:
                growth.abandon()
        report.trees = [growth.tree for growth in growths]
        report.rest_s = time.perf_counter() - started - report.engine_s - report.env_s
        return report

    def _generate(self, turns: Sequence[tuple[TreeGrowth, Rollout]], report: SamplerReport) -> list[Sample]:
        """One sample for each rollout, counted; an engine that holds other tokens than the tree records is an error at once."""
        requests = [growth.request(rollout) for growth, rollout in turns]
        with report.timing("engine_s"):
            samples = self.engine.generate(requests)
        if len(samples) != len(requests):
            raise EngineAnswerError(f"the engine answered {len(samples)} of {len(requests)} requests")
        for (_, rollout), request, sample in zip(turns, requests, samples, strict=True):
            count = len(sample.ids_T)
            if not 1 <= count <= request.max_tokens or len(sample.logprobs_T) != count or len(sample.entropies_T) != count:
                sizes = f"{count} tokens, {len(sample.logprobs_T)} log-probabilities and {len(sample.entropies_T)} entropies"
                raise EngineAnswerError(f"the engine sampled {sizes} where 1 to {request.max_tokens} of each were asked for")
            held, recorded = self.engine.length(request.handle), rollout.prompt_length + count
            if held != recorded:
                raise EngineAnswerError(f"the engine holds {held} tokens of a rollout that has {recorded}")
        report.engine_calls += 1
        report.prefilled_tokens += sum(len(request.ids_T) for request in requests)
        report.sampled_tokens += sum(len(sample.ids_T) for sample in samples)
        return samples

    def close(self) -> None:
        """Close the environments."""
        self._pool.close()

    def __enter__(self) -> "Sampler":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _check(tasks: Sequence[Task], run_seed: int, iteration: int) -> None:
    """Seeds must be usable, and no task may come twice: its trees would be the same to the last token."""
    for name, value in (("run_seed", run_seed), ("iteration", iteration)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SamplerError(f"{name} is {value!r}; give an integer that is not negative")
    counts = Counter((task.instance_key, task.seed) for task in tasks)
    for task in tasks:
        if counts[task.instance_key, task.seed] > 1:
            raise SamplerError(f"the task {task.env_id} with seed {task.seed} was given twice; the trees would be equal, so set more roots")
