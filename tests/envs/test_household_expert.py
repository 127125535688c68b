"""The expert solves what is generated from wherever it stands, and knows only what the agent has seen; each flaw shows, always."""

from dataclasses import replace

import numpy as np
import pytest
from small_rooms import any_of, furnish, play

import envs
from envs.arguments import read_rates
from envs.errors import EnvironmentArgumentError
from envs.household.catalog import OBJECTS
from envs.household.env import HouseholdEnv
from envs.household.expert import FLAWLESS, IDLE, FlawRates, Flaws, expert_action
from envs.household.task import generate
from envs.household.world import Household, State
from envs.task_type import SPLITS, TaskType


def solve(house: Household, state: State, flaws: Flaws = FLAWLESS, turns: int = 50) -> tuple[int | None, list[str]]:
    """Turns until the goal held, or None; and the commands, all of which must have been possible."""
    commands = []
    for turn in range(turns):
        commands.append(expert_action(house, state, flaws))
        state = play(house, commands[-1], state=state)
        if house.solved(state):
            return turn + 1, commands
    return None, commands


def houses(count: int, types: tuple[TaskType, ...] = tuple(TaskType), split: str = "train", seed: int = 0) -> list[Household]:
    rng = np.random.default_rng(seed)
    return [Household(generate(rng, split, types)) for _ in range(count)]


@pytest.mark.parametrize("split", SPLITS)
def test_it_solves_at_least_99_percent_of_a_split(split):
    """Through the environment, in 50 turns; `python -m benchmarks.envs` measures 1,000 tasks a split."""
    env, solved, lengths = envs.make("branchwise/Household-v0", split=split, max_turns=50), 0, []
    for seed in range(300):
        env.reset(seed=seed)
        ended, turns, info = False, 0, {}
        while not ended:
            _, _, terminated, truncated, info = env.step(env.expert_action())
            assert info["valid"]
            ended, turns = terminated or truncated, turns + 1
        solved += info["success"]
        lengths.append(turns)
    assert solved >= 0.99 * 300
    assert 5 < np.mean(lengths) < 15


@pytest.mark.parametrize("type", list(TaskType))
def test_it_recovers_from_states_of_random_play(type):
    rng = np.random.default_rng(list(TaskType).index(type))
    tried = 0
    for house in houses(40, (type,), "valid_unseen", seed=11):
        state = house.start()
        for _ in range(int(rng.integers(5, 150))):
            state = play(house, any_of(house.admissible(state), rng), state=state)
        if not house.solved(state):
            tried += 1
            assert solve(house, state)[0] is not None
    assert tried > 20


def test_it_recovers_from_adversity():
    """Wanted objects in two receptacles of the kind, behind doors that were shut again, and the wrong thing in hand."""
    things = {"mug 1": "sinkbasin 1", "mug 2": "sinkbasin 1", "bread 1": "countertop 1", "plate 1": "countertop 1"}
    house = furnish(TaskType.TWO, "mug", "cabinet", things)
    state = house.start()
    for mug, cabinet in (("mug 1", "cabinet 2"), ("mug 2", "cabinet 1")):
        state = play(house, "go to sinkbasin 1", f"take {mug} from sinkbasin 1", f"go to {cabinet}", f"open {cabinet}", state=state)
        state = play(house, f"move {mug} to {cabinet}", f"close {cabinet}", state=state)
    state = play(house, "go to countertop 1", "take bread 1 from countertop 1", "go to cabinet 1", state=state)
    assert not house.solved(state)
    turns, _ = solve(house, state, turns=12)
    assert turns is not None


def test_it_brings_out_what_is_in_the_target_but_still_to_be_transformed():
    house = furnish(TaskType.HEAT, "mug", "countertop", {"mug 1": "sinkbasin 1"})
    placed = play(house, "go to sinkbasin 1", "take mug 1 from sinkbasin 1", "go to countertop 1", "move mug 1 to countertop 1")
    _, commands = solve(house, placed)
    assert commands == [
        "take mug 1 from countertop 1",
        "go to microwave 1",
        "heat mug 1 with microwave 1",
        "go to countertop 1",
        "move mug 1 to countertop 1",
    ]


def test_its_action_is_a_function_of_the_state():
    rng = np.random.default_rng(2)
    for house in houses(12):
        state, actions = house.start(), []
        for _ in range(30):
            actions.append((state, expert_action(house, state)))
            state = play(house, any_of(house.admissible(state), rng), state=state)
        other = Household(house.task)
        assert [expert_action(other, state) for state, _ in reversed(actions)] == [action for _, action in reversed(actions)]


