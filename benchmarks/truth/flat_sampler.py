"""Flat sampling shares no turn: every rollout starts at the start state and is independent of all others."""

import numpy as np

from benchmarks.truth.errors import BudgetError
from benchmarks.truth.growth import grow, root_frontier
from benchmarks.truth.policy import Policy
from benchmarks.truth.process import Process
from benchmarks.truth.sample import Sample, to_sample


def sample_flat(
    process: Process, policy: Policy, groups: int, rollouts: int, rng: np.random.Generator, reward_noise: float = 0.0
) -> Sample:
    """`groups` groups of `rollouts` rollouts each; every outcome gets Gaussian noise of standard deviation `reward_noise`."""
    if groups < 1 or rollouts < 1:
        raise BudgetError(f"{groups} groups of {rollouts} rollouts are asked for; give at least 1 of each")
    forest = grow(process, policy, root_frontier(process, np.full(groups, rollouts)), rng)
    return to_sample(process, policy, forest, groups, rng, reward_noise)
