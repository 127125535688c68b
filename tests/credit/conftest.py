"""The reference group E1: four rollouts over three states, outcomes 1, 0, 1, 0."""

import pytest

from credit import Turn


@pytest.fixture
def e1() -> list[list[Turn]]:
    paths = (("S0aS1 S1cS2 S2gG", 1.0), ("S0bS1 S1cS2 S2hF", 0.0), ("S0aS1 S1cS2 S2gG", 1.0), ("S0aS1 S1dF", 0.0))
    rollouts = []
    for path, outcome in paths:
        steps = path.split()
        rewards = [0.0] * (len(steps) - 1) + [outcome]
        rollouts.append([Turn(step[:2], step[2], step[3:], reward) for step, reward in zip(steps, rewards, strict=True)])
    return rollouts
