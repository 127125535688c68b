"""A shard is one fixed part of a run's work: its demonstrations, its tasks' trees, and its share of every gradient.

It sees the weights in the shared vector and adds gradients to its own row; what it computes depends on its number, never on the
process that it runs in.
"""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

import envs
from agents.policy_folder import load_policy
from agents.transformers_engine import TransformersEngine
from trainer.configured_agent import configured_agent
from trainer.configured_engine import configured_engine
from trainer.imitation import Imitation
from trainer.learn_report import LearnReport
from trainer.loss import batch_coefficients, policy_loss
from trainer.mini_batch import Share
from trainer.prefix_tree import PrefixTreeBatch, micro_batches, pack
from trainer.rollout_outcome import Outcome
from trainer.rollout_settings import rollout_settings
from trainer.shard_spec import ShardSpec
from trainer.shared_parameters import SharedParameters
from trainer.task_source import TaskMemory
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import tree_attention
from tree_rollout.sampler import Sampler
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.task import Task
from tree_rollout.tree import TrajectoryTree

_ROWS = 32
_MEASURED_AT_ONCE = 256
"""Tasks of an evaluation that run together: their number bounds the memory, and is fixed so that results do not depend on it."""


class Shard:
    """The work of shard number `shard`; each public method is called by name through `ShardPool`."""

    def __init__(self, spec: ShardSpec, shard: int) -> None:
        self._spec = spec
        self._shard = shard
        self._config = spec.config
        self._model, self._tokenizer = load_policy(spec.policy_folder)
        shared = SharedParameters(spec.parameters, SharedParameters.size(self._model), spec.shards)
        shared.attach(self._model, shard)
        self._agent = configured_agent(spec.config.agent, self._tokenizer)
        self._engine: TransformersEngine | None = None
        self._imitation: Imitation | None = None
        self._reference: PreTrainedModel | None = None
        self._trees: list[TrajectoryTree] = []

    def ready(self) -> None:
        """Do nothing: an answer says that this shard has its model."""

    def record(self) -> None:
        """Record this shard's demonstrations."""
        config = self._config
        self._imitation = Imitation(config.env, config.warmstart, self._agent, self._shard, self._spec.shards)

    def imitate(self, step: int) -> dict[str, float]:
        """Add the imitation gradient of a step to this shard's row; see `Imitation.gradient`."""
        assert self._imitation is not None, "record() comes first"
        return self._imitation.gradient(self._model, step)

    def forget(self) -> None:
        """Let go of the demonstrations."""
        self._imitation = None

    def sample(self, tasks: Sequence[Task], iteration: int, version: int, memory: TaskMemory, more: bool = False) -> SamplerReport:
        """Grow one tree per task with the present weights, and keep the trees for `learn`; with `more`, beside those that are kept."""
        config = self._config
        report = self._grow(tasks, rollout_settings(config), config.run.seed, iteration, version, memory)
        self._trees = [*self._trees, *report.trees] if more else report.trees
        return report

    def learn(self, share: Share) -> LearnReport:
        """Add the gradient of the *summed* loss of a share of the kept trees to this shard's row."""
        config, report = self._config, LearnReport()
        trees = [self._trees[index] for index in share.trees]
        with tree_attention(self._model):
            for part in micro_batches(trees, share.weights, config.optimizer.micro_batch_tokens):
                chosen = slice(part.start, part.stop)
                batch = pack(trees[chosen], share.advantages[chosen], share.weights[chosen])
                reference_S = self._reference_logprobs(batch) if config.loss.kl_coefficient else None
                logprobs_S, entropies_S = token_logprobs(self._model, batch, temperature=config.rollout.temperature)
                loss, stats = policy_loss(
                    logprobs_S,
                    batch.behaviour_S,
                    batch.advantages_S,
                    batch_coefficients(batch, config.loss.aggregation),
                    1.0,
                    clip_low=config.loss.clip_low,
                    clip_high=config.loss.clip_high,
                    dual_clip=config.loss.dual_clip,
                    reference_T=reference_S,
                    kl_coefficient=config.loss.kl_coefficient,
                    entropies_T=entropies_S,
                )
                loss.backward()
                report += LearnReport(stats, batch.unique_tokens, batch.flat_tokens)
        return report

    def _reference_logprobs(self, batch: PrefixTreeBatch) -> torch.Tensor:
        """Log-probabilities under the start policy, which is read when it is first needed."""
        if self._reference is None:
            self._reference, _ = load_policy(self._spec.start_policy)
        with torch.no_grad(), tree_attention(self._reference):
            return token_logprobs(self._reference, batch, temperature=self._config.rollout.temperature)[0]

    def measure(self, tasks: Sequence[Task], temperature: float, seed: int, version: int) -> list[Outcome]:
        """One rollout per task with the present weights, without forks; nothing is kept."""
        config = self._config
        rollout = config.rollout
        settings = SamplerSettings.plain(
            config.env.max_turns,
            rollout.max_new_tokens,
            temperature,
            env_threads=rollout.env_threads,
            rollout_deadline_s=rollout.deadline_s,
        )
        outcomes: list[Outcome] = []
        for start in range(0, len(tasks), _MEASURED_AT_ONCE):
            report = self._grow(tasks[start : start + _MEASURED_AT_ONCE], settings, seed, 0, version)
            faults = {failure.task.seed: failure.message for failure in report.failures}
            outcomes += [Outcome.of(tree, faults.get(tree.seed, "")) for tree in report.trees]
        return outcomes

    def _grow(
        self, tasks: Sequence[Task], settings: SamplerSettings, seed: int, iteration: int, version: int, memory: TaskMemory | None = None
    ) -> SamplerReport:
        if self._engine is None:
            self._engine = configured_engine(self._config, self._model, self._agent, rows=_ROWS)
        self._engine.version = version
        with Sampler(self._engine, envs.make, self._agent, settings) as sampler:
            if memory is not None and memory.predictor is not None and sampler.allocation.predictor is not None:
                sampler.allocation.predictor.load_json(memory.predictor)
            return sampler.sample(tasks, run_seed=seed, iteration=iteration, history=None if memory is None else memory.history)
