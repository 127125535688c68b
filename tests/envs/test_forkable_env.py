"""An environment that cannot copy itself is forked by verified replay, or by its own snapshots where those are valid; never inexactly."""

import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
from uncopied_world import UncopiedEnv

import envs
from envs import Abilities, AbilityError, EnvironmentArgumentError, ForkKind, NoEpisodeError
from envs.forking.choice import forkable
from envs.forking.forkable_env import ForkableEnv
from envs.forking.known_state import known_state
from envs.forking.waypoint import ForkDivergedError, Waypoint


class Counting(UncopiedEnv):
    """Counts what is done with it, and copies itself within the instance."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.steps = self.restores = 0
        self.saved: dict[int, Any] = {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return super().step(action)


class AtHome(UncopiedEnv):
    """Copies itself, by numbers that mean something to the instance alone."""

    def __init__(self, max_turns: int = 20) -> None:
        super().__init__(max_turns)
        self.saved: list[tuple[int, list[str]]] = []
        self.restores = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        assert seed is not None
        self.begun, self.done = seed, []
        return super().reset(seed=seed)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.done.append(action)
        return super().step(action)

    def snapshot(self) -> int:
        self.saved.append((self.begun, list(self.done)))
        return len(self.saved) - 1

    def restore(self, snapshot: int) -> None:
        self.restores += 1
        seed, actions = self.saved[snapshot]
        self.reset(seed=seed)
        for action in actions:
            self.step(action)


def replayed(**kwargs: Any) -> ForkableEnv:
    return ForkableEnv(Counting(**kwargs), native=None, replay=True)


def inner(env: ForkableEnv) -> Any:
    return env.env


def play(env: envs.TextEnv, *actions: str) -> list[Any]:
    return [(*env.step(action), env.state_signature()) for action in actions]


def test_a_state_is_reached_again_in_any_instance():
    one, two = replayed(), replayed()
    one.reset(seed=5)
    play(one, "a", "bb")
    snapshot = one.snapshot()
    ahead = play(one, "a", "ccc", "win")
    for env in (one, two, one, two):
        env.restore(snapshot)
        assert play(env, "a", "ccc", "win") == ahead
    two.restore(pickle.loads(pickle.dumps(snapshot)))
    assert play(two, "a", "ccc", "win") == ahead


def test_only_the_rest_of_the_way_is_executed():
    env = replayed()
    env.reset(seed=5)
    play(env, "a", "bb")
    here = env.snapshot()
    play(env, "a")
    further = env.snapshot()
    env.restore(here)
    inner(env).steps = 0
    env.restore(here)
    assert inner(env).steps == 0, "it is there"
    env.restore(further)
    assert inner(env).steps == 1
    env.restore(here)
    assert inner(env).steps == 3, "back means from the start"


def test_the_first_turn_that_differs_is_named():
    env = replayed(drift=True)
    env.reset(seed=5)
    play(env, "a", "bb")
    snapshot = env.snapshot()
    play(env, "a")
    with pytest.raises(ForkDivergedError, match=r"replay differs at reset: observation was 'You have \d.' and is now 'You have \d.'"):
        env.restore(snapshot)
    with pytest.raises(NoEpisodeError):
        env.snapshot()
    sound = replayed()
    sound.reset(seed=5)
    play(sound, "a", "bb")
    snapshot = sound.snapshot()
    wrong = Waypoint(snapshot.seed, None, snapshot.first, (snapshot.turns[0], ("ccc", snapshot.turns[1][1])))
    with pytest.raises(ForkDivergedError, match=r"replay differs at turn 1 \('ccc'\): observation was .* cannot be forked by replay"):
        replayed().restore(wrong)


def test_a_fault_on_the_way_leaves_no_state_that_could_be_mistaken():
    env = replayed()
    env.reset(seed=5)
    play(env, "a")
    snapshot = env.snapshot()
    with pytest.raises(ValueError, match="no such luck"):
        env.step("raise")
    with pytest.raises(NoEpisodeError):
        env.snapshot()
    env.restore(snapshot)
    assert env.snapshot() == snapshot


def test_a_reset_without_a_seed_can_be_forked_too():
    env = replayed()
    first = [env.reset(seed=5)[0], env.reset()[0], env.reset()[0]]
    snapshot = env.snapshot()
    assert len(set(first)) > 1
    other = replayed()
    other.restore(snapshot)
    assert other.state_signature() == first[2]
    assert [env.reset(seed=5)[0], env.reset()[0], env.reset()[0]] == first


def test_snapshots_of_the_environment_are_used_where_they_are_valid():
    env, other = (ForkableEnv(AtHome(), native="instance", replay=True) for _ in range(2))
    env.reset(seed=5)
    play(env, "a", "bb")
    snapshot = env.snapshot()
    ahead = play(env, "a", "win")
    env.restore(snapshot)
    assert inner(env).restores == 1 and play(env, "a", "win") == ahead
    other.restore(snapshot)
    assert inner(other).restores == 0 and play(other, "a", "win") == ahead, "elsewhere the way is executed again"
    env.restore(pickle.loads(pickle.dumps(snapshot)))
    assert inner(env).restores == 1 and play(env, "a", "win") == ahead


def test_what_cannot_be_replayed_stays_where_it_is_valid():
    env, other = (ForkableEnv(AtHome(), native="instance", replay=False) for _ in range(2))
    env.reset(seed=5)
    snapshot = env.snapshot()
    env.restore(snapshot)
    with pytest.raises(AbilityError, match="the snapshot is not valid here, and what is not deterministic"):
        other.restore(snapshot)


def test_what_is_no_snapshot_is_refused():
    env = replayed()
    with pytest.raises(NoEpisodeError, match="call reset"):
        env.snapshot()
    env.reset(seed=0)
    with pytest.raises(EnvironmentArgumentError, match="a tuple is no snapshot of this environment"):
        env.restore((1, 2))


class Nameless(Counting):
    """Has no signature."""

    def state_signature(self) -> str:
        raise AbilityError("it has none")


def test_a_state_without_a_signature_is_named_by_the_way_that_led_there():
    env, other = (ForkableEnv(Nameless(), native=None, replay=True) for _ in range(2))
    names: list[str] = []
    for actions in ((), ("a",), ("a", "bb"), ("bb", "a")):
        env.reset(seed=1)
        for action in actions:
            env.step(action)
        names.append(known_state(env))
        other.restore(env.snapshot())
        assert known_state(other) == names[-1]
    env.reset(seed=2)
    assert len({*names, known_state(env)}) == 5
    with pytest.raises(AbilityError, match="it has none"):
        known_state(Nameless())
    with pytest.raises(AbilityError, match="it has none"):
        known_state(ForkableEnv(Nameless(), native=None, replay=True))
    signed = replayed()
    signed.reset(seed=1)
    assert known_state(signed) == signed.state_signature()


def test_everything_else_is_the_environments():
    env = replayed(deadline_s=3.0)
    observation, info = env.reset(seed=1)
    assert (observation, info) == UncopiedEnv().reset(seed=1)
    assert env.admissible_actions() == ["a", "bb", "ccc", "win"] and env.expert_action() == "a" and env.step_deadline_s == 3.0
    assert env.demonstrator(np.random.default_rng(0))() == "a"


@pytest.mark.parametrize(
    ("abilities", "kind"),
    [
        (Abilities(), Counting),
        (Abilities(fork="exact"), Counting),
        (Abilities(fork="sandbox"), Counting),
        (Abilities(fork="exact", portable=False), ForkableEnv),
        (Abilities(fork="replay"), ForkableEnv),
        (Abilities(fork="process"), ForkableEnv),
    ],
)
def test_the_way_of_forking_follows_from_what_is_declared(abilities, kind):
    env = forkable(abilities, Counting, {"max_turns": 7})
    try:
        assert type(env) is kind
    finally:
        env.close()


def test_without_processes_to_fork_what_is_deterministic_is_replayed(monkeypatch):
    monkeypatch.delattr("os.fork")
    env = forkable(Abilities(fork=ForkKind.PROCESS), Counting, {})
    assert isinstance(env, ForkableEnv) and isinstance(env.env, Counting)
    with pytest.raises(AbilityError, match="forks no processes"):
        forkable(Abilities(fork=ForkKind.PROCESS, deterministic=False), Counting, {})


def test_snapshots_are_let_go():
    env = replayed()
    env.reset(seed=0)
    gone = weakref.ref(env.snapshot())
    gc.collect()
    assert gone() is None