def test_it_knows_only_what_was_seen():
    """Objects that were never in sight may lie anywhere unseen: its choice is the same."""
    rng = np.random.default_rng(4)
    shuffled = 0
    for house in houses(60, split="valid_seen", seed=5):
        state = house.start()
        for _ in range(25):
            unseen = [index for index in range(len(house.receptacles)) if not state.seen >> index & 1]
            hidden = [index for index, where in enumerate(state.where) if where in unseen]
            where = list(state.where)
            for index in hidden:
                where[index] = unseen[int(rng.integers(len(unseen)))]
            if not house.solved(state):
                shuffled += tuple(where) != state.where
                assert expert_action(house, state) == expert_action(house, state._replace(where=tuple(where)))
            wander = rng.random() < 0.5
            state = play(house, any_of(house.admissible(state), rng) if wander else expert_action(house, state), state=state)
    assert shuffled > 200


def test_it_does_not_know_of_a_second_object_that_it_has_not_seen():
    house = furnish(TaskType.TWO, "mug", "cabinet", {"mug 1": "sinkbasin 1", "mug 2": "cabinet 2"})
    held = play(house, "go to sinkbasin 1", "take mug 1 from sinkbasin 1")
    assert expert_action(house, held) == "go to cabinet 1"
    seen = play(house, "go to cabinet 2", "open cabinet 2", "go to sinkbasin 1", "take mug 1 from sinkbasin 1")
    assert expert_action(house, seen) == "go to cabinet 2"


def test_every_receptacle_can_have_to_be_searched():
    """With the object in the last place, the flawless expert still finds it in 50 turns."""
    for house in houses(40, split="valid_unseen", seed=9):
        wanted = [index for index, kind in enumerate(house.task.kinds) if kind == house.task.goal.object]
        weights = next(kind.places for kind in OBJECTS[house.task.layout.room] if kind.name == house.task.goal.object)
        spots = [i for i, kind in enumerate(house.task.layout.kinds) if kind in weights and kind != house.task.goal.target]
        last = min(spots, key=lambda i: (weights[house.task.layout.kinds[i]], -i))
        start = tuple(last if index in wanted else where for index, where in enumerate(house.task.start))
        moved = Household(replace(house.task, start=start))
        assert solve(moved, moved.start())[0] is not None


# Flaws


def searched(house: Household, flaws: Flaws) -> list[int]:
    """Receptacles in the order in which they were gone to, until something was taken or the expert idled."""
    state, order = house.start(), []
    for _ in range(60):
        command = expert_action(house, state, flaws)
        if command == IDLE or command.startswith("take"):
            break
        if command.startswith("go to"):
            order.append(house.receptacles.index(command.removeprefix("go to ")))
        state = play(house, command, state=state)
    return order


def test_an_unlikely_search_looks_first_where_such_objects_seldom_are():
    longer = 0
    for house in houses(60, (TaskType.PLACE,)):
        weights = next(kind.places for kind in OBJECTS[house.task.layout.room] if kind.name == house.task.goal.object)
        usual, odd = searched(house, FLAWLESS), searched(house, Flaws(search="unlikely"))
        first = [weights.get(house.task.layout.kinds[i], 0) for i in usual], [weights.get(house.task.layout.kinds[i], 0) for i in odd]
        assert first[0] == sorted(first[0], reverse=True) and first[1] == sorted(first[1])
        longer += len(odd) > len(usual)
    assert longer > 40


def test_a_listed_search_follows_the_order_of_the_room():
    longer = 0
    for house in houses(60, (TaskType.PLACE,)):
        usual, listed = searched(house, FLAWLESS), searched(house, Flaws(search="listed"))
        assert listed == list(range(len(listed)))
        longer += len(listed) > len(usual)
    assert longer > 30


@pytest.mark.parametrize(("type", "verb"), [(TaskType.CLEAN, "clean"), (TaskType.HEAT, "heat"), (TaskType.COOL, "cool")])
def test_a_forgotten_transformation_is_left_out_every_time(type, verb):
    for house in houses(25, (type,)):
        turns, commands = solve(house, house.start(), Flaws(forgets=frozenset([verb])))
        assert turns is None and not any(command.startswith(verb) for command in commands)
        assert any(command.startswith("move") for command in commands) and commands[-1] == IDLE
        others = frozenset({"clean", "heat", "cool"} - {verb})
        assert solve(house, house.start(), Flaws(forgets=others))[0] == solve(house, house.start())[0], "other habits do not touch it"


@pytest.mark.parametrize("patience", [2, 3, 4])
def test_impatience_gives_up_after_so_many_receptacles(patience):
    gave_up = 0
    for house in houses(60):
        turns, commands = solve(house, house.start(), Flaws(patience=patience))
        if turns is None:
            gave_up += 1
            assert commands[-1] == IDLE
            state = play(house, *commands)
            assert state.seen.bit_count() >= patience
    assert gave_up > 10
    usual = sum(solve(house, house.start(), Flaws(patience=50))[0] is None for house in houses(60))
    assert usual == 0, "patience that is never exhausted is no flaw"


