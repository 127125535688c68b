import pickle
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from counter_world import CounterEnv, TiredEnv, assert_same_tree, record

from envs.errors import AbilityError
from envs.text_env import TextEnv
from tree_rollout.errors import ForkError, ReplayDivergedError
from tree_rollout.fork import SCRIPTED_POLICIES, PolicyAction, fork
from tree_rollout.replay import replay
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin, Turn

EXPERT, RANDOM = SCRIPTED_POLICIES["expert"], SCRIPTED_POLICIES["random"]


@pytest.fixture
def tree() -> TrajectoryTree:
    """Two rollouts from 4 on, which never reach their goal of 6."""
    return record(CounterEnv(limit=30), 3, "ldldll", "dddd")


def run(tree: TrajectoryTree, node: int, policy=EXPERT, env: TextEnv | None = None, seed: int = 0, max_turns: int = 20) -> list[Turn]:
    return fork(tree, node, policy, env or CounterEnv(limit=30), rng=np.random.default_rng(seed), max_turns=max_turns)


def test_a_fork_goes_on_from_the_state_before_the_node_and_makes_a_new_child(tree):
    node, before = 2, len(tree.turns)
    turns = run(tree, node)
    first, last = turns[0], turns[-1]
    assert (first.state, first.observation) == (tree.turns[node].state, tree.turns[node].observation)
    assert first.origin == Origin("fork", "expert") and all(turn.origin is None for turn in turns[1:])
    assert tree.children(tree.turns[node].parent) == [node, before]
    assert [turn.parent for turn in turns] == [1, *range(before, before + len(turns) - 1)]
    assert tree.turns[before:] == turns
    assert last.terminated and last.success and last.stop_reason is StopReason.TERMINATED
    assert all(turn.stop_reason is None for turn in turns[:-1])
    for earlier, later in pairwise(turns):
        assert earlier.next_state == later.state


def test_a_scripted_turn_has_no_tokens(tree):
    turn = run(tree, 0)[0]
    arrays = (turn.ids_T, turn.mask_T, turn.logprobs_T, turn.entropies_T)
    assert [(array.dtype, array.shape) for array in arrays] == [
        (np.dtype(np.int32), (0,)),
        (np.dtype(np.bool_), (0,)),
        (np.dtype(np.float32), (0,)),
        (np.dtype(np.float32), (0,)),
    ]
    assert turn.policy_version == -1 and turn.entropy == 0


def test_any_number_of_forks_of_one_node_each_make_a_new_child_and_all_replay(tree):
    recorded = TrajectoryTree(tree.env_id, tree.seed, tree.env_kwargs, list(tree.turns))
    for seed in range(5):
        run(tree, 3, RANDOM, seed=seed)
    run(tree, 0)
    run(tree, len(tree.turns) - 1)
    assert len(tree.children(2)) == 6 and len(tree.children(-1)) == 3
    assert_same_tree(TrajectoryTree(tree.env_id, tree.seed, tree.env_kwargs, tree.turns[: len(recorded.turns)]), recorded)
    assert replay(tree, CounterEnv(limit=30)).exact
    assert replay(tree, CounterEnv(limit=30), restore=False).exact


def test_one_seed_gives_one_fork(tree):
    actions = [[turn.action for turn in run(tree, 3, RANDOM, seed=seed)] for seed in (7, 7, 8)]
    assert actions[0] == actions[1] != actions[2]


def test_forks_are_recorded_in_the_trace_and_replay_from_there(tree, trace):
    (tree_id,) = trace.append([tree], 0)
    for node in (3, 3, 0):
        recorded = trace.tree(tree_id)
        before = len(recorded.turns)
        turns = run(recorded, node, RANDOM, seed=node)
        assert trace.add_fork(tree_id, turns) == list(range(before, before + len(turns)))
        assert_same_tree(trace.tree(tree_id), recorded)
    assert replay(trace.tree(tree_id), CounterEnv(limit=30)).exact


def test_a_prefix_that_does_not_replay_is_an_error_with_its_first_differing_turn(tree):
    count = len(tree.turns)
    with pytest.raises(ReplayDivergedError, match="turn 3 does not replay: its observation was 'You see") as caught:
        run(tree, 5, env=TiredEnv(patience=3))
    assert (caught.value.turn, caught.value.field, caught.value.exit_code) == (3, "observation", 2)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert len(tree.turns) == count
    tree.turns[1].reward = 7.0
    with pytest.raises(ReplayDivergedError, match=r"turn 1 does not replay: its reward was 7\.0"):
        run(tree, 5)


