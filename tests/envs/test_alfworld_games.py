"""Generated games of ALFWorld: one generator, one game; floor plans decide the split; a goal never holds at the start."""

import re
from collections import Counter

import numpy as np
import pytest

from envs.alfworld.engine_package import constants
from envs.alfworld.floor_plan import floor_plan, numbers
from envs.alfworld.game import Game
from envs.alfworld.generator import generate
from envs.task_type import SPLITS, TaskType

ROOMS = ("Kitchen", "LivingRoom", "Bedroom", "Bathroom")


def drawn(seed: int, split: str = "train", *types: TaskType) -> Game:
    return generate(np.random.default_rng(seed), split, types or tuple(TaskType))


def test_one_generator_is_one_game_and_another_is_another():
    assert drawn(3) == drawn(3)
    games = {drawn(seed).problem for seed in range(40)}
    assert len(games) == 40


def test_all_six_types_are_drawn_and_only_those_asked_for():
    assert set(Counter(drawn(seed).type for seed in range(60))) == set(TaskType)
    assert {drawn(seed, "train", TaskType.LOOK).type for seed in range(10)} == {TaskType.LOOK}


def test_valid_unseen_has_floor_plans_that_train_never_has():
    plans = {split: {int(drawn(seed, split).name.rsplit("-", 1)[1]) for seed in range(80)} for split in SPLITS}
    assert not plans["valid_unseen"] & (plans["train"] | plans["valid_seen"])
    assert plans["valid_unseen"] <= set(constants().TEST_SCENE_NUMBERS) and plans["train"] <= set(constants().TRAIN_SCENE_NUMBERS)


def test_every_floor_plan_has_its_furniture_at_places_of_their_own():
    everything = [number for room in ROOMS for split in ("train", "valid_unseen") for number in numbers(split, room)]
    assert len(everything) == 120
    for number in everything:
        plan = floor_plan(number)
        places = [receptacle.location for receptacle in plan.receptacles] + [plan.start]
        assert len(set(places)) == len(places) > 3, number
        assert len({receptacle.id for receptacle in plan.receptacles}) == len(plan.receptacles)


@pytest.mark.parametrize("seed", range(30))
def test_the_wanted_objects_are_there_and_not_where_they_shall_go(seed):
    game = drawn(seed, SPLITS[seed % 3])
    wanted, target = game.parameters.object_target, game.parameters.parent_target
    places = re.findall(rf"\(inReceptacle {wanted}_bar_\S+ ([A-Za-z]+)(?:_bar_\S*?)(SinkBasin|BathtubBasin)?\)", game.problem)
    assert len(places) >= (2 if game.type is TaskType.TWO else 1)
    assert all((part or kind) != target for kind, part in places)
    assert game.goal.count(wanted.lower()) >= 1 and "{" not in game.goal