def test_a_halving_expert_stops_after_the_first_of_two_objects():
    for house in houses(30, (TaskType.TWO,)):
        turns, commands = solve(house, house.start(), Flaws(halves=True))
        assert turns is None and commands[-1] == IDLE
        assert sum(command.startswith("move ") for command in commands) == 1
    for house in houses(30, (TaskType.PLACE,)):
        assert solve(house, house.start(), Flaws(halves=True)) == solve(house, house.start()), "one object is no flaw's business"


def test_a_flawed_expert_idles_and_never_acts_at_random():
    house = furnish(TaskType.HEAT, "mug", "countertop", {"mug 1": "sinkbasin 1"})
    _, commands = solve(house, house.start(), Flaws(forgets=frozenset(["heat"])), turns=20)
    assert set(commands[commands.index("move mug 1 to countertop 1") + 1 :]) == {IDLE}


# How often a demonstrator has each flaw


def test_habits_are_drawn_from_the_generator_at_their_rates():
    rates = FlawRates(listed_search=0.2, unlikely_search=0.3, forget=0.6, give_up=0.35, halve=0.45)
    rng = np.random.default_rng(0)
    drawn = [rates.draw(rng) for _ in range(3000)]
    assert np.isclose(np.mean([flaws.search == "unlikely" for flaws in drawn]), 0.3, atol=0.03)
    assert np.isclose(np.mean([flaws.search == "listed" for flaws in drawn]), 0.2, atol=0.03)
    assert np.isclose(np.mean([flaws.patience is not None for flaws in drawn]), 0.35, atol=0.03)
    assert np.isclose(np.mean([flaws.halves for flaws in drawn]), 0.45, atol=0.03)
    for verb in ("clean", "heat", "cool"):
        assert np.isclose(np.mean([verb in flaws.forgets for flaws in drawn]), 0.6, atol=0.03)
    assert {flaws.patience for flaws in drawn} == {None, 2, 3, 4}
    again = np.random.default_rng(0)
    assert drawn == [rates.draw(again) for _ in range(3000)]


def test_without_habits_a_demonstrator_is_the_flawless_expert():
    rng = np.random.default_rng(1)
    assert all(FlawRates().draw(rng) == FLAWLESS for _ in range(50))
    always = FlawRates(unlikely_search=1, forget=1.0, give_up=1).draw(rng)
    assert always.search == "unlikely" and always.forgets == {"clean", "heat", "cool"} and always.patience in (2, 3, 4)


@pytest.mark.parametrize("rate", [-0.1, 1.01, float("nan"), float("inf"), "0.5", None, True, [0.5]])
def test_a_rate_that_cannot_be_is_named(rate):
    with pytest.raises(EnvironmentArgumentError, match=r"habit forget is .*; it must be a number from 0 to 1"):
        read_rates(FlawRates, {"forget": rate}, "the household's")


def test_two_ways_of_searching_exclude_each_other():
    assert {FlawRates(listed_search=0.5, unlikely_search=0.5).draw(np.random.default_rng(seed)).search for seed in range(20)} == {
        "listed",
        "unlikely",
    }
    with pytest.raises(EnvironmentArgumentError, match=r"exclude each other and add up to 1\.2; lower one"):
        FlawRates(listed_search=0.6, unlikely_search=0.6)


def test_an_unknown_habit_names_the_nearest():
    with pytest.raises(EnvironmentArgumentError, match="no habit 'giveup'; did you mean give_up"):
        HouseholdEnv().demonstrator(np.random.default_rng(0), giveup=0.5)


@pytest.mark.parametrize("habits", [{"unlikely_search": 1.0}, {"listed_search": 1.0}, {"forget": 1.0}, {"give_up": 1.0}])
def test_each_habit_costs_success_or_turns_through_the_environment(habits):
    outcomes = {}
    for name, given in (("none", {}), ("habit", habits)):
        env, solved, turns = HouseholdEnv(max_turns=30), 0, 0
        for seed in range(80):
            env.reset(seed=seed)
            teacher, ended = env.demonstrator(np.random.default_rng(seed), **given), False
            while not ended:
                _, _, terminated, truncated, _ = env.step(teacher())
                ended, turns, solved = terminated or truncated, turns + 1, solved + terminated
        outcomes[name] = (solved, turns)
    assert outcomes["none"][0] == 80
    if habits.keys() & {"unlikely_search", "listed_search"}:
        assert outcomes["habit"][1] > 1.3 * outcomes["none"][1]
    else:
        assert outcomes["habit"][0] < 0.8 * 80
