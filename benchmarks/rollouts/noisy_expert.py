"""A policy that is an environment's expert but for a known share of random actions; what it says is a function of what it was told.

It follows a conversation by taking the actions that it reads there in a world of its own. Every log-probability and entropy is exact: a
token has the probability with which the actions that begin alike go on with it.
"""

from functools import cache
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

import envs
from agents import Agent
from agents.engine import Sample, SampleRequest
from agents.held_sequences import Ids
from agents.request_seed import seed_number
from agents.tokenizer import ACTION_TOKEN, END_TOKEN, OBSERVATION_TOKEN
from agents.turn_engine import TurnEngine
from benchmarks.rollouts.household_talk import HOUSEHOLD

Done = tuple[int, tuple[str, ...]]
"""A task's seed, and the actions that were taken in it."""
Chances = dict[tuple[int, ...], float]
"""The probability of each action, which is given as its tokens with the stop token."""


class NoisyExpert(TurnEngine):
    """An `Engine` for tasks of one environment whose requests come from a `Sampler`: it finds the task's seed in the request's."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, agent: Agent, noise: float, max_length: int = 8192, world: str = HOUSEHOLD
    ) -> None:
        """`world` is the environment's id; `noise` is the share of turns whose action is drawn evenly from the admissible ones, 0 to 1."""
        if not 0 <= noise <= 1:
            raise ValueError(f"noise is {noise}; give the share of random actions, 0 to 1")
        super().__init__(max_length)
        self._agent, self._noise = agent, noise
        ids = tokenizer.get_vocab()
        self._opens, self._closes = ids[ACTION_TOKEN], {ids[END_TOKEN], ids[OBSERVATION_TOKEN]}
        self._world = envs.make(world)
        self._snapshots: dict[Done, Any] = {}
        self._chances: dict[Done, Chances] = {}
        self._encode = cache(lambda text: (*agent.template.encode_text(text).tolist(), agent.template.stop_id))
        self._asked: list[tuple[SampleRequest, Ids]] = []

    def chances(self, seed: int, done: tuple[str, ...]) -> Chances:
        """What may be said after these actions."""
        if (seed, done) not in self._chances:
            self._go_to(seed, done)
            actions = self._world.admissible_actions()
            chances = dict.fromkeys(map(self._encode, actions), self._noise / len(actions))
            best = self._encode(self._world.expert_action())
            chances[best] = chances.get(best, 0.0) + 1 - self._noise
            self._chances[seed, done] = {said: chance for said, chance in chances.items() if chance}
        return self._chances[seed, done]

    def _begin(self, request: SampleRequest, context_T: Ids) -> None:
        if request.temperature != 1 or request.top_p < 1 or request.top_k:
            raise ValueError("this policy is sampled at temperature 1 from all that it may say")
        self._asked.append((request, context_T))

    def _go_on(self) -> list[tuple[int, Sample]]:
        asked, self._asked = self._asked, []
        return [(request.handle, self._say(request, context_T)) for request, context_T in asked]

    def _give_up(self, handle: int) -> None:
        self._asked = [(request, context_T) for request, context_T in self._asked if request.handle != handle]

    def _say(self, request: SampleRequest, context_T: Ids) -> Sample:
        """Draw an action, and tell token by token how likely it was."""
        chances = self.chances(request.seed[2], self._done(context_T))
        texts = list(chances)
        rng = np.random.Generator(np.random.Philox(key=seed_number(request.seed)))
        said = texts[int(np.searchsorted(np.cumsum([chances[text] for text in texts])[:-1], rng.random(), side="right"))]
        room = self._room(request, context_T)
        logprobs, entropies = [], []
        for place, token in enumerate(said[:room]):
            following: dict[int, float] = {}
            for text, chance in chances.items():
                if text[:place] == said[:place]:
                    following[text[place]] = following.get(text[place], 0.0) + chance
            p_K = np.array(list(following.values())) / sum(following.values())
            logprobs.append(np.log(following[token] / sum(following.values())))
            entropies.append(-(p_K * np.log(p_K)).sum())
        numbers = np.array(logprobs, dtype=np.float32), np.array(entropies, dtype=np.float32)
        return Sample(np.array(said[:room], dtype=np.int32), *numbers, stopped=len(said) <= room)

    def _done(self, context_T: Ids) -> tuple[str, ...]:
        """The actions of a conversation, as the sampler reads them."""
        done: list[str] = []
        said: list[int] | None = None
        for token in context_T.tolist():
            if said is not None and token in self._closes:
                done.append(self._agent.parse(np.array(said, dtype=np.int32), stopped=False).action)
                said = None
            elif token == self._opens:
                said = []
            elif said is not None:
                said.append(token)
        return tuple(done)

    def _go_to(self, seed: int, done: tuple[str, ...]) -> None:
        """Bring the world to where the conversation is."""
        if (seed, done) in self._snapshots:
            self._world.restore(self._snapshots[seed, done])
            return
        if done:
            self._go_to(seed, done[:-1])
            self._world.step(done[-1])
        else:
            self._world.reset(seed=seed)
        self._snapshots[seed, done] = self._world.snapshot()
