"""What is read are the codes of a plain dictionary per task, whether turns lead to one another or not, and errors name their turn."""

from dataclasses import replace

import numpy as np
import pytest
from full_turns import filled

from credit import GroupError, Turn
from credit.reader import read_tasks
from credit.state_codes import StateCodes


def random_tasks(seed: int, linked: bool) -> list[list[list[Turn]]]:
    rng = np.random.default_rng(seed)
    tasks = []
    for _ in range(int(rng.integers(1, 5))):
        rollouts = []
        for turns in rng.integers(0, 6, size=rng.integers(0, 5)).tolist():
            states = [f"s{state}" for state in rng.integers(7, size=2 * turns + 1)]
            places = [(t, t + 1) if linked else (2 * t, 2 * t + 1) for t in range(turns)]
            rollouts.append([Turn(states[a], f"a{rng.integers(4)}", states[b], float(rng.normal())) for a, b in places])
        tasks.append(rollouts)
    return tasks


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_codes_are_those_of_a_dictionary_per_task(seed, linked):
    tasks = random_tasks(seed, linked)
    columns = read_tasks(tasks)
    states, before, after, actions = [], [], [], {}
    for rollouts in tasks:
        turns, codes = [turn for rollout in rollouts for turn in rollout], {}
        for row in (before, after):
            for turn in turns:
                row.append(codes.setdefault(turn.state if row is before else turn.next_state, len(states) + len(codes)))
        states += codes
        for turn in turns:
            actions.setdefault(turn.action, len(actions))
    turns = [turn for rollouts in tasks for rollout in rollouts for turn in rollout]
    assert columns.states == states
    assert columns.state_O.tolist() == before and columns.next_state_O.tolist() == after
    assert columns.action_O.tolist() == [actions[turn.action] for turn in turns]
    assert columns.reward_O.tolist() == [turn.reward for turn in turns]
    assert columns.node_O.tolist() == list(range(len(turns)))
    assert columns.lengths == [[len(rollout) for rollout in rollouts] for rollouts in tasks]


def test_a_rollout_that_leads_on_to_the_next_rollouts_start_is_not_one_with_it():
    """The last turn of the first rollout leads to "m", where the second one begins, and that of the second to a new state."""
    states = StateCodes()
    states.add(["s", "m"], ["m", "e"], [1, 1])
    before_O, after_O = states.codes()
    assert (states.states, before_O.tolist(), after_O.tolist()) == (["s", "m", "e"], [0, 1], [1, 2])


def test_equality_is_that_of_dictionary_keys():
    nan = float("nan")
    columns = read_tasks([[[Turn(1, "a", nan, 0.0), Turn(nan, True, 1.0, 0.0)], [Turn(float("nan"), 1, "1", 0.0)]]])
    assert columns.state_O.tolist() == [0, 1, 2] and columns.next_state_O.tolist() == [1, 0, 3]
    assert columns.action_O.tolist() == [0, 1, 1]


@pytest.mark.parametrize("wrong", [np.zeros(2), ["s"], np.array([["s"]])])
@pytest.mark.parametrize("field", ["state", "next_state", "action"])
def test_what_cannot_be_a_key_is_refused_wherever_it_stands(wrong, field):
    for place in range(3):
        turns = [Turn("s", "a", "s", 0.0)] * 3
        turns[place] = replace(turns[place], **{field: wrong})
        with pytest.raises(GroupError, match=f"a turn's {field} cannot be a dictionary key"):
            read_tasks([[turns]])


def test_nodes_are_numbered_by_first_appearance_within_their_task():
    def turn(node: int | None) -> Turn:
        return Turn("s", "a", "s", 0.0, node=node)

    tasks = [[[turn(7), turn(-2)], [turn(7), turn(None)]], [], [[turn(7), turn(10**30)], [turn(None)], [turn(7), turn(None)]]]
    assert read_tasks(tasks).node_O.tolist() == [0, 1, 0, 2, 3, 4, 5, 3, 6]


def test_a_reward_that_only_some_tasks_name_is_zero_in_the_others():
    first, second = ([[Turn("s", "a", "e", 0.0, rewards={name: 2.0, "task": 1.0})]] for name in ("format", "length"))
    rewards = read_tasks([first, [[]], second], parts=True).rewards
    assert {name: column.tolist() for name, column in rewards.items()} == {"format": [2, 0], "length": [0, 2], "task": [1, 1]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": None}, "turn 1 of rollout 2 of task {task} has reward None"),
        ({"node": "x"}, "turn 1 of rollout 2 of task {task} has node 'x'"),
        ({"entropy": None}, "turn 1 of rollout 2 of task {task} has no entropy"),
        ({"entropy": np.zeros(2)}, "turn 1 of rollout 2 of task {task} has entropy array"),
        ({"entropy": "1"}, "turn 1 of rollout 2 of task {task} has entropy '1'"),
        ({"rewards": None}, "turn 1 of rollout 2 of task {task} has rewards None"),
        ({"rewards": {"task": "1"}}, r"turn 1 of rollout 2 of task {task} has rewards\['task'\] '1'"),
    ],
)
def test_errors_name_the_task_before_the_others_are_read(change, message):
    good, wrong = filled([[Turn("s", "a", "s", 0.0)] * 2] * 2)
    for task in range(3):
        tasks = [[good]] * 3
        tasks[task] = [good, [], [wrong[0], replace(wrong[1], **change)]]
        with pytest.raises(GroupError, match=message.replace("{task}", str(task))):
            read_tasks(tasks, frozenset({"entropy"}), parts=True)


def test_integers_that_no_array_holds_are_numbers():
    assert read_tasks([[[Turn("s", "a", "e", reward) for reward in (2**70, 0.5, True)]]]).reward_O.tolist() == [2.0**70, 0.5, 1.0]
