"""All settings together, and what one section says about another."""

from pathlib import Path
from typing import Self

from pydantic import model_validator

from trainer.config.agent_section import AgentConfig
from trainer.config.credit_section import CreditConfig
from trainer.config.critic_section import CriticConfig
from trainer.config.env_section import EnvConfig
from trainer.config.evaluation_section import EvaluationConfig
from trainer.config.loss_section import LossConfig
from trainer.config.optimizer_section import OptimizerConfig
from trainer.config.policy_section import PolicyConfig
from trainer.config.ray_section import RayConfig
from trainer.config.reward_section import RewardConfig
from trainer.config.rollout_section import RolloutConfig
from trainer.config.run_section import RunConfig
from trainer.config.section import Section
from trainer.config.sft_section import SftConfig
from trainer.config.vllm_section import VLLM_LEAST_TEMPERATURE, VLLM_LEAST_WIDTH, VllmConfig
from trainer.config.warmstart_section import WarmstartConfig


class Config(Section):
    """Everything that a run depends on."""

    benchmark: str
    """Name of the packaged configuration that this one started from."""
    env: EnvConfig = EnvConfig()
    policy: PolicyConfig = PolicyConfig()
    agent: AgentConfig = AgentConfig()
    warmstart: WarmstartConfig = WarmstartConfig()
    sft: SftConfig = SftConfig()
    rollout: RolloutConfig = RolloutConfig()
    credit: CreditConfig = CreditConfig()
    critic: CriticConfig = CriticConfig()
    reward: RewardConfig = RewardConfig()
    loss: LossConfig = LossConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    run: RunConfig = RunConfig()
    ray: RayConfig = RayConfig()

    @model_validator(mode="after")
    def _sections_fit(self) -> Self:
        run, rollout = self.run, self.rollout
        if run.shards > rollout.tasks:
            raise ValueError(f"run.shards must be at most rollout.tasks, but is {run.shards} with {rollout.tasks} tasks")
        if run.workers != "auto" and run.workers > run.shards:
            raise ValueError(f"run.workers must be at most run.shards, but is {run.workers} with {run.shards} shards")
        if self.optimizer.mini_batches > rollout.tasks:
            raise ValueError(
                f"optimizer.mini_batches must be at most rollout.tasks, but is {self.optimizer.mini_batches} with {rollout.tasks} tasks"
            )
        if self.policy.path is None and rollout.max_new_tokens >= self.policy.max_length:
            raise ValueError(
                f"rollout.max_new_tokens must be below policy.max_length, but is {rollout.max_new_tokens} with {self.policy.max_length}"
            )
        return self

    @model_validator(mode="after")
    def _mode_fits(self) -> Self:
        run, rollout = self.run, self.rollout
        if run.mode == "sync":
            for name in ("max_staleness", "straggler_wait_s"):
                if getattr(run, name) != RunConfig.model_fields[name].default:
                    raise ValueError(f"run.{name} has no effect with run.mode sync; set run.mode to async, or leave it out")
            return self
        if run.backend != "ray":
            raise ValueError(f"run.mode async needs run.backend ray, but that is {run.backend}; set it to ray, or run.mode to sync")
        if rollout.schedule != "continuous":
            raise ValueError("run.mode async samples without end; set rollout.schedule to continuous")
        if rollout.dynamic_sampling.most is not None:
            raise ValueError("rollout.dynamic_sampling replaces trees of one iteration, which run.mode async does not know; leave it out")
        if rollout.vllm.sleep:
            raise ValueError("rollout.vllm.sleep stops the engine while the run learns, and run.mode async samples meanwhile; leave it out")
        for name in ("token_budget", "step_budget"):
            if getattr(rollout, name) is not None:
                raise ValueError(f"rollout.{name} is for the trees of one iteration, which run.mode async does not know; leave it out")
        return self

    @model_validator(mode="after")
    def _engine_fits(self) -> Self:
        rollout, policy = self.rollout, self.policy
        if rollout.engine != "vllm":
            if given := rollout.vllm.model_dump(exclude_defaults=True):
                raise ValueError(f"rollout.vllm.{next(iter(given))} has no effect with rollout.engine {rollout.engine}; set that to vllm")
            return self
        if rollout.temperature < VLLM_LEAST_TEMPERATURE:
            raise ValueError(
                f"rollout.temperature {rollout.temperature:g} is below {VLLM_LEAST_TEMPERATURE}, the least that vLLM samples at; raise it, "
                "or set rollout.engine to transformers"
            )
        if policy.path is None and policy.hidden // policy.heads < VLLM_LEAST_WIDTH:
            raise ValueError(
                f"rollout.engine vllm needs attention heads of {VLLM_LEAST_WIDTH} numbers or more, but policy.hidden {policy.hidden} has "
                f"{policy.heads} of {policy.hidden // policy.heads}; lower policy.heads, or set rollout.engine to transformers"
            )
        return self

    @model_validator(mode="after")
    def _devices_fit(self) -> Self:
        rollout, device = self.rollout, self.policy.device
        if self.run.backend == "ray":
            self._gpus_fit("policy.device", device, "ray.learner_gpus", self.ray.learner_gpus)
            self._gpus_fit("rollout.device", self.rollout_device, "ray.engine_gpus", self.ray.engine_gpus)
        elif rollout.engine != "vllm" and rollout.device not in (None, device):
            raise ValueError(
                f"rollout.device {rollout.device} is not policy.device {device}, but the engine {rollout.engine} samples from "
                "the learner's own model; leave rollout.device out, or set rollout.engine to vllm or run.backend to ray"
            )
        if rollout.engine == "vllm" and self.rollout_device == "cpu":
            for name in ("tensor_parallel", "enforce_eager", "sleep", "gpu_memory_utilization"):
                if getattr(rollout.vllm, name) != VllmConfig.model_fields[name].default:
                    raise ValueError(f"rollout.vllm.{name} is for GPUs, and rollout.device is cpu; set that to cuda, or leave it out")
        parallel = rollout.vllm.tensor_parallel
        if self.run.backend == "ray" and parallel > max(1, self.ray.engine_gpus) and self.ray.engine_gpus:
            raise ValueError(
                f"rollout.vllm.tensor_parallel {parallel} takes as many GPUs in each engine worker, but "
                f"ray.engine_gpus is {self.ray.engine_gpus:g}; set both to the same number"
            )
        return self

    def _gpus_fit(self, name: str, device: str, gpus_name: str, gpus: float) -> None:
        """On Ray a process sees the GPUs that it asked for, and no others."""
        if ":" in device:
            raise ValueError(f"{name} {device} names a GPU, and on Ray each process is given its own; set it to cuda")
        if device == "cuda" and not gpus:
            raise ValueError(f"{name} cuda needs a GPU in each process on Ray, but {gpus_name} is 0; set that to 1")
        if device == "cpu" and gpus:
            raise ValueError(f"{gpus_name} {gpus:g} would idle with {name} cpu; set {name} to cuda, or leave {gpus_name} out")

    @model_validator(mode="after")
    def _ray_fits(self) -> Self:
        run, ray = self.run, self.ray
        if self.optimizer.sharding == "fsdp" and run.backend != "ray":
            raise ValueError(
                f"optimizer.sharding fsdp needs run.backend ray, but that is {run.backend}; set it to ray, or sharding to none"
            )
        if self.optimizer.sharding == "fsdp" and self.critic.kind != "none":
            raise ValueError(
                f"optimizer.sharding fsdp is for a policy alone, but critic.kind is {self.critic.kind}; set one of the two to none"
            )
        if run.backend != "ray":
            if ray != RayConfig():
                given = next(iter(ray.model_dump(exclude_defaults=True)))
                raise ValueError(f"ray.{given} has no effect with run.backend {run.backend}; set run.backend to ray, or leave it out")
            return self
        if ray.learners > run.shards:
            raise ValueError(f"ray.learners must be at most run.shards, but is {ray.learners} with {run.shards} shards")
        if ray.env_workers and self.rollout.env_processes:
            raise ValueError(
                f"ray.env_workers {ray.env_workers} and rollout.env_processes {self.rollout.env_processes} both move environments to other "
                "processes; set one of them to 0"
            )
        if ray.env_workers and not self.rollout.env_threads:
            raise ValueError(
                "rollout.env_threads 0 lets one environment work at a time, so ray.env_workers would idle; set it to 1 or more"
            )
        if ray.address is not None and ray.object_store_bytes is not None:
            raise ValueError(
                "ray.object_store_bytes is for a Ray that is started here; with ray.address, set it where the cluster is started"
            )
        return self

    @property
    def rollout_device(self) -> str:
        """Where the engine computes, as a setting says it."""
        return self.rollout.device if self.rollout.device is not None else self.policy.device

    @property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self.run.out) if self.run.out is not None else Path("runs") / f"{self.benchmark}-seed{self.run.seed}"
