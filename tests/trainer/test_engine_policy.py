from pathlib import Path

import numpy as np
import pytest
from words_world import WordsEnv, copy

from agents.context import Context, TurnTemplate
from agents.policy_folder import load_policy
from trainer.cli import main
from trainer.engine_policy import EnginePolicy
from trainer.errors import CheckpointError, RunFolderError
from trainer.run_folder import RunFolder
from tree_rollout.trace import Trace
from tree_rollout.turn import Turn


def first_turn(policy: EnginePolicy, env: WordsEnv, seed: int = 0) -> Turn:
    """What the policy does first, as a recorded turn."""
    observation, _ = env.reset(seed=seed)
    action = policy.act(env, observation, [], np.random.default_rng(seed))
    assert action is not None
    return Turn(
        -1, observation, action.action, action.ids_T, action.mask_T, action.logprobs_T, action.entropies_T, 0, 0, False, False, True, "", ""
    )


def test_it_sees_what_was_recorded(finished: RunFolder) -> None:
    """Its prompt is the recorded tokens and the new observation, whatever texts the tokens stand for."""
    policy, env = EnginePolicy.of_run(finished), WordsEnv()
    turn = first_turn(policy, env)
    seen: list[np.ndarray] = []
    generate = policy._engine.generate
    policy._engine.generate = lambda requests: seen.extend(request.ids_T for request in requests) or generate(requests)  # pyright: ignore
    observation = env.step(turn.action)[0]
    action = policy.act(env, observation, [turn], np.random.default_rng(1))
    assert action is not None
    template = TurnTemplate.from_tokenizer(load_policy(finished.policy(2))[1])
    stopped = int(turn.ids_T[-1]) == template.stop_id
    delta_T = Context(template, begun=True).observe(observation, stopped=stopped)
    np.testing.assert_array_equal(seen[0], [*turn.ids_T, *delta_T])
    np.testing.assert_array_equal(action.ids_T[: len(delta_T)], delta_T)
    assert action.mask_T.tolist() == [False] * len(delta_T) + [True] * (len(action.ids_T) - len(delta_T))
    assert (action.logprobs_T[action.mask_T] < 0).all()
    assert not action.logprobs_T[~action.mask_T].any()
    assert action.policy_version == 4, "two iterations of two optimizer steps"


def test_turns_without_tokens_are_encoded_as_a_rollout_would_hold_them(finished: RunFolder) -> None:
    """An expert's turn and the same turn of a policy that stopped in time lead to the same sample."""
    policy, env = EnginePolicy.of_run(finished), WordsEnv()
    template = TurnTemplate.from_tokenizer(load_policy(finished.policy(2))[1])
    observation, _ = env.reset(seed=1)
    ids_T = np.array([*Context(template).observe(observation), *template.encode_observation("go"), template.stop_id], np.int32)
    empty, zeros = np.zeros(0, np.float32), np.zeros(len(ids_T), np.float32)
    textual = Turn(-1, observation, "go", ids_T[:0], empty > 0, empty, empty, 0, 0, False, False, True, "", "")
    sampled_T = np.arange(len(ids_T)) >= len(Context(template).observe(observation))
    recorded = Turn(-1, observation, "go", ids_T, sampled_T, zeros, zeros, 0, 0, False, False, True, "", "")
    answers = [policy.act(env, "You have box 2.", [turn], np.random.default_rng(1)) for turn in (textual, recorded)]
    assert answers[0] is not None
    assert answers[1] is not None
    np.testing.assert_array_equal(answers[0].ids_T, answers[1].ids_T)
    np.testing.assert_array_equal(answers[0].logprobs_T, answers[1].logprobs_T)


def test_one_generator_is_one_action(finished: RunFolder) -> None:
    policy, env = EnginePolicy.of_run(finished), WordsEnv()
    actions = [first_turn(policy, env, seed).ids_T.tolist() for seed in (0, 0, 1, 2, 3)]
    assert actions[0] == actions[1]
    assert len({str(action) for action in actions}) > 1


def test_it_stops_where_nothing_fits_any_more(finished: RunFolder) -> None:
    policy, env = EnginePolicy.of_run(finished), WordsEnv()
    length = len(first_turn(policy, env).ids_T)
    observation, _ = env.reset(seed=0)
    fitting = "x" * (128 - length - 10)
    assert policy.act(env, observation + fitting, [], np.random.default_rng(0)) is not None
    for more in range(5, 40):
        action = policy.act(env, observation + fitting + "x" * more, [], np.random.default_rng(0))
        assert action is None or action.mask_T.any(), "never an action of no token"
    assert action is None


def test_a_fork_of_a_recorded_tree(finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copy(finished, tmp_path / "run")
    assert main(["fork", str(folder.path), ":0", "--policy", "checkpoint"]) == 0
    assert main(["replay", str(folder.path)]) == 0
    with Trace.open(folder.trace, readonly=True) as trace:
        summary = list(trace.trees())[-1]
        added = trace.tree(summary.id).turns[summary.turns :]
    assert added
    assert all(turn.mask_T.any() and turn.policy_version == 4 for turn in added)


def test_which_policies_there_are(finished: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="keeps no policy of iteration 7; choose one of 0, 1, 2"):
        EnginePolicy.of_run(finished, 7)
    folder = copy(finished, tmp_path / "run")
    (folder.policy(1) / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="000001 is damaged: its files were changed"):
        EnginePolicy.of_run(folder, 1)
