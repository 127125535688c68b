"""A shard is one fixed part of a run's work: its demonstrations, its tasks' trees, and its share of every gradient.

It takes its weights from the shared vector and adds gradients to its own row; what it computes depends on its number, never on the
process that it runs in.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch

import envs
from agents.engine import Engine
from agents.transformers_engine import TransformersEngine
from envs.text_env import TextEnv
from trainer.attached_weights import AttachedWeights
from trainer.configured_agent import configured_agent
from trainer.configured_engine import configured_engine
from trainer.critic import make_critic, trained
from trainer.device import CPU
from trainer.imitation import Imitation
from trainer.learn_report import LearnReport
from trainer.mini_batch import Share
from trainer.policy_gradient import PolicyGradient
from trainer.rollout_outcome import Outcome
from trainer.rollout_settings import rollout_settings
from trainer.shard_spec import ShardSpec
from trainer.shared_parameters import SharedParameters
from trainer.task_source import TaskMemory
from trainer.token_columns import Floats
from trainer.trained_model import load_trained
from trainer.tree_encoding import KeptTree
from trainer.tree_imitation import ImitationSums, TreeImitation
from trainer.vllm_host import VllmHost
from tree_rollout.sampler import Sampler
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.steady_sampler import SteadySampler
from tree_rollout.task import Task

ROWS = 32
"""Sequences that an engine has room for at once; more on demand."""
MEASURED_AT_ONCE = 256
"""Tasks of an evaluation that run together: their number bounds the memory, and is fixed so that results do not depend on it."""


class Shard:
    """The work of shard number `shard`; each public method is called by name through a `WorkerGroup`.

    `make_env` makes the environments that it samples in, `device` holds its model, and `vllm` samples in the model's place, if given.
    """

    def __init__(
        self,
        spec: ShardSpec,
        shard: int,
        make_env: Callable[..., TextEnv] = envs.make,
        *,
        device: torch.device = CPU,
        vllm: VllmHost | None = None,
    ) -> None:
        self._spec = spec
        self._shard = shard
        self._make_env = make_env
        self._config = spec.config
        self._vllm = vllm
        self._model, self._tokenizer = load_trained(spec.config.policy, spec.policy_folder, spec.config.warmstart.seed)
        self._model.to(device)  # pyright: ignore[reportArgumentType]
        critic = make_critic(spec.config.critic, self._model)
        whole = trained(self._model, critic)
        self._shared = SharedParameters.of(whole, spec.parameters, len(spec.rows))
        self._weights = AttachedWeights(whole, self._shared, spec.rows.index(shard) if shard in spec.rows else None)
        self._agent = configured_agent(spec.config.agent, self._tokenizer)
        self._engine: TransformersEngine | None = None
        self._imitation: Imitation | None = None
        self._gradient = PolicyGradient(spec.config, self._model, spec.start_policy, critic)

    def ready(self) -> None:
        """Do nothing: an answer says that this shard has its model."""

    def record(self) -> None:
        """Record this shard's demonstrations."""
        config = self._config
        self._imitation = Imitation(config.env, config.warmstart, self._agent, self._shard, self._spec.shards)

    def imitate(self, step: int) -> dict[str, float]:
        """Add the imitation gradient of a step to this shard's row; see `Imitation.gradient`."""
        assert self._imitation is not None, "record() comes first"
        with self._present_weights():
            return self._imitation.gradient(self._model, step)

    def forget(self) -> None:
        """Let go of the demonstrations."""
        self._imitation = None

    def demonstrated_loss(self, held_out: int) -> dict[str, float]:
        """The sums of `Imitation.loss` over this shard's part of so many held-out episodes."""
        config = self._config
        episodes = Imitation(config.env, config.warmstart, self._agent, self._shard, self._spec.shards, held_out=held_out)
        with self._present_weights():
            return episodes.loss(self._model)

    def imitate_trees(self, kept: Sequence[KeptTree]) -> ImitationSums:
        """Add the gradient of the *summed* imitation loss of recorded trees to this shard's row."""
        with self._present_weights():
            return TreeImitation(self._config.optimizer, self._model).add(kept)

    def trees_loss(self, kept: Sequence[KeptTree]) -> ImitationSums:
        """The summed imitation loss of recorded trees."""
        with self._present_weights():
            return TreeImitation(self._config.optimizer, self._model).loss(kept)

    def sample(self, tasks: Sequence[Task], iteration: int, version: int, memory: TaskMemory) -> SamplerReport:
        """Grow one tree per task with the present weights."""
        config = self._config
        return self._grow(tasks, rollout_settings(config), config.run.seed, iteration, version, memory)

    def steady(self, version: int) -> SteadySampler:
        """A sampler that grows trees without end, with the present weights, and those that `take_up` gives it."""
        engine: Engine = self._serving(version)
        if self._vllm is None:
            self._engine = None  # Its cache is in use from now on: what else samples here gets one of its own.
        return SteadySampler(engine, self._make_env, self._agent, rollout_settings(self._config), run_seed=self._config.run.seed)

    def take_up(self, version: int) -> None:
        """Have what samples without end go on with the present weights; none of its turns is on its way."""
        self._weights.refresh()
        if self._vllm is not None:
            self._serving(version)

    def learn(self, share: Share) -> LearnReport:
        """Add the gradient of the *summed* loss of a share to this shard's row."""
        with self._present_weights():
            return self._gradient.add(share)

    def logprobs(self, share: Share) -> list[Floats]:
        """Log-probabilities of a share's tokens under the present weights, one column per tree."""
        with self._present_weights():
            return self._gradient.logprobs(share)

    def values(self, share: Share) -> list[Floats]:
        """The critic's values before a share's tokens, one column per tree."""
        with self._present_weights():
            return self._gradient.values(share)

    def reference_logprobs(self, share: Share) -> list[Floats]:
        """The same under the policy that the run started from."""
        with self._present_weights():
            return self._gradient.reference_logprobs(share)

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
        for start in range(0, len(tasks), MEASURED_AT_ONCE):
            report = self._grow(tasks[start : start + MEASURED_AT_ONCE], settings, seed, 0, version)
            faults = {failure.task.seed: failure.message for failure in report.failures}
            outcomes += [Outcome.of(tree, faults.get(tree.seed, "")) for tree in report.trees]
        return outcomes

    def _grow(
        self, tasks: Sequence[Task], settings: SamplerSettings, seed: int, iteration: int, version: int, memory: TaskMemory | None = None
    ) -> SamplerReport:
        with Sampler(self._serving(version), self._make_env, self._agent, settings) as sampler:
            if memory is not None and memory.predictor is not None and sampler.allocation.predictor is not None:
                sampler.allocation.predictor.load_json(memory.predictor)
            report = sampler.sample(tasks, run_seed=seed, iteration=iteration, history=None if memory is None else memory.history)
        if self._vllm is not None:
            self._vllm.done(report.trees)
        return report

    def _serving(self, version: int) -> Engine:
        """The engine with the present weights, which are called `version`."""
        self._weights.refresh()
        if self._vllm is not None:
            return self._vllm.serving(self._model, self._shared.state, version, self._agent.stop_ids)
        if self._engine is None:
            self._engine = configured_engine(self._config, self._model, self._agent, rows=ROWS)
        self._engine.version = version
        return self._engine

    @contextmanager
    def _present_weights(self) -> Iterator[None]:
        """Compute with the present weights, on the device that has them; what gradients come about are in this shard's row afterwards."""
        self._weights.refresh()
        device = self._model.device
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            yield
        self._weights.hand_in()

    def close(self) -> None:
        """Give up what other processes, or a GPU, hold for this one."""
        if self._vllm is not None:
            self._vllm.close()
