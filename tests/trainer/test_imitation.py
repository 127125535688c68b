import numpy as np
import pytest
import torch
import words_world
from token_trees import difference, gradient
from torch.nn import functional
from words_world import WordsEnv

from agents.agent import Agent
from agents.policy_folder import build_policy
from trainer.config import EnvConfig, WarmstartConfig
from trainer.demonstrations import DemonstrationEncoder, demonstrate
from trainer.imitation import Imitation, demonstration_seed

from test_demonstrations import words_tokenizer  # isort: skip

ENV = EnvConfig(id=words_world.ENV, max_turns=3)
TOKENIZER = words_tokenizer()


def settings(**changes: object) -> WarmstartConfig:
    return WarmstartConfig.model_validate({"episodes": 6, "tokens_per_step": 30, "noise": 0.4, "observation_weight": 0.3, **changes})


def model() -> torch.nn.Module:
    sizes = {"layers": 1, "hidden": 16, "heads": 2, "kv_heads": 2, "intermediate": 16, "max_length": 128, "rope_theta": 1e4}
    return build_policy(TOKENIZER, **sizes, seed=0)  # pyright: ignore


def whole_loss(network: torch.nn.Module, chosen: WarmstartConfig) -> torch.Tensor:
    """The summed weighted loss of all episodes, one after the other, by the model's plain forward pass."""
    encoder, total = DemonstrationEncoder(Agent.of(TOKENIZER), chosen.observation_weight), torch.zeros(())
    for episode in range(chosen.episodes):
        rng = np.random.default_rng([chosen.seed, 1, episode])
        turns = demonstrate(WordsEnv(), demonstration_seed(chosen.seed, episode), rng, dict(chosen.habits), chosen.noise)
        [given] = encoder.encode(turns)
        ids_T = torch.from_numpy(given.ids_T).long()
        losses_T = functional.cross_entropy(network(input_ids=ids_T[None]).logits[0, :-1], ids_T[1:], reduction="none")
        total = total + (losses_T * torch.from_numpy(given.weights_T)[1:]).sum()
    return total


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_the_gradients_of_the_shards_add_up_to_that_of_the_whole(shards: int) -> None:
    """A step of each shard that takes in all its episodes."""
    network, chosen = model(), settings(tokens_per_step=100_000)
    loss = whole_loss(network, chosen)
    loss.backward()
    expected = gradient(network)  # pyright: ignore
    sums = [Imitation(ENV, chosen, Agent.of(TOKENIZER), shard, shards).gradient(network, 0) for shard in range(shards)]  # pyright: ignore
    assert difference(gradient(network), expected) < 1e-5  # pyright: ignore
    assert sum(part["loss"] for part in sums) == pytest.approx(loss.item(), rel=1e-5)


def test_a_pass_takes_in_every_episode_once() -> None:
    network, chosen = model(), settings()
    whole_loss(network, chosen).backward()
    expected = gradient(network)  # pyright: ignore
    one = Imitation(ENV, chosen, Agent.of(TOKENIZER), 0, 1)
    steps = one._steps_per_pass
    assert steps > 1
    tokens = sum(one.gradient(network, step)["tokens"] for step in range(steps))  # pyright: ignore
    assert difference(gradient(network), expected) < 1e-5  # pyright: ignore
    assert tokens == sum(one.gradient(network, steps + step)["tokens"] for step in range(steps)), "and so does the next"  # pyright: ignore


def test_a_step_is_a_function_of_its_number() -> None:
    network = model()
    first, second = (Imitation(ENV, settings(), Agent.of(TOKENIZER), 0, 2) for _ in range(2))
    for step in (0, 3, 1, 7):
        left = first.gradient(network, step), gradient(network)  # pyright: ignore
        right = second.gradient(network, step), gradient(network)  # pyright: ignore
        assert left[0] == right[0]
        assert torch.equal(left[1], right[1])
    assert first.gradient(network, 0) != first.gradient(network, 1)  # pyright: ignore


def test_padding_changes_nothing() -> None:
    """Episodes of unequal length in one batch give what each gives alone."""
    network, chosen = model(), settings(tokens_per_step=100_000, episodes=5)
    together = Imitation(ENV, chosen, Agent.of(TOKENIZER), 0, 1).gradient(network, 0)  # pyright: ignore
    lengths = {len(episode.ids_T) for episode in Imitation(ENV, chosen, Agent.of(TOKENIZER), 0, 1)._episodes}
    assert len(lengths) > 1
    apart = [Imitation(ENV, chosen, Agent.of(TOKENIZER), shard, 5).gradient(network, 0) for shard in range(5)]  # pyright: ignore
    for name, value in together.items():
        assert sum(part[name] for part in apart) == pytest.approx(value, rel=1e-5)


def test_a_shard_without_episodes_adds_nothing() -> None:
    network = model()
    idle = Imitation(ENV, settings(episodes=2), Agent.of(TOKENIZER), 2, 3)
    assert idle.gradient(network, 0) == {"loss": 0.0, "weight": 0.0, "tokens": 0.0}  # pyright: ignore
    assert not gradient(network).any()  # pyright: ignore
