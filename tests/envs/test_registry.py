"""The registry builds what an entry declares, the same through Gymnasium, and names what was wrong with an id or an argument."""

import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import envs
from envs import (
    Abilities,
    AbilityError,
    EnvironmentArgumentError,
    EnvironmentImportError,
    ForkKind,
    MissingNeedError,
    ProgramNeed,
    TextEnv,
    UnknownEnvironmentError,
    register_env,
)
from envs.household.env import HouseholdEnv

ROOT = Path(__file__).parents[2]
HOUSEHOLD = "branchwise/Household-v0"
REGISTERED = pytest.mark.parametrize("id", [spec.id for spec in envs.specs()])


class Room(TextEnv):
    """Keeps its arguments."""

    def __init__(self, split: str = "train", max_turns: int = 9, colour: str = "red") -> None:
        super().__init__()
        self.given = {"split": split, "max_turns": max_turns, "colour": colour}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "A room.", {}


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """What a test registers is forgotten afterwards."""
    from envs import registry

    ours, gymnasiums = dict(registry._SPECS), dict(gym.registry)
    yield
    for table, before in ((registry._SPECS, ours), (gym.registry, gymnasiums)):
        table.clear()
        table.update(before)


# What is registered


@REGISTERED
@pytest.mark.filterwarnings("error")
def test_gymnasiums_checker_passes_without_a_remark(id):
    check_env(gym.make(id).unwrapped)


@REGISTERED
def test_declared_abilities_are_there_and_others_are_not(id):
    spec, env = envs.spec(id), envs.make(id)
    env.reset(seed=0)
    declared = {
        "snapshot": spec.abilities.fork is not ForkKind.NONE,
        "state_signature": spec.abilities.signature,
        "admissible_actions": spec.abilities.admissible,
        "expert_action": spec.abilities.expert,
    }
    for method, present in declared.items():
        if present:
            assert getattr(env, method)()
        else:
            with pytest.raises(AbilityError):
                getattr(env, method)()
    assert spec.abilities.words[0] == f"fork:{spec.abilities.fork}"


@REGISTERED
def test_every_split_can_be_made_and_the_first_is_the_default(id):
    spec = envs.spec(id)
    firsts = {split: envs.make(id, split=split).reset(seed=3)[0] for split in spec.splits}
    assert envs.make(id).reset(seed=3)[0] == firsts[spec.splits[0]]
    assert len(set(firsts.values())) == len(firsts)


@REGISTERED
def test_the_declared_number_of_turns_is_the_default(id):
    for env in (envs.make(id), gym.make(id)):
        env.reset(seed=1)
        ends = [env.step("")[2:4] for _ in range(envs.spec(id).max_turns)]
        assert [truncated for _, truncated in ends] == [False] * (len(ends) - 1) + [True]


