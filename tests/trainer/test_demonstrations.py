from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import words_world
from words_world import WordsEnv

import envs
from agents.agent import Agent
from agents.context import TurnTemplate
from agents.scripted_engine import ScriptedEngine
from agents.tokenizer import train_tokenizer
from agents.tool_call import ToolCallAction
from envs.errors import AbilityError
from trainer.demonstrations import DemonstratedTurn, DemonstrationEncoder, batches, demonstrate
from tree_rollout.sampler import Sampler
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.task import Task


def words_tokenizer() -> Any:
    return train_tokenizer(["You have box 1. Go on.", "take box 2"], ["box 0", "box 1", "box 2", "box 3"], 400)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_an_episode_is_a_function_of_seed_and_generator() -> None:
    world = envs.make("branchwise/Household-v0", split="train", max_turns=20)
    habits = {"give_up": 0.5}
    first = demonstrate(world, 3, rng(), habits, 0.3)
    assert demonstrate(world, 3, rng(), habits, 0.3) == first
    assert demonstrate(world, 3, rng(1), habits, 0.3) != first
    assert demonstrate(world, 4, rng(), habits, 0.3)[0].observation != first[0].observation


def test_without_noise_every_action_is_the_demonstrators() -> None:
    world = envs.make("branchwise/Household-v0", split="train", max_turns=50)
    turns = demonstrate(world, 5, rng(), {}, 0.0)
    assert all(turn.imitate for turn in turns)
    observation, _ = world.reset(seed=5)
    for turn in turns:
        assert turn.observation == observation
        assert turn.action == world.expert_action()
        observation, _, terminated, _, info = world.step(turn.action)
    assert terminated
    assert info["success"]


def test_noise_is_not_imitated() -> None:
    world = envs.make("branchwise/Household-v0", split="train", max_turns=30)
    turns = [turn for seed in range(20) for turn in demonstrate(world, seed, rng(seed), {}, 0.4)]
    assert sum(not turn.imitate for turn in turns) / len(turns) == pytest.approx(0.4, abs=0.06)


class StubbornEnv(WordsEnv):
    """Its demonstrator gives up at once."""

    def demonstrator(self, rng: np.random.Generator, **habits: Any) -> Callable[[], str]:
        return lambda: "wait here"

    def admissible_actions(self) -> list[str]:
        return []


def test_an_episode_ends_where_the_demonstrator_gives_up() -> None:
    turns = demonstrate(StubbornEnv(max_turns=50, start=1), 0, rng(), {}, 0.0)
    assert len(turns) <= 3
    assert {turn.action for turn in turns} == {"wait here"}


def test_noise_needs_something_to_do() -> None:
    with pytest.raises(AbilityError, match=r"set warmstart\.noise to 0"):
        for seed in range(20):
            demonstrate(StubbornEnv(max_turns=50), seed, rng(seed), {}, 0.9)


def test_weights_of_tokens() -> None:
    tokenizer = words_tokenizer()
    template = TurnTemplate.from_tokenizer(tokenizer)
    turns = [DemonstratedTurn("You have box 1.", "go", True), DemonstratedTurn("You have box 3.", "take", False)]
    given = DemonstrationEncoder(Agent.of(tokenizer), 0.25).encode(turns)[0]
    acts = [len(template.encode_observation(turn.action)) + 1 for turn in turns]
    expected: list[float] = []
    for place, (turn, count) in enumerate(zip(turns, acts, strict=True)):
        before = len(template.head_T if place == 0 else template.after_stop_T)
        expected += [0.25] * (before + len(template.encode_observation(turn.observation)) + len(template.tail_T))
        expected += [float(turn.imitate)] * count
    np.testing.assert_array_equal(given.weights_T, np.array(expected, np.float32))
    stops = np.flatnonzero(given.ids_T == template.stop_id)
    assert given.weights_T[stops].tolist() == [1.0, 0.0], "the stop token belongs to the action"


def test_ids_are_what_a_rollout_with_the_same_texts_holds() -> None:
    tokenizer = words_tokenizer()
    template = TurnTemplate.from_tokenizer(tokenizer)
    seed, turns = next((seed, turns) for seed in range(50) if len(turns := demonstrate(WordsEnv(), seed, rng(seed), {}, 0.9)) == 3)
    scripts = {turn: template.encode_observation(demonstrated.action).tolist() for turn, demonstrated in enumerate(turns)}
    engine = ScriptedEngine(lambda ids, seed: [*scripts[seed[-1]], template.stop_id], template.stop_ids, max_length=200)
    settings = SamplerSettings.plain(max_turns=3, max_new_tokens=20)
    with Sampler(engine, envs.make, Agent.of(tokenizer), settings) as sampler:
        (tree,) = sampler.sample([Task(words_world.ENV, seed, {"split": "train"})], run_seed=0).trees
    assert [turn.action for turn in tree.turns] == [turn.action for turn in turns]
    np.testing.assert_array_equal(DemonstrationEncoder(Agent.of(tokenizer), 0.5).encode(turns)[0].ids_T, tree.ids(len(tree.turns) - 1))
    imitated = [DemonstratedTurn(turn.observation, turn.action, True) for turn in turns]
    acted_T = DemonstrationEncoder(Agent.of(tokenizer), 0.0).encode(imitated)[0].weights_T > 0
    np.testing.assert_array_equal(acted_T, np.concatenate([turn.mask_T for turn in tree.turns]))


@pytest.mark.parametrize(("count", "tokens"), [(1, 10), (5, 1), (200, 100), (130, 10_000)])
def test_batches_hold_each_episode_once(count: int, tokens: int) -> None:
    lengths = rng(1).integers(5, 50, count).tolist()
    cut = batches(lengths, tokens, rng())
    assert sorted(episode for batch in cut for episode in batch) == list(range(count))
    assert cut == batches(lengths, tokens, rng())
    for batch in cut:
        assert sum(lengths[episode] for episode in batch[:-1]) < tokens, "a batch is closed once it holds enough"


def test_the_agent_is_told_what_a_rollout_would_be_told() -> None:
    """An action format may wrap what the environment answers, as tool calls do."""
    tokenizer = words_tokenizer()
    agent = Agent.of(tokenizer, action_format=ToolCallAction())
    calls = ['{"arguments":{},"name":"go"}', '{"arguments":{},"name":"wait"}']
    turns = [DemonstratedTurn(f"You have box {number}.", call, True) for number, call in enumerate(calls)]
    (given,) = DemonstrationEncoder(agent, 0.0).encode(turns)
    context, parsed, pieces = agent.context(), None, []
    for turn in turns:
        told = turn.observation if parsed is None else agent.action_format.reply(turn.observation, parsed)
        said_T = np.append(agent.template.encode_text(agent.action_format.write(turn.action)), agent.template.stop_id).astype(np.int32)
        pieces += [context.extend(told).ids_T, said_T]
        context.record(said_T, stopped=True)
        parsed = agent.parse(said_T, stopped=True)
    assert parsed is not None and parsed.ok
    np.testing.assert_array_equal(given.ids_T, np.concatenate(pieces))
    assert "<tool_response>" in agent.text(given.ids_T.tolist())
