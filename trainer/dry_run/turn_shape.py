"""How many tokens a turn has is measured on the environment's own episodes where it can be made, and else is a stated assumption."""

from dataclasses import dataclass

import numpy as np

import envs
from agents.agent import Agent
from agents.context import Context
from envs.needs import unmet
from envs.text_env import TextEnv
from trainer.config import Config
from trainer.configured_agent import configured_agent
from trainer.dry_run.architecture import Architecture

_EPISODES = 4
_CHARACTERS, _FRAME = 4, 8
"""Characters of a token, and tokens of the chat template around a message, where there is no tokenizer."""


@dataclass(frozen=True, slots=True)
class TurnShape:
    """What one rollout is laid out as: at its longest, since every turn is taken and every action is as long as it may be."""

    first_tokens: int
    """Of the first observation, with the system message and the chat template."""
    later_tokens: int
    """Of each later observation, with the chat template: the mean, rounded up."""
    action_tokens: int
    """Of each action."""
    turns: int
    """Turns until `env.max_turns` or `policy.max_length` ends it."""
    texts: tuple[str, ...]
    """Observations to record in the place of real ones."""
    source: str
    """How this is known."""

    @property
    def tokens(self) -> int:
        """Of a whole rollout."""
        return self.first_tokens + (self.turns - 1) * self.later_tokens + self.turns * self.action_tokens


def turn_shape(config: Config, architecture: Architecture) -> TurnShape:
    """The shape of a configuration's turns."""
    if lacking := unmet(envs.spec(config.env.id).needs):
        return _filled(config, f"sequences are taken to be full, since the environment lacks {lacking[0].what}")
    world = envs.make(config.env.id, **config.env.arguments(config.env.train_split))
    try:
        episodes = [_observations(world, config, seed) for seed in range(_EPISODES)]
    finally:
        world.close()
    agent = None if architecture.tokenizer is None else configured_agent(config.agent, architecture.tokenizer)
    lengths = [[_tokens(config, agent, text, place) for place, text in enumerate(texts)] for texts in episodes]
    later = [length for episode in lengths for length in episode[1:]]
    played = f"{_EPISODES} episodes of {config.env.id}"
    if agent is None:
        played += f", at {_CHARACTERS} characters a token and {_FRAME} tokens around each message (the tokenizer is not here)"
    first = max(episode[0] for episode in lengths)
    return _cut(config, first, -(-sum(later) // len(later)) if later else 0, tuple(text for texts in episodes for text in texts), played)


def _cut(config: Config, first: int, later: int, texts: tuple[str, ...], source: str) -> TurnShape:
    """The shape with as many turns as fit; a first observation that leaves no room for an action is cut."""
    action, room = config.rollout.max_new_tokens, config.policy.max_length
    first = min(first, max(1, room - action))
    more = (room - first - action) // (later + action)
    return TurnShape(first, later, min(action, room - first), 1 + min(config.env.max_turns - 1, max(0, more)), texts, source)


def _filled(config: Config, source: str) -> TurnShape:
    """Turns that together fill a sequence."""
    turn = max(1, config.policy.max_length // config.env.max_turns - config.rollout.max_new_tokens)
    return _cut(config, turn, turn, ("x" * _CHARACTERS * turn,), source)


def _observations(world: TextEnv, config: Config, seed: int) -> list[str]:
    """What an episode shows, up to its end or to `env.max_turns`: the expert's where there is one, else one of random actions."""
    rng, expert = np.random.default_rng(seed), envs.spec(config.env.id).abilities.expert
    observation, _ = world.reset(seed=seed)
    texts = [observation]
    for _ in range(config.env.max_turns - 1):
        actions = [world.expert_action()] if expert else world.admissible_actions()
        if not actions:
            break
        observation, _, terminated, truncated, _ = world.step(actions[int(rng.integers(len(actions)))])
        if terminated or truncated:
            break
        texts.append(observation)
    return texts


def _tokens(config: Config, agent: Agent | None, text: str, place: int) -> int:
    if agent is not None:
        return len(Context(agent.template, begun=place > 0).observe(text))
    said = [text] if place or config.agent.system is None else [config.agent.system, text]
    return sum(-(-len(part) // _CHARACTERS) + _FRAME for part in said)
