"""Recorded rollouts in an agent's tokens: as sampled where it is the same conversation, anew where it is not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from words_world import ENV

import envs
from agents.agent import Agent
from agents.memory import SlidingWindow
from agents.random_engine import RandomEngine
from agents.tagged_action import TaggedAction
from agents.tokenizer import train_tokenizer
from trainer.tree_encoding import TreeEncoder
from tree_rollout.sampler import Sampler
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.task import Task
from tree_rollout.tree import TrajectoryTree

from test_demonstrations import words_tokenizer  # isort: skip

TOKENIZER = words_tokenizer()
OTHER: Any = train_tokenizer(["box go take wait " * 5, "You have box"], ["box 3"], 300)
NOTHING = {name: np.zeros(0, kind) for name, kind in (("ids_T", np.int32), ("mask_T", bool), ("logprobs_T", "f4"), ("entropies_T", "f4"))}


SAYINGS = ["go", "take box 3", "wait here", "box", "<action>go</action>", "so <action>box 1</action> then"]


def recorded(agent: Agent, turns: int = 4, longest: int = 12, **options: Any) -> TrajectoryTree:
    """A tree of a policy that speaks at random, with forks."""
    engine = RandomEngine(agent.stop_ids, tokenizer=TOKENIZER, **(options or {"texts": SAYINGS}))
    settings = SamplerSettings(roots=2, forks=3, max_turns=turns, max_new_tokens=longest)
    with Sampler(engine, envs.make, agent, settings) as sampler:
        (tree,) = sampler.sample([Task(ENV, 5, {"split": "train", "max_turns": turns})], run_seed=0).trees
    return tree


def encoder(agent: Agent, tokenizer: Any = TOKENIZER, recorder: Agent | None = None, max_length: int = 10_000) -> TreeEncoder:
    return TreeEncoder(agent, len(tokenizer), max_length, recorder)


AGENTS: dict[str, Callable[[], Agent]] = {
    "text": lambda: Agent.of(TOKENIZER),
    "tagged": lambda: Agent.of(TOKENIZER, action_format=TaggedAction()),
    "window": lambda: Agent.of(TOKENIZER, memory=SlidingWindow(turns=2)),
}


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("engine", [{}, {"vocab_size": len(TOKENIZER)}], ids=["texts", "any tokens"])
def test_the_same_agent_gets_what_was_sampled(name: str, engine: dict[str, Any]) -> None:
    """Bit for bit, new sequences, cut turns and turns that say nothing included."""
    agent = AGENTS[name]()
    tree = recorded(agent, **engine)
    kept, reasons = encoder(agent).encode(tree, tree.leaves())
    assert kept is not None and not reasons and kept.re_encoded == 0 and kept.rollouts == len(tree.leaves())
    assert any(turn.new_segment for turn in tree.turns) == (name == "window")
    for turn, again in zip(tree.turns, kept.tree.turns, strict=True):
        assert again.parent == turn.parent and again.new_segment == turn.new_segment
        np.testing.assert_array_equal(again.ids_T, turn.ids_T)
        np.testing.assert_array_equal(again.mask_T, turn.mask_T)
    np.testing.assert_array_equal(kept.weights_N, tree.leaf_weights())


def test_only_kept_rollouts_are_there_and_a_shared_turn_weighs_as_often_as_they_share_it() -> None:
    agent = AGENTS["text"]()
    tree = recorded(agent)
    leaves = [leaf for leaf in tree.leaves() if len(tree.path(leaf)) > 1][-3:]
    kept, _ = encoder(agent).encode(tree, leaves)
    assert kept is not None and kept.rollouts == 3
    through = [sum(index in tree.path(leaf) for leaf in leaves) for index in range(len(tree.turns))]
    assert kept.weights_N.tolist() == [count for count in through if count]
    assert max(through) > 1, "otherwise nothing is shared"
    for leaf, path in zip(leaves, kept.tree.rollouts(), strict=True):
        np.testing.assert_array_equal(kept.tree.ids(path[-1]), tree.ids(leaf))


@pytest.mark.parametrize("known", [True, False])
def test_another_tokenizer_gets_the_same_conversation_in_its_own_tokens(known: bool) -> None:
    """With the agent that recorded, the policy's own words; without it, its actions."""
    recorder, agent = AGENTS["tagged"](), Agent.of(OTHER, action_format=TaggedAction())
    tree = recorded(recorder, longest=100, texts=["so <action>box 1</action> then", "<action>go</action>"])
    kept, reasons = encoder(agent, OTHER, recorder if known else None).encode(tree, tree.leaves())
    assert kept is not None and not reasons and kept.re_encoded == len(tree.turns)
    for leaf, path in zip(tree.leaves(), kept.tree.rollouts(), strict=True):
        context, parsed = agent.context(), None
        for index, again in zip(tree.path(leaf), [kept.tree.turns[place] for place in path], strict=True):
            turn = tree.turns[index]
            shown = turn.observation if parsed is None else agent.action_format.reply(turn.observation, parsed)
            np.testing.assert_array_equal(again.ids_T[~again.mask_T], context.extend(shown).ids_T)
            sample_T = again.ids_T[again.mask_T]
            words_T = turn.ids_T[turn.mask_T]
            words = recorder.text([index for index in words_T.tolist() if index not in recorder.stop_ids])
            assert agent.text(sample_T[:-1].tolist()) == (words if known else f"<action>{turn.action}</action>")
            assert sample_T[-1] == agent.template.stop_id
            context.record(sample_T, stopped=True)
            parsed = agent.parse(sample_T, stopped=True)
            assert parsed.action == turn.action


