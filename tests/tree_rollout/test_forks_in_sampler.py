"""Environments that cannot copy themselves grow the same trees as one that can, whether they are forked by process or by replay."""

import functools
from typing import Any

import pytest
from random_world import RandomWorld
from sampler_world import ENV_ID, agent, engine, frozen, settings, tasks

import envs
from envs import Abilities, AbilityError
from envs.forking.choice import forkable
from tree_rollout.errors import DigestError
from tree_rollout.sampler import Sampler
from tree_rollout.state_digest import state_digest


class Uncopied(RandomWorld):
    """The same world without snapshots."""

    def snapshot(self) -> Any:
        raise AbilityError("no snapshots")

    def restore(self, snapshot: Any) -> None:
        raise AbilityError("no snapshots")


def make(kind: str, env_id: str, **kwargs: Any) -> envs.TextEnv:
    """What a host process can be given too."""
    assert env_id == ENV_ID
    return forkable(Abilities(fork=kind), RandomWorld if kind == "exact" else Uncopied, kwargs)


def grown(kind: str, **changes: Any) -> list[Any]:
    with Sampler(engine(), functools.partial(make, kind), agent(), settings(**changes)) as sampler:
        report = sampler.sample(tasks([0, 1]), run_seed=3, iteration=0)
    return [frozen(tree) for tree in report.trees]


@pytest.mark.parametrize("kind", ["process", "replay"])
def test_the_trees_are_those_of_the_world_that_copies_itself(kind):
    expected = grown("exact")
    assert sum(len(turns) for *_, turns in expected) > 20
    assert grown(kind) == expected


@pytest.mark.slow
def test_so_they_are_in_processes_of_the_sampler():
    assert grown("process", env_processes=1) == grown("exact")


def test_the_way_to_a_state_is_not_taken_for_the_state():
    env = make("replay", ENV_ID)
    env.reset(seed=0)
    with pytest.raises(DigestError, match="says how a state was reached, not what it is"):
        state_digest(env.snapshot())
