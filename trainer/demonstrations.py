"""A demonstration is an episode as token ids, encoded piece by piece as a rollout is, with a weight for each token's loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.agent import Agent
from agents.context import Context
from envs.errors import AbilityError
from envs.text_env import TextEnv

_IDLE_TURNS = 3


@dataclass(frozen=True, slots=True)
class DemonstratedTurn:
    """One turn of a demonstration."""

    observation: str
    action: str
    imitate: bool
    """False for a random action that only leads into states which the demonstrator would not reach."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """An encoded episode; the axis T is its tokens."""

    ids_T: npt.NDArray[np.int32]
    weights_T: npt.NDArray[np.float32]
    """Weight of each token's prediction in the loss; 0 where it is not learned."""


def demonstrate(env: TextEnv, seed: int, rng: np.random.Generator, habits: dict[str, Any], noise: float) -> list[DemonstratedTurn]:
    """Record one episode of the environment's demonstrator.

    With probability `noise` a turn takes another action instead, which is not imitated: any that is admissible, or one from before, which
    now may fail. The episode is cut where the demonstrator repeats one action three times: it has given up.
    """
    observation, _ = env.reset(seed=seed)
    teacher = env.demonstrator(rng, **habits)
    turns: list[DemonstratedTurn] = []
    repeated = 0
    while True:
        imitate = noise == 0 or rng.random() >= noise
        action = teacher() if imitate else _any([*env.admissible_actions(), *(turn.action for turn in turns)], rng)
        repeated = repeated + 1 if turns and imitate and action == turns[-1].action else 0
        turns.append(DemonstratedTurn(observation, action, imitate))
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated or repeated + 1 >= _IDLE_TURNS:
            return turns


def _any(actions: list[str], rng: np.random.Generator) -> str:
    if not actions:
        raise AbilityError("the environment admits no action in its present state; set warmstart.noise to 0")
    return actions[int(rng.integers(len(actions)))]


class DemonstrationEncoder:
    """Encodes episodes as an agent's rollouts would be; texts that recur are encoded once."""

    def __init__(self, agent: Agent, observation_weight: float) -> None:
        self._agent = agent
        self._observation_weight = observation_weight
        self._observe: Callable[[str, bool], npt.NDArray[np.int32]] = lru_cache(maxsize=50_000)(self._encode_observation)
        self._act: Callable[[str], npt.NDArray[np.int32]] = lru_cache(maxsize=50_000)(self._encode_action)

    def encode(self, turns: Sequence[DemonstratedTurn]) -> list[Demonstration]:
        """The sequences of an episode, one unless the agent's memory drops turns, with the loss weights.

        Imitated actions with their stop token have weight 1, other tokens the observation weight. What a new sequence takes over from
        the one before has 0: it was learned there.
        """
        context, said = self._agent.context(), None
        sequences: list[tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.float32]]]] = []
        for turn in turns:
            action_T, told = self._act(turn.action), self._told(turn.observation, said)
            if self._agent.keeps_everything:
                delta_T, carried = self._observe(told, said is not None), 0
            else:
                delta = context.extend(told)
                context.record(action_T, stopped=True)
                delta_T = delta.ids_T
                carried = len(delta_T) - len(self._observe(told, True)) if delta.new_segment else 0
                if delta.new_segment:
                    sequences.append(([], []))
            if not sequences:
                sequences.append(([], []))
            weights_T = np.full(len(delta_T), self._observation_weight, dtype=np.float32)
            weights_T[:carried] = 0
            ids, weights = sequences[-1]
            ids += [delta_T, action_T]
            weights += [weights_T, np.full(len(action_T), float(turn.imitate), dtype=np.float32)]
            said = turn.action
        return [Demonstration(np.concatenate(ids), np.concatenate(weights)) for ids, weights in sequences]

    def _told(self, observation: str, said: str | None) -> str:
        """The observation as a rollout's policy is told it after its action `said`; None at the start."""
        action_format = self._agent.action_format
        return observation if said is None else action_format.reply(observation, action_format.parse(action_format.write(said)))

    def _encode_observation(self, observation: str, begun: bool) -> npt.NDArray[np.int32]:
        return Context(self._agent.template, begun=begun).observe(observation)

    def _encode_action(self, action: str) -> npt.NDArray[np.int32]:
        template = self._agent.template
        return np.append(template.encode_text(self._agent.action_format.write(action)), np.int32(template.stop_id))


def batches(lengths_E: Sequence[int], tokens: int, rng: np.random.Generator) -> list[list[int]]:
    """Cut one shuffled pass over the episodes into batches of about `tokens` tokens, episodes of similar length together.

    Args:
        lengths_E: tokens of each episode.
        tokens: a batch is closed once it holds this many.
    """
    cut: list[list[int]] = []
    order = rng.permutation(len(lengths_E))
    for start in range(0, len(order), 64):
        batch: list[int] = []
        held = 0
        for episode in sorted((int(index) for index in order[start : start + 64]), key=lambda index: lengths_E[index]):
            batch.append(episode)
            held += lengths_E[episode]
            if held >= tokens:
                cut.append(batch)
                batch, held = [], 0
        if batch:
            cut.append(batch)
    return [cut[int(index)] for index in rng.permutation(len(cut))]