def without_tokens(tree: TrajectoryTree, **changes: Any) -> TrajectoryTree:
    return TrajectoryTree(tree.env_id, tree.seed, tree.env_kwargs, [replace(turn, **NOTHING, **changes) for turn in tree.turns])


def test_turns_of_a_person_are_what_the_agent_would_have_written() -> None:
    agent = AGENTS["text"]()
    tree = without_tokens(recorded(agent, texts=["go", "wait here"]))
    encode = encoder(agent)
    kept, _ = encode.encode(tree, tree.leaves())
    assert kept is not None
    for turn in kept.tree.turns:
        sample_T = turn.ids_T[turn.mask_T]
        assert agent.text(sample_T[:-1].tolist()) == turn.action and sample_T[-1] == agent.template.stop_id
        assert len(sample_T) == encode.own_tokens(turn) == encode.own_tokens(replace(turn, **NOTHING))


def test_what_the_agent_cannot_write_or_hold_is_left_out_with_the_reason() -> None:
    agent = AGENTS["text"]()
    tree = recorded(agent)
    kept, reasons = encoder(agent).encode(without_tokens(tree, action="one line\nand another"), tree.leaves())
    assert kept is None and len(reasons) == len(tree.leaves())
    assert "cannot write the action 'one line\\nand another' in a way that it reads itself" in reasons[0]
    lengths = [len(tree.ids(leaf)) for leaf in tree.leaves()]
    kept, reasons = encoder(agent, max_length=max(lengths) - 1).encode(tree, tree.leaves())
    assert kept is not None and kept.rollouts == sum(length < max(lengths) for length in lengths)
    assert set(reasons) == {f"it has more than the {max(lengths) - 1} tokens of policy.max_length"}


def test_a_turn_that_nobody_answered_is_no_part_of_a_rollout() -> None:
    agent = AGENTS["text"]()
    tree = recorded(agent)
    leaf = tree.leaves()[0]
    unanswered = tree.add(replace(tree.turns[leaf], parent=leaf, action="", **NOTHING))
    kept, _ = encoder(agent).encode(tree, [unanswered])
    assert kept is not None and len(kept.tree.turns) == len(tree.path(leaf))
