"""ScienceWorld in its Java process: the package's solutions win, forks by replay are exact, another process plays the same episode."""

from collections.abc import Iterator

import pytest

import envs
from envs import AbilityError, EnvironmentArgumentError, ExpertPolicy, MissingNeedError
from envs.adapters import scienceworld_engine
from envs.adapters.scienceworld_env import ScienceWorldEnv

ID = "branchwise/ScienceWorld-v0"
TASKS = ["find-living-thing", "lifespan-longest-lived", "power-component"]


@pytest.fixture(scope="module")
def world() -> Iterator[envs.TextEnv]:
    env = envs.make(ID, tasks=TASKS)
    yield env
    env.close()


def by_the_expert(env: envs.TextEnv, seed: int) -> tuple[list[str], float]:
    """All that is said in the expert's episode, and its return."""
    said, total, ended = [env.reset(seed=seed)[0]], 0.0, False
    while not ended:
        observation, reward, ended, truncated, info = env.step(ExpertPolicy()(env))
        assert info["valid"] and not truncated and info["success"] == ended
        said.append(observation)
        total += reward
    return said, total


@pytest.mark.slow
def test_the_solution_wins_and_another_process_says_the_same(world):
    other = envs.make(ID, tasks=TASKS)
    done: set[str] = set()
    for seed in range(5):
        said, total = by_the_expert(world, seed)
        assert total == pytest.approx(1)
        assert by_the_expert(other, seed) == (said, total)
        done.add(world.reset(seed=seed)[1]["task_type"])
    other.close()
    assert len(done) > 1


def test_a_fork_is_the_same_state_and_the_expert_is_lost_after_another_action(world):
    first = world.reset(seed=1)
    world.step(world.expert_action())
    snapshot, gold = world.snapshot(), world.expert_action()
    ahead = world.step("look around")
    assert gold != "look around" and ahead[4]["valid"]
    with pytest.raises(AbilityError, match="reset, and follow it from the start"):
        world.expert_action()
    world.restore(snapshot)
    assert world.expert_action() == gold and world.step("look around") == ahead
    assert world.reset(seed=1) == first != world.reset(seed=2)


def test_questions_leave_the_state_as_it_is_and_the_same_state_has_the_same_answer():
    asked, unasked = ScienceWorldEnv(tasks=["boil"]), ScienceWorldEnv(tasks=["boil"])
    assert asked.reset(seed=0) == unasked.reset(seed=0)
    for action in ("open door to hallway", "inventory", "look around"):
        with pytest.raises(AbilityError):
            asked.step("inventory")
            asked.expert_action()
        unasked.step("inventory")
        assert len(asked.admissible_actions()) > 50
        assert asked.step(action) == unasked.step(action)
    assert asked.admissible_actions() == unasked.admissible_actions()
    assert asked.step("look around") == unasked.step("look around")
    for env in (asked, unasked):
        env.close()


def test_a_mistake_that_cannot_be_mended_ends_with_a_score_below_zero(world):
    world.reset(seed=1)
    wrong = next(action for action in world.admissible_actions() if action.startswith("focus on "))
    total, ended, info = 0.0, False, {}
    while not ended:
        _, reward, ended, truncated, info = world.step(wrong)
        total += reward
        assert not truncated
    assert total == -1 and not info["success"]


def test_what_is_not_understood_is_told_and_costs_a_turn():
    env = ScienceWorldEnv(tasks=["find-plant"], max_turns=2)
    env.reset(seed=0)
    observation, reward, ended, truncated, info = env.step("fly to the moon")
    assert observation.startswith("No known action") and not info["valid"]
    assert 0 <= reward < 0.5 and not ended and not truncated
    assert env.step("fly to the moon")[1:4] == (0.0, False, True)
    env.close()


def test_splits_are_the_packages_variations():
    env = ScienceWorldEnv("valid", tasks=["find-plant"])
    folds = {fold: set(env._engine.variations("find-plant", fold)) for fold in ("Train", "Dev", "Test")}
    drawn = set()
    for seed in range(4):
        env.reset(seed=seed)
        assert env._at is not None
        drawn.add(env._at[1])
    env.close()
    assert drawn <= folds["Dev"] and len(drawn) > 1
    assert sum(map(len, folds.values())) == len(set().union(*folds.values())) == 300


def test_closing_ends_the_process():
    env = ScienceWorldEnv(tasks=["boil"])
    process = env._engine._stop.peek()[2][1]
    assert process.poll() is None
    env.close()
    assert process.poll() is not None
    env.close()


@pytest.mark.slow
def test_what_is_declared_holds():
    report = envs.check_env(ID, seeds=1, steps=3, tasks=["find-living-thing"])
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tasks": ["boill"]}, "task is 'boill'; did you mean boil"),
        ({"tasks": []}, r"tasks is \[\]; it must be a list of names such as \[boil\]"),
        ({"simplifications": "easier"}, "simplification is 'easier'; did you mean easy"),
        ({"simplifications": "noElectricalAction", "tasks": ["power-component"]}, "power-component cannot be done with noElectricalAction"),
        ({"split": "dev"}, "split is 'dev'"),
        ({"max_turns": 0}, "max_turns is 0"),
    ],
)
def test_arguments_are_judged_with_one_sentence(arguments, said):
    with pytest.raises(EnvironmentArgumentError, match=said):
        ScienceWorldEnv(**arguments)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # The package leaves the process that failed to itself.
def test_java_of_another_family_is_told_in_one_sentence(monkeypatch):
    monkeypatch.setattr(scienceworld_engine, "_JAVA", ("-XX:thereIsNoSuchOption=2",))
    with pytest.raises(MissingNeedError, match="needs Java of the OpenJDK family"):
        ScienceWorldEnv()