def test_gymnasium_makes_it_in_a_fresh_interpreter():
    code = (
        "import gymnasium; env = gymnasium.make('envs:branchwise/Household-v0', split='valid_seen');"
        "print(env.reset(seed=3)[0]); print(env.step('inventory')[0], env.unwrapped.max_turns)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == envs.make(HOUSEHOLD, split="valid_seen").reset(seed=3)[0] + "\nYou are not carrying anything. 50\n"


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_vectors_of_environments(kind):
    options = {"shared_memory": False, "context": "spawn"} if kind is AsyncVectorEnv else {}
    makers = [lambda: gym.make("envs:branchwise/Household-v0", split="valid_unseen", max_turns=2)] * 2
    single = envs.make(HOUSEHOLD, split="valid_unseen")
    vector = kind(makers, autoreset_mode=AutoresetMode.DISABLED, **options)
    try:
        observations, infos = vector.reset(seed=[4, 5])
        assert observations == (single.reset(seed=4)[0], single.reset(seed=5)[0])
        assert infos["valid"].tolist() == [True, True] and infos["success"].tolist() == [False, False]
        observations, rewards, terminated, truncated, infos = vector.step(("look", "open window 1"))
        assert observations[1] == "Nothing happens." and infos["valid"].tolist() == [True, False]
        assert rewards.tolist() == [0, 0] and not terminated.any() and not truncated.any()
        assert vector.step(("look", "look"))[3].tolist() == [True, True]
        observations, _ = vector.reset(seed=[6, None], options={"reset_mask": np.array([True, False])})
        assert observations[0] == single.reset(seed=6)[0]
        observations, _ = vector.reset(seed=[None, 7], options={"reset_mask": np.array([False, True])})
        assert observations == (single.reset(seed=6)[0], single.reset(seed=7)[0]), "the first was left alone"
        assert not vector.step(("look", "look"))[3].any()
    finally:
        vector.close()


# Those that name where they are, so that another process finds them; test modules register others.
@pytest.mark.parametrize("id", [spec.id for spec in envs.specs() if isinstance(spec.entry_point, str)])
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_every_environment_works_in_a_vector(id, kind):
    options = {"shared_memory": False, "context": "spawn"} if kind is AsyncVectorEnv else {}
    single = envs.make(id)
    vector = kind([functools.partial(gym.make, f"envs:{id}")] * 2, autoreset_mode=AutoresetMode.DISABLED, **options)
    try:
        first = [single.reset(seed=seed)[0] for seed in (4, 5)]
        assert list(vector.reset(seed=[4, 5])[0]) == first
        answers = [(single.reset(seed=seed), single.step("look"))[1][0] for seed in (4, 5)]
        assert list(vector.step(("look", "look"))[0]) == answers
        observations, _ = vector.reset(seed=[6, None], options={"reset_mask": np.array([True, False])})
        assert observations[0] == single.reset(seed=6)[0] and observations[1] == answers[1]
    finally:
        vector.close()
        single.close()


def test_gymnasiums_own_vector_maker():
    vector = gym.make_vec("envs:branchwise/Household-v0", num_envs=2, split="train")
    assert vector.reset(seed=4)[0][1] == envs.make(HOUSEHOLD).reset(seed=5)[0]
    vector.close()


# Registering


def test_an_entry_is_what_was_declared():
    can, need = Abilities(fork="replay", expert=True), ProgramNeed("sh", "install sh")
    spec = register_env("tests/Room-v3", Room, description="A room", abilities=can, needs=(need,), splits=("a", "b"), max_turns=4)
    assert envs.spec("tests/Room-v3") is spec and spec in envs.specs()
    assert (spec.abilities, spec.needs, spec.splits, spec.max_turns) == (can, (need,), ("a", "b"), 4)
    assert can.fork is ForkKind.REPLAY and can.words == ("fork:replay", "deterministic", "signature", "expert")
    assert not gym.spec("tests/Room-v3").nondeterministic
    dice = register_env("tests/Dice-v0", Room, abilities=Abilities(deterministic=False))
    assert gym.spec("tests/Dice-v0").nondeterministic and "deterministic" not in dice.abilities.words
    assert register_env("tests/Plain-v0", Room).abilities == Abilities()
    assert [spec.id for spec in envs.specs()] == sorted(spec.id for spec in envs.specs())


@pytest.mark.parametrize("make", [envs.make, lambda id, **kwargs: gym.make(id, **kwargs).unwrapped])
def test_defaults_come_from_the_entry_and_arguments_win(make):
    register_env("tests/Room-v0", Room, splits=("a", "b"), max_turns=4, kwargs={"colour": "blue"})
    assert make("tests/Room-v0").given == {"split": "a", "max_turns": 4, "colour": "blue"}
    assert make("tests/Room-v0", split="b", max_turns=2, colour="red").given == {"split": "b", "max_turns": 2, "colour": "red"}
    register_env("tests/Room-v1", Room)
    assert make("tests/Room-v1").given == {"split": "train", "max_turns": 50, "colour": "red"}


def test_an_environment_without_these_arguments_is_not_given_them():
    register_env("tests/Plain-v0", lambda: Room(colour="green"))
    assert envs.make("tests/Plain-v0").given["max_turns"] == 9


def test_registering_again_replaces_the_entry():
    register_env("tests/Room-v0", Room, kwargs={"colour": "blue"})
    register_env("tests/Room-v0", Room, kwargs={"colour": "green"})
    assert envs.make("tests/Room-v0").given["colour"] == gym.make("tests/Room-v0").unwrapped.given["colour"] == "green"


def test_an_entry_point_can_be_named_and_is_imported_on_first_use():
    register_env("tests/House-v0", "envs.household.env:HouseholdEnv", splits=("train",))
    assert isinstance(envs.make("tests/House-v0"), HouseholdEnv)


def test_defaults_of_an_entry_do_not_follow_the_mapping_they_came_from():
    given = {"colour": "blue"}
    register_env("tests/Room-v0", Room, kwargs=given)
    given["colour"] = "green"
    assert envs.make("tests/Room-v0").given["colour"] == "blue"


@pytest.mark.parametrize(
    "id",
    ["Kitchen-v0", "mine/Kitchen", "mine/Kitchen-v", "mine/Kitchen-vx", "/Kitchen-v0", "mine/-v0", "a/b/C-v0", "mine/Kit chen-v0", "", 5],
)
def test_an_id_of_another_form_is_an_error_and_registers_nothing(id):
    before = envs.specs(), set(gym.registry)
    with pytest.raises(EnvironmentArgumentError, match="not of the form namespace/Name-vN, for example mine/Kitchen-v0"):
        register_env(id, Room)
    assert (envs.specs(), set(gym.registry)) == before


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"abilities": {"fork": "exact"}}, r"abilities of tests/Room-v0 is .*; it must be Abilities\(...\), for example"),
        ({"abilities": 0}, "abilities of tests/Room-v0 is 0"),
        ({"needs": ["java"]}, "needs of tests/Room-v0 is .*; it must be a tuple of needs"),
        ({"needs": ("java",)}, "needs of tests/Room-v0 is"),
        ({"splits": "train"}, "splits of tests/Room-v0 is 'train'; it must be a tuple"),
        ({"splits": ()}, "splits of tests/Room-v0 is"),
        ({"splits": (1,)}, "splits of tests/Room-v0 is"),
        ({"max_turns": 0}, "max_turns of tests/Room-v0 is 0; it must be a whole number of at least 1"),
        ({"max_turns": True}, "max_turns of tests/Room-v0 is True"),
        ({"kwargs": ["a"]}, "kwargs of tests/Room-v0 is"),
        ({"description": 3}, "description of tests/Room-v0 is 3; it must be text"),
        ({"entry_point": "envs.household"}, "entry_point of tests/Room-v0 is 'envs.household'; it must be a callable, or text of the form"),
        ({"entry_point": 7}, "entry_point of tests/Room-v0 is 7"),
    ],
)
def test_a_declaration_that_cannot_be_is_named(declared, message):
    arguments = {"entry_point": Room, **declared}
    with pytest.raises(EnvironmentArgumentError, match=message):
        register_env("tests/Room-v0", **arguments)
    assert "tests/Room-v0" not in gym.registry and "tests/Room-v0" not in {spec.id for spec in envs.specs()}


