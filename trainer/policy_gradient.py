"""The gradient of the *summed* loss of some trees: sums of several parts add up, and the learner divides by what they weigh together."""

from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedModel

from agents.policy_folder import load_policy
from trainer.config import Config, LossConfig
from trainer.learn_report import LearnReport
from trainer.loss import LossRule, batch_coefficients, policy_loss
from trainer.mini_batch import Share
from trainer.prefix_tree import PrefixTreeBatch, micro_batches, pack
from trainer.ratio_groups import RatioGroups, sequence_groups, turn_groups
from trainer.token_columns import Floats, from_columns, to_columns
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import tree_attention


class PolicyGradient:
    """Adds gradients to the parameters of `model`; the policy in `start_policy` is read when the loss first asks for it."""

    def __init__(self, config: Config, model: PreTrainedModel, start_policy: Path) -> None:
        self._config = config
        self._model = model
        self._start_policy = start_policy
        self._rule = loss_rule(config.loss)
        self._reference: PreTrainedModel | None = None

    def add(self, share: Share) -> LearnReport:
        """Add the gradient of the summed loss of a share's trees."""
        report = LearnReport()
        with tree_attention(self._model):
            for part in micro_batches(share.trees, share.weights, self._config.optimizer.micro_batch_tokens):
                report += self._add(share.chosen(part))
        return report

    def logprobs(self, share: Share) -> list[Floats]:
        """One column per tree: log-probabilities (nats) of its tokens that have a loss weight, under the present weights."""
        return self._scored(share, self._model)

    def reference_logprobs(self, share: Share) -> list[Floats]:
        """The same under the start policy."""
        return self._scored(share, self._start())

    def _add(self, share: Share) -> LearnReport:
        """The same for trees that are packed together."""
        settings, rule = self._config.loss, self._rule
        batch = pack(share.trees, share.advantages, share.weights)
        reference_S = self._reference_logprobs(batch) if rule.kl_coefficient else None
        logprobs_S, entropies_S = token_logprobs(
            self._model, batch, temperature=self._config.rollout.temperature, entropy_grad=rule.entropy_coefficient > 0
        )
        loss, stats = policy_loss(
            logprobs_S,
            batch.behaviour_S,
            batch.advantages_S,
            batch_coefficients(batch, settings.aggregation),
            1.0,
            rule,
            groups=ratio_groups(settings, batch, share),
            proximal_T=from_columns(batch, share.proximal) if settings.decoupled else None,
            reference_T=reference_S,
            entropies_T=entropies_S,
        )
        loss.backward()
        return LearnReport(stats, batch.unique_tokens, batch.flat_tokens)

    def _scored(self, share: Share, model: PreTrainedModel) -> list[Floats]:
        columns = [np.full(sum(len(turn.ids_T) for turn in tree.turns), np.nan) for tree in share.trees]
        with torch.no_grad(), tree_attention(model):
            for part in micro_batches(share.trees, share.weights, self._config.optimizer.micro_batch_tokens):
                chosen = share.chosen(part)
                batch = pack(chosen.trees, chosen.advantages, chosen.weights)
                logprobs_S, _ = token_logprobs(model, batch, temperature=self._config.rollout.temperature)
                columns[part.start : part.stop] = to_columns(batch, logprobs_S, chosen.trees)
        return columns

    def _reference_logprobs(self, batch: PrefixTreeBatch) -> torch.Tensor:
        """Log-probabilities under the start policy."""
        reference = self._start()
        with torch.no_grad(), tree_attention(reference):
            return token_logprobs(reference, batch, temperature=self._config.rollout.temperature)[0]

    def _start(self) -> PreTrainedModel:
        if self._reference is None:
            self._reference, _ = load_policy(self._start_policy)
        return self._reference


def loss_rule(settings: LossConfig) -> LossRule:
    """What the settings make of each token; a KL in the reward is no part of it."""
    (clip_low, clip_high), (low, high) = settings.clips, settings.bounds
    return LossRule(
        kind=settings.kind,
        clip_low=clip_low,
        clip_high=clip_high,
        dual_clip=settings.dual_clip,
        correction=settings.correction,
        correction_high=high,
        correction_low=low,
        kl_coefficient=settings.kl_coefficient if settings.kl_in == "loss" else 0.0,
        kl_estimator=settings.estimator,
        entropy_coefficient=settings.entropy_coefficient,
    )


def ratio_groups(settings: LossConfig, batch: PrefixTreeBatch, share: Share) -> RatioGroups | None:
    """Which tokens share a ratio; None where each has its own."""
    if settings.ratio_of == "token":
        return None
    if settings.ratio_of == "turn":
        return turn_groups(batch)
    return sequence_groups(batch, share.trees, share.weights, by_length=settings.aggregation == "sequence")
