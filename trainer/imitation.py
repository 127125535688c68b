"""Supervised learning on demonstrations: a shard records its own episodes, and step k's batch is a function of (seed, shard, k)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import PreTrainedModel

import envs
from agents.agent import Agent
from trainer.config import EnvConfig, WarmstartConfig
from trainer.demonstrations import Demonstration, DemonstrationEncoder, batches, demonstrate

_SEED_STRIDE = 1_000_003


def demonstration_seed(seed: int, episode: int) -> int:
    """The environment's seed for an episode of the warm start."""
    return seed * _SEED_STRIDE + episode


class Imitation:
    """One shard's share of the demonstrations, and the gradient of the imitation loss on them.

    With `held_out`, its share of so many further episodes, which no step learns from.
    """

    def __init__(
        self, env: EnvConfig, settings: WarmstartConfig, agent: Agent, shard: int, shards: int, *, held_out: int | None = None
    ) -> None:
        self._settings = settings
        self._shard = shard
        self._tokens = max(1, settings.tokens_per_step // shards)
        encoder = DemonstrationEncoder(agent, settings.observation_weight)
        world = envs.make(env.id, **env.arguments(env.train_split))
        self._episodes: list[Demonstration] = []
        first, last = (0, settings.episodes) if held_out is None else (settings.episodes, settings.episodes + held_out)
        for episode in range(first + shard, last, shards):
            rng = np.random.default_rng([settings.seed, 1, episode])
            turns = demonstrate(world, demonstration_seed(settings.seed, episode), rng, dict(settings.habits), settings.noise)
            self._episodes += encoder.encode(turns)
        world.close()
        self._pass = lru_cache(maxsize=1)(self._batches)
        self._steps_per_pass = len(self._pass(0))

    def gradient(self, model: PreTrainedModel, step: int) -> dict[str, float]:
        """Add the gradient of the *summed* weighted loss of step `step` to the parameters; returns the sums for the coordinator.

        A shard without episodes (there are fewer of them than shards) adds nothing.
        """
        if not self._episodes:
            return {"loss": 0.0, "weight": 0.0, "tokens": 0.0}
        number, position = divmod(step, self._steps_per_pass)
        loss, sums = self._summed(model, self._pass(number)[position % len(self._pass(number))])
        loss.backward()
        return sums

    def loss(self, model: PreTrainedModel) -> dict[str, float]:
        """The same sums over all episodes, without a gradient."""
        total = {"loss": 0.0, "weight": 0.0, "tokens": 0.0}
        with torch.no_grad():
            for batch in self._pass(0):
                _, sums = self._summed(model, batch)
                total = {name: value + sums[name] for name, value in total.items()}
        return total

    def _summed(self, model: PreTrainedModel, numbers: Sequence[int]) -> tuple[torch.Tensor, dict[str, float]]:
        """The summed weighted loss of these episodes, and the sums for the coordinator."""
        batch = [self._episodes[index] for index in numbers]
        ids_BT, weights_BT = (tensor.to(model.device) for tensor in _pad(batch))
        hidden_BTH = model.base_model(input_ids=ids_BT, use_cache=False).last_hidden_state[:, :-1]
        targets_BT, weights_BT = ids_BT[:, 1:], weights_BT[:, 1:]
        chosen_BT = weights_BT > 0
        head: Any = model.get_output_embeddings()
        logits_NV = head(hidden_BTH[chosen_BT])
        losses_N = functional.cross_entropy(logits_NV, targets_BT[chosen_BT], reduction="none")
        loss = (losses_N * weights_BT[chosen_BT]).sum()
        tokens = sum(len(episode.ids_T) for episode in batch)
        return loss, {"loss": loss.item(), "weight": weights_BT.sum().item(), "tokens": float(tokens)}

    def _batches(self, number: int) -> list[list[int]]:
        rng = np.random.default_rng([self._settings.seed, 2, self._shard, number])
        return batches([len(episode.ids_T) for episode in self._episodes], self._tokens, rng)


def _pad(batch: Sequence[Demonstration]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and loss weights, shape (B, T); padding stands at the end, where causal attention never looks."""
    longest = max(len(episode.ids_T) for episode in batch)
    ids_BT = torch.zeros(len(batch), longest, dtype=torch.long)
    weights_BT = torch.zeros(len(batch), longest)
    for row, episode in enumerate(batch):
        ids_BT[row, : len(episode.ids_T)] = torch.from_numpy(episode.ids_T)
        weights_BT[row, : len(episode.weights_T)] = torch.from_numpy(episode.weights_T)
    return ids_BT, weights_BT