def test_the_situation_at_the_node_itself_is_compared(tree):
    tree.turns[2].observation = "something else"
    with pytest.raises(ReplayDivergedError, match="turn 2 does not replay: its observation"):
        run(tree, 2)
    assert run(tree, 1)


def test_a_prefix_in_which_the_environment_raises_is_an_error(tree):
    class Broken(CounterEnv):
        def step(self, action):
            raise OSError("no")

    with pytest.raises(ReplayDivergedError, match="turn 0 does not replay: its step was an answer and is now OSError: no"):
        run(tree, 1, env=Broken())


@pytest.mark.parametrize(
    ("node", "max_turns", "message"), [(-1, 5, "no turn -1; choose one from 0 to"), (999, 5, "no turn 999"), (0, 0, "max_turns is 0")]
)
def test_what_cannot_be_forked_is_an_error(tree, node, max_turns, message):
    with pytest.raises(ForkError, match=message):
        run(tree, node, max_turns=max_turns)
    with pytest.raises(ForkError):
        run(TrajectoryTree("test/Counter-v0", 0), 0)


def test_max_turns_ends_a_fork_and_leaves_to_the_environment_what_it_said(tree):
    turns = run(tree, 4, RANDOM, max_turns=2)
    assert len(turns) == 2 and turns[-1].stop_reason is StopReason.TRUNCATED and not turns[-1].truncated


def test_the_environments_own_limit_counts_the_turns_before_the_fork():
    tree = record(CounterEnv(limit=4), 3, "dddd")
    turns = run(tree, 2, RANDOM, env=CounterEnv(limit=4), seed=3)
    assert len(turns) == 2 and turns[-1].stop_reason is StopReason.TRUNCATED and turns[-1].truncated


def test_an_environment_that_fails_later_is_recorded_as_such(tree):
    class Fragile(CounterEnv):
        def step(self, action):
            if len(self.executed) == 3:
                raise OSError("no")
            return super().step(action)

    turns = run(tree, 2, RANDOM, env=Fragile(limit=30))
    assert [turn.stop_reason for turn in turns] == [None, StopReason.ENV_ERROR]


def test_an_expert_that_is_missing_is_an_error(tree):
    class NoExpert(CounterEnv):
        expert_action = TextEnv.expert_action

    count = len(tree.turns)
    with pytest.raises(AbilityError, match="no expert"):
        run(tree, 2, env=NoExpert(limit=30))
    assert len(tree.turns) == count


class Checkpoint:
    """Answers with tokens, as a policy with a model does, until its context is full."""

    name = "checkpoint"

    def __init__(self, room: int) -> None:
        self.room = room
        self.contexts: list[np.ndarray] = []

    def act(self, env: TextEnv, observation: str, history: Sequence[Turn], rng: np.random.Generator) -> PolicyAction | None:
        context = np.concatenate([np.zeros(0, np.int32), *(turn.ids_T for turn in history)])
        if len(context) + 2 > self.room:
            return None
        self.contexts.append(context)
        ids_T = np.array([len(observation), int(rng.integers(100))], np.int32)
        numbers_T = np.array([0, -0.5], np.float32)
        return PolicyAction("look", ids_T, np.array([False, True]), numbers_T, -numbers_T, policy_version=12)


def test_a_policy_with_a_model_sees_the_token_ids_of_the_path_and_keeps_its_own(tree):
    prefix = tree.ids(2)
    policy = Checkpoint(room=len(prefix) + 6)
    turns = run(tree, 3, policy)
    assert len(turns) == 3 and turns[-1].stop_reason is StopReason.CONTEXT_LENGTH
    assert turns[0].policy_version == 12 and turns[0].origin == Origin("fork", "checkpoint")
    leaf = len(tree.turns) - 1
    for count, context in enumerate(policy.contexts):
        assert context.tolist() == tree.ids(leaf)[: len(prefix) + 2 * count].tolist()
    assert replay(tree, CounterEnv(limit=30)).exact


def test_a_context_without_room_at_the_fork_is_an_error(tree):
    with pytest.raises(ForkError, match="context of policy 'checkpoint' has no room"):
        run(tree, 3, Checkpoint(room=1))


def test_arrays_of_one_action_have_one_length():
    with pytest.raises(ValueError, match="equal length"):
        PolicyAction("look", ids_T=np.zeros(2, np.int32))
