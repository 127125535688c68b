"""A critic's values on a packed tree are those of each rollout by itself, and its gradient goes where the settings say."""

from typing import Any

import numpy as np
import pytest
import torch
from token_trees import difference, random_advantages, random_tree, tiny_model

from trainer.config import CriticConfig
from trainer.critic import Critic, make_critic, trained
from trainer.prefix_tree import pack
from trainer.shared_parameters import SharedParameters
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import tree_attention

KINDS: list[Any] = ["head", "model"]


def critic_of(kind: Any, model: Any, **settings: Any) -> Critic:
    """A critic whose layer is no longer zero."""
    critic = Critic(CriticConfig(kind=kind, **settings), model)
    torch.manual_seed(1)
    torch.nn.init.normal_(critic.head.weight)
    return critic


def some_trees(seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng) for _ in range(2)]
    return trees, random_advantages(rng, trees), [tree.path_weights() for tree in trees]


def flat_values(critic: Critic, model: Any, trees: Any) -> list[torch.Tensor]:
    """The value before each sampled token, rollout by rollout, in the order of turns; each computed alone."""
    network, values = critic.network or model.model, []
    for tree in trees:
        for index, turn in enumerate(tree.turns):
            ids_T = torch.from_numpy(tree.ids(index).astype(np.int64))
            values_T = critic.head(network(input_ids=ids_T[None], use_cache=False).last_hidden_state[0]).squeeze(-1)
            before = len(ids_T) - len(turn.ids_T)
            values += [values_T[before + place - 1] for place in np.flatnonzero(turn.mask_T) if before + place]
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradient_are_those_of_each_rollout_by_itself(kind: Any) -> None:
    model = tiny_model("qwen3", torch.float64)
    critic, work = critic_of(kind, model, **({"coefficient": 1.0} if kind == "head" else {})), some_trees()
    whole = trained(model, critic)
    batch = pack(*work, dtype=torch.float64)
    factors_S = torch.randn(len(batch.turn_S), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with tree_attention(model), critic.beside(model) as values:
        token_logprobs(model, batch)
        after_S, alone_S = values.after(batch), values.alone(batch)
        (after_S * factors_S).sum().backward()
    packed = torch.cat([p.grad.flatten() for p in whole.parameters() if p.grad is not None])
    whole.zero_grad(set_to_none=True)
    flat = torch.stack(flat_values(critic, model, work[0]))
    torch.testing.assert_close(after_S, flat, rtol=0, atol=1e-6)
    torch.testing.assert_close(alone_S, after_S)
    (flat * factors_S).sum().backward()
    assert difference(packed, torch.cat([p.grad.flatten() for p in whole.parameters() if p.grad is not None])) < 1e-6


@pytest.mark.parametrize("coefficient", [0.0, 0.25, 1.0])
def test_what_a_head_shares_with_the_policy_learns_by_the_coefficient(coefficient: float) -> None:
    gradients = []
    for weight in (coefficient, 1.0):
        model = tiny_model("qwen2")
        critic, batch = critic_of("head", model, coefficient=weight), pack(*some_trees())
        with tree_attention(model), critic.beside(model) as values:
            token_logprobs(model, batch)
            values.after(batch).square().sum().backward()
        shared = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.model.parameters()]
        gradients.append((torch.cat([p.flatten() for p in shared]), critic.head.weight.grad))
    torch.testing.assert_close(gradients[0][0], coefficient * gradients[1][0])
    torch.testing.assert_close(gradients[0][1], gradients[1][1])


def test_a_model_of_its_own_leaves_the_policy_alone_and_begins_as_its_copy() -> None:
    model = tiny_model("llama")
    critic, batch = critic_of("model", model), pack(*some_trees())
    assert critic.network is not None
    for name, parameter in critic.network.named_parameters():
        assert torch.equal(parameter, model.model.get_parameter(name)) and parameter is not model.model.get_parameter(name)
    with tree_attention(model), critic.beside(model) as values:
        values.alone(batch).square().sum().backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.grad is not None for parameter in critic.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_before_any_learning_every_state_is_worth_nothing(kind: Any) -> None:
    model, batch = tiny_model("qwen2"), pack(*some_trees())
    critic = make_critic(CriticConfig(kind=kind), model)
    assert critic is not None
    with torch.no_grad(), tree_attention(model), critic.beside(model) as values:
        assert not values.alone(batch).any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_stands_first_among_what_learns(kind: Any) -> None:
    model = tiny_model("qwen2")
    critic = make_critic(CriticConfig(kind=kind), model)
    whole = trained(model, critic)
    count = len(list(model.parameters()))
    assert all(one is other for one, other in zip(whole.parameters(), model.parameters(), strict=False))
    own = sum(parameter.numel() for parameter in list(whole.parameters())[count:])
    assert own == SharedParameters.size(whole) - SharedParameters.size(model) > 0
    assert make_critic(CriticConfig(), model) is None and trained(model, None) is model
    assert model.config._attn_implementation != "branchwise_tree"