# Making


@pytest.mark.parametrize("id", ["branchwise/Houshold-v0", "branchwise/household-v0", "branchwise/Household-v1", "branchwise/Household"])
def test_an_unknown_id_names_the_nearest(id):
    for ask in (envs.spec, envs.make):
        with pytest.raises(UnknownEnvironmentError, match=f"no environment is called '{id}'; did you mean {HOUSEHOLD}"):
            ask(id)


@pytest.mark.parametrize("id", ["", "zzz", None, 3])
def test_an_id_like_none_lists_all(id):
    with pytest.raises(UnknownEnvironmentError, match=f"choose one of .*{HOUSEHOLD}"):
        envs.make(id)


@pytest.mark.parametrize("make", [envs.make, gym.make])
def test_a_misspelt_argument_names_the_nearest(make):
    with pytest.raises(EnvironmentArgumentError, match=f"{HOUSEHOLD} has no argument 'splitt'; did you mean split"):
        make(HOUSEHOLD, splitt="train")
    with pytest.raises(EnvironmentArgumentError, match="no argument 'zz'; choose one of max_turns, rules, split, task_types"):
        make(HOUSEHOLD, zz=1)


def test_an_argument_that_is_missing_or_not_taken_at_all():
    def needy(size: int) -> Room:
        return Room()

    register_env("tests/Needy-v0", needy)
    with pytest.raises(EnvironmentArgumentError, match="tests/Needy-v0 needs the argument 'size'; pass size="):
        envs.make("tests/Needy-v0")
    register_env("tests/Closed-v0", lambda: Room())
    with pytest.raises(EnvironmentArgumentError, match="has no argument 'size'; it takes none"):
        envs.make("tests/Closed-v0", size=3)


def test_a_factory_that_takes_anything_gets_it():
    register_env("tests/Open-v0", lambda **given: Room(**given))
    assert envs.make("tests/Open-v0", colour="green").given["colour"] == "green"


def test_a_fault_inside_an_environment_stays_what_it_is():
    def faulty() -> Room:
        raise TypeError("got an unexpected keyword argument 'x'")

    register_env("tests/Faulty-v0", faulty)
    with pytest.raises(TypeError, match="unexpected keyword argument 'x'"):
        envs.make("tests/Faulty-v0")


@pytest.mark.parametrize("make", [envs.make, gym.make])
def test_a_split_that_is_not_declared_is_an_error(make):
    with pytest.raises(EnvironmentArgumentError, match=f"{HOUSEHOLD} has no split 'valid_unsen'; did you mean valid_unseen"):
        make(HOUSEHOLD, split="valid_unsen")
    with pytest.raises(EnvironmentArgumentError, match="has no split 3; choose one of train, valid_seen, valid_unseen"):
        make(HOUSEHOLD, split=3)


@pytest.mark.parametrize("where", ["no_such_package.env:Env", "envs.household.env:NoSuchEnv"])
def test_an_entry_point_that_cannot_be_imported_says_which(where):
    register_env("tests/Lost-v0", where)
    with pytest.raises(EnvironmentImportError, match=f"tests/Lost-v0 cannot be imported from {where} .*; install what is missing"):
        envs.make("tests/Lost-v0")


def test_needs_are_checked_before_anything_is_imported():
    need = ProgramNeed("no-such-program", "sudo apt-get install it")
    register_env("tests/Needy-v0", "no_such_package.env:Env", needs=(need,))
    with pytest.raises(MissingNeedError, match="tests/Needy-v0 needs the program no-such-program, which is missing: type sudo apt-get"):
        envs.make("tests/Needy-v0")
    with pytest.raises(MissingNeedError):
        envs.spec("tests/Needy-v0").require()


def test_a_short_name_is_the_newest_version_of_an_environment():
    for version in (2, 10, 9):
        register_env(f"tests/Room-v{version}", Room)
    assert envs.full_id("room") == envs.full_id("Room") == "tests/Room-v10"
    assert envs.full_id("tests/Room-v9") == "tests/Room-v9" and envs.full_id("household") == HOUSEHOLD
    assert envs.full_id("rome") == "rome"
