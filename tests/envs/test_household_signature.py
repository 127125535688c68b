"""Two states of one task have equal signatures exactly when all that is to come is equal; the way there does not matter."""

import numpy as np
from small_rooms import any_of, furnish, play, repeat, started, wander

from envs.household.env import HouseholdEnv
from envs.household.world import Household, State
from envs.task_type import TaskType


def at(house: Household, state: State, turns: int = 0) -> HouseholdEnv:
    """An environment that stands in a state of a room that a test furnished."""
    env = HouseholdEnv()
    env.restore((house, state, turns))
    return env


def test_the_order_of_independent_moves_does_not_matter():
    things = {"mug 1": "sinkbasin 1", "plate 1": "countertop 1", "fork 1": "countertop 2"}
    house = furnish(TaskType.PLACE, "mug", "cabinet", things)
    orders = [
        ["go to fridge 1", "open fridge 1", "go to microwave 1", "open microwave 1", "go to countertop 1"],
        ["go to microwave 1", "open microwave 1", "go to fridge 1", "open fridge 1", "look", "go to countertop 1"],
        [
            "go to microwave 1",
            "open microwave 1",
            "go to fridge 1",
            "open fridge 1",
            "close fridge 1",
            "open fridge 1",
            "go to countertop 1",
        ],
    ]
    assert len({at(house, play(house, *order)).state_signature() for order in orders}) == 1
    plate = ["go to countertop 1", "take plate 1 from countertop 1", "go to countertop 2", "move plate 1 to countertop 2"]
    fork = ["go to countertop 2", "take fork 1 from countertop 2", "go to countertop 1", "move fork 1 to countertop 1"]
    one = play(house, *plate, *fork[1:], "go to sinkbasin 1")
    two = play(house, *fork, *plate[1:], "go to sinkbasin 1")
    assert at(house, one).state_signature() == at(house, two).state_signature()


def test_turns_are_not_part_of_a_signature_and_what_only_looks_changes_nothing():
    house = furnish(TaskType.PLACE, "mug", "cabinet", {"mug 1": "countertop 1"})
    state = play(house, "go to countertop 1")
    assert at(house, state, 1).state_signature() == at(house, state, 40).state_signature()
    looked = play(house, "look", "inventory", "help", "examine countertop 1", "examine mug 1", state=state)
    assert at(house, looked).state_signature() == at(house, state).state_signature()


def test_each_thing_that_matters_is_part_of_a_signature():
    things = {"apple 1": "countertop 1", "knife 1": "countertop 1", "mug 1": "countertop 1", "mug 2": "countertop 1"}
    house = furnish(TaskType.PLACE, "egg", "garbagecan", things)
    held = ["go to countertop 1", "take mug 1 from countertop 1"]
    states = {
        "start": [],
        "at": ["go to countertop 1"],
        "seen": ["go to countertop 2", "go to countertop 1"],
        "holding": held,
        "holding another": ["go to countertop 1", "take mug 2 from countertop 1"],
        "moved": [*held, "go to countertop 2", "move mug 1 to countertop 2"],
        "moved another": ["go to countertop 1", "take mug 2 from countertop 1", "go to countertop 2", "move mug 2 to countertop 2"],
        "shut": [*held, "go to fridge 1"],
        "open": [*held, "go to fridge 1", "open fridge 1"],
        "shut again": [*held, "go to fridge 1", "open fridge 1", "close fridge 1"],
        "cool": [*held, "go to fridge 1", "cool mug 1 with fridge 1"],
        "hot": [*held, "go to microwave 1", "heat mug 1 with microwave 1"],
        "not hot": [*held, "go to microwave 1"],
        "clean": [*held, "go to sinkbasin 1", "clean mug 1 with sinkbasin 1"],
        "not clean": [*held, "go to sinkbasin 1"],
        "sliced": ["go to countertop 1", "take knife 1 from countertop 1", "slice apple 1 with knife 1"],
        "not sliced": ["go to countertop 1", "take knife 1 from countertop 1"],
    }
    signatures = {name: at(house, play(house, *commands)).state_signature() for name, commands in states.items()}
    assert len(set(signatures.values())) == len(states), signatures
    bedroom = furnish(TaskType.LOOK, "pen", "desklamp", {"pen 1": "bed 1", "desklamp 1": "desk 1"})
    dark, lit = play(bedroom, "go to desk 1"), play(bedroom, "go to desk 1", "use desklamp 1")
    assert at(bedroom, dark).state_signature() != at(bedroom, lit).state_signature()


def test_equal_signatures_have_equal_futures_and_different_ones_different_states():
    """States of many random walks in one task: those that meet go on alike, whatever is done."""
    met = 0
    for seed in range(4):
        env, first, rng = started(seed, max_turns=10_000), {}, np.random.default_rng(seed)
        begin = env.snapshot()
        for _ in range(60):
            env.restore(begin)
            history = []
            for _ in range(10):
                history.append(any_of(env.admissible_actions(), rng))
                env.step(history[-1])
                signature, snapshot = env.state_signature(), env.snapshot()
                known, way = first.setdefault(signature, (snapshot, list(history)))
                assert known[1] == snapshot[1], "one signature, one state"
                if way != history and rng.random() < 0.2:
                    met += 1
                    other = HouseholdEnv(max_turns=10_000)
                    other.restore(known)
                    twin = HouseholdEnv(max_turns=10_000)
                    twin.restore(snapshot)
                    record = wander(twin, 12, rng)
                    assert repeat(other, record) == record
                    assert other.expert_action() == twin.expert_action()
        assert len({snapshot[1] for snapshot, _ in first.values()}) == len(first), "one state, one signature"
    assert met > 100
