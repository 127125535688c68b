"""The gradient of the *summed* loss of some trees: sums of several parts add up, and the learner divides by what they weigh together."""

from pathlib import Path

import torch
from transformers import PreTrainedModel

from agents.policy_folder import load_policy
from trainer.config import Config
from trainer.learn_report import LearnReport
from trainer.loss import batch_coefficients, policy_loss
from trainer.mini_batch import Share
from trainer.prefix_tree import PrefixTreeBatch, packs
from trainer.token_logprobs import token_logprobs
from trainer.trained_model import as_at_the_start
from trainer.tree_attention import tree_attention


class PolicyGradient:
    """Adds gradients to the parameters of `model`; the policy in `start_policy` is read when the loss first asks for it."""

    def __init__(self, config: Config, model: PreTrainedModel, start_policy: Path) -> None:
        self._config = config
        self._model = model
        self._start_policy = start_policy
        self._reference: PreTrainedModel | None = None

    def add(self, share: Share) -> LearnReport:
        """Add the gradient of the summed loss of a share's trees."""
        config, report = self._config, LearnReport()
        with tree_attention(self._model):
            for batch in packs(share.trees, share.advantages, share.weights, config.optimizer.micro_batch_tokens):
                reference_S = self._reference_logprobs(batch) if config.loss.kl_coefficient else None
                logprobs_S, entropies_S = self._logprobs(self._model, batch)
                loss, stats = policy_loss(
                    logprobs_S,
                    batch.behaviour_S,
                    batch.advantages_S,
                    batch_coefficients(batch, config.loss.aggregation),
                    1.0,
                    clip_low=config.loss.clip_low,
                    clip_high=config.loss.clip_high,
                    dual_clip=config.loss.dual_clip,
                    reference_T=reference_S,
                    kl_coefficient=config.loss.kl_coefficient,
                    entropies_T=entropies_S,
                )
                loss.backward()
                report += LearnReport(stats, batch.unique_tokens, batch.flat_tokens, batch.recomputed_tokens)
        return report

    def _reference_logprobs(self, batch: PrefixTreeBatch) -> torch.Tensor:
        """Log-probabilities under the start policy, which is this model where its adapters can be switched off."""
        if self._config.policy.lora.rank is not None:
            with torch.no_grad(), as_at_the_start(self._model):
                return self._logprobs(self._model, batch)[0]
        if self._reference is None:
            self._reference, _ = load_policy(self._start_policy)
        with torch.no_grad(), tree_attention(self._reference):
            return self._logprobs(self._reference, batch)[0]

    def _logprobs(self, model: PreTrainedModel, batch: PrefixTreeBatch) -> tuple[torch.Tensor, torch.Tensor]:
        config = self._config
        return token_logprobs(model, batch, temperature=config.rollout.temperature, attention=config.optimizer.attention)
