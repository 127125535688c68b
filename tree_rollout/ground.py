"""What all trees of one sampling call stand on."""

from collections.abc import Sequence
from dataclasses import dataclass

from agents.agent import Agent
from agents.engine import Engine
from tree_rollout.branching import BranchingRule
from tree_rollout.env_pool import EnvPool
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.stopping import StoppingRule


@dataclass(frozen=True, slots=True)
class Ground:
    """The engine, the environments and the rules that they share, and the report that they write."""

    engine: Engine
    pool: EnvPool
    agent: Agent
    settings: SamplerSettings
    rule: BranchingRule
    stopping: Sequence[StoppingRule]
    run_seed: int
    iteration: int
    report: SamplerReport
    more: bool
    """Whether trees get anything after their first roots."""
