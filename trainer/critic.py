"""The value of a token is read where the policy stands before it: at the token that predicts it, computed once for all rollouts below.

With `head` that is a linear layer on the policy's last hidden states; with `model`, on those of a network of the critic's own, which
begins as a copy of the policy's. The layer begins at zero, so that without any learning every state is worth 0.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from trainer.config import CriticConfig
from trainer.prefix_tree import PrefixTreeBatch
from trainer.tree_attention import tree_attention


class Critic(nn.Module):
    """Holds the critic's own parameters alone; `policy` is looked at and belongs to others."""

    def __init__(self, settings: CriticConfig, policy: PreTrainedModel) -> None:
        super().__init__()
        config: Any = policy.config
        parameter = next(policy.parameters())
        exact = torch.promote_types(parameter.dtype, torch.float32)
        self._coefficient = settings.shared_weight
        self.network: PreTrainedModel | None = copy.deepcopy(_network(policy)) if settings.kind == "model" else None
        self.head = nn.Linear(config.get_text_config().hidden_size, 1, device=parameter.device, dtype=exact)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @contextmanager
    def beside(self, policy: PreTrainedModel) -> Iterator["Values"]:
        """Read values where `policy` computes a pack inside; hold it until the backward pass is done."""
        values = Values(self, policy)
        if self.network is not None:
            with tree_attention(self.network):
                yield values
            return
        hook = _network(policy).register_forward_hook(values.see)
        try:
            yield values
        finally:
            hook.remove()

    def of(self, hidden_1TH: torch.Tensor, batch: PrefixTreeBatch) -> torch.Tensor:
        """The values before the scored tokens, shape (S,), float32 or wider, from the last hidden states of the pack's tokens."""
        if self.network is None:
            # The head learns from the whole value loss, what lies below it from its share.
            fixed = hidden_1TH.detach()
            hidden_1TH = fixed + self._coefficient * (hidden_1TH - fixed) if self._coefficient else fixed
        values_T = self.head(hidden_1TH[0].to(self.head.weight.dtype)).squeeze(-1)
        return values_T.index_select(0, batch.predictors_S)


class Values:
    """The values of a pack that the policy has just computed, or computes for their sake."""

    def __init__(self, critic: Critic, policy: PreTrainedModel) -> None:
        self._critic = critic
        self._policy = policy
        self._hidden_1TH: torch.Tensor | None = None

    def see(self, network: nn.Module, arguments: Any, output: Any) -> None:
        """Keep the hidden states of a forward pass; a hook."""
        self._hidden_1TH = output.last_hidden_state

    def after(self, batch: PrefixTreeBatch) -> torch.Tensor:
        """The values before the scored tokens of the pack that the policy computed last, shape (S,)."""
        if self._critic.network is not None:
            return self.alone(batch)
        hidden_1TH, self._hidden_1TH = self._hidden_1TH, None
        assert hidden_1TH is not None, "the policy computes the pack first"
        return self._critic.of(hidden_1TH, batch)

    def alone(self, batch: PrefixTreeBatch) -> torch.Tensor:
        """The same without the policy's having computed it; call it inside `tree_attention(policy)`."""
        network = self._critic.network or _network(self._policy)
        output = network(
            input_ids=batch.ids_T[None],
            position_ids=batch.positions_T[None],
            attention_mask=torch.empty(1, 1, 0, 0, device=batch.ids_T.device),
            use_cache=False,
            tree_plan=batch.plan,
        )
        self._hidden_1TH = None
        return self._critic.of(output.last_hidden_state, batch)


class ActorCritic(nn.Module):
    """The parameters of both, the policy's first: so a vector of them begins with what a policy without a critic has."""

    def __init__(self, policy: PreTrainedModel, critic: Critic) -> None:
        super().__init__()
        self.policy = policy
        self.critic = critic


def make_critic(settings: CriticConfig, policy: PreTrainedModel) -> Critic | None:
    """The critic of the configuration; None where there is none."""
    return None if settings.kind == "none" else Critic(settings, policy)


def trained(policy: PreTrainedModel, critic: Critic | None) -> nn.Module:
    """All that learns."""
    return policy if critic is None else ActorCritic(policy, critic)


def _network(policy: PreTrainedModel) -> PreTrainedModel:
    """What gives the last hidden states, without the layer that gives logits."""
    model: Any = policy
    return model.get_decoder()
