"""The gradient of the *summed* loss of some trees: sums of several parts add up, and the learner divides by what they weigh together."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import PreTrainedModel

from agents.policy_folder import load_policy
from trainer.config import Config, LossConfig
from trainer.critic import Critic, Values
from trainer.idle_share import idle_share
from trainer.learn_report import LearnReport
from trainer.loss import LossRule, batch_coefficients, policy_loss
from trainer.mini_batch import Share
from trainer.prefix_tree import PrefixTreeBatch, packs
from trainer.ratio_groups import RatioGroups, sequence_groups, turn_groups
from trainer.recomputed_layers import recomputed_layers
from trainer.token_columns import Floats, empty_column, from_columns, split_column
from trainer.token_logprobs import token_logprobs
from trainer.trained_model import as_at_the_start, dtype_of
from trainer.tree_attention import tree_attention
from trainer.value_loss import value_loss
from tree_rollout.tree import TrajectoryTree

if TYPE_CHECKING:
    from trainer.ranks import Ranks  # It brings torch.distributed, which few processes need.


class PolicyGradient:
    """Adds gradients to the parameters of `model` and of `critic`; the policy in `start_policy` is read when the loss first asks for it.

    Where `ranks` share the model, all compute equally many packs: who has fewer computes idle ones, which count nothing.
    """

    def __init__(
        self, config: Config, model: PreTrainedModel, start_policy: Path, critic: Critic | None = None, ranks: "Ranks | None" = None
    ) -> None:
        self._config = config
        self._model = model
        self._critic = critic
        self._start_policy = start_policy
        self._ranks = ranks
        self._rule = loss_rule(config.loss)
        self._reference: PreTrainedModel | None = None

    def add(self, share: Share) -> LearnReport:
        """Add the gradient of the summed loss of a share's trees."""
        report = LearnReport()
        with (
            recomputed_layers(self._model, self._config.optimizer.gradient_checkpointing),
            tree_attention(self._model),
            self._criticised() as values,
        ):
            for batch, part, counts in self._computed(share):
                added = self._add(batch, part, values, counts)
                report += added if counts else LearnReport()
        return report

    def logprobs(self, share: Share) -> list[Floats]:
        """One column per tree: log-probabilities (nats) of its tokens that have a loss weight, under the present weights."""
        with tree_attention(self._model):
            return self._columns(share, lambda batch: self._logprobs(self._model, batch))

    def reference_logprobs(self, share: Share) -> list[Floats]:
        """The same under the start policy."""
        return self._columns(share, self._reference_logprobs)

    def values(self, share: Share) -> list[Floats]:
        """One column per tree: the critic's values before its tokens that have a loss weight."""
        with tree_attention(self._model), self._criticised() as values:
            assert values is not None, "without a critic there are no values"
            return self._columns(share, values.alone)

    def _add(self, batch: PrefixTreeBatch, share: Share, values: Values | None, counts: bool) -> LearnReport:
        """The same for what is packed together; a gradient of 0 where it does not count."""
        settings, rule = self._config.loss, self._rule
        reference_S = self._reference_logprobs(batch) if rule.kl_coefficient else None
        logprobs_S, entropies_S = self._scored(self._model, batch, entropy_grad=rule.entropy_coefficient > 0)
        coefficients_S = batch_coefficients(batch, settings.aggregation)
        loss, stats = policy_loss(
            logprobs_S,
            batch.behaviour_S,
            from_columns(batch, share.token_advantages) if share.token_advantages else batch.advantages_S,
            coefficients_S,
            1.0,
            rule,
            groups=ratio_groups(settings, batch, share),
            proximal_T=from_columns(batch, share.proximal) if settings.decoupled else None,
            reference_T=reference_S,
            entropies_T=entropies_S,
        )
        report = LearnReport(stats, batch.unique_tokens, batch.flat_tokens, batch.recomputed_tokens)
        if values is not None:
            targets_S, old_S = from_columns(batch, share.targets), from_columns(batch, share.values)
            errors, report.values = value_loss(batch, values.after(batch), targets_S, old_S, coefficients_S, self._config.critic.clip)
            loss = loss + errors
        (loss if counts else 0.0 * loss).backward()
        return report

    def _computed(self, share: Share) -> Iterator[tuple[PrefixTreeBatch, Share, bool]]:
        """Each pack to compute, what it is a pack of, and whether it counts."""
        if self._ranks is None:
            yield from ((batch, share, True) for batch in self._packs(share))
            return
        known = list(self._packs(share))
        idle = self._ranks.most(len(known)) - len(known)
        yield from ((batch, share, True) for batch in known)
        nothing = idle_share()
        yield from ((batch, nothing, False) for _ in range(idle) for batch in self._packs(nothing))

    def _packs(self, share: Share) -> Iterator[PrefixTreeBatch]:
        config = self._config
        laid_out = loss_packs(config.loss, share.trees, share.advantages, share.weights, config.optimizer.micro_batch_tokens)
        return (batch.to(self._model.device) for batch in laid_out)

    def _criticised(self) -> AbstractContextManager[Values | None]:
        return nullcontext() if self._critic is None else self._critic.beside(self._model)

    def _columns(self, share: Share, numbers: Callable[[PrefixTreeBatch], torch.Tensor]) -> list[Floats]:
        """What `numbers` says of the scored tokens of each pack, shape (S,), as one column per tree."""
        whole = empty_column(share.trees)
        with torch.no_grad():
            for batch, _, counts in self._computed(share):
                numbers_S = numbers(batch)
                if counts:
                    whole[batch.tokens_S.cpu().numpy()] = numbers_S.double().cpu().numpy()
        return split_column(whole, share.trees)

    def _logprobs(self, model: PreTrainedModel, batch: PrefixTreeBatch) -> torch.Tensor:
        """Log-probabilities of the scored tokens under the weights of `model`, shape (S,)."""
        return self._scored(model, batch)[0]

    def _scored(self, model: PreTrainedModel, batch: PrefixTreeBatch, *, entropy_grad: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies of the scored tokens, both of shape (S,)."""
        config = self._config
        return token_logprobs(
            model, batch, temperature=config.rollout.temperature, entropy_grad=entropy_grad, attention=config.optimizer.attention
        )

    def _reference_logprobs(self, batch: PrefixTreeBatch) -> torch.Tensor:
        """Log-probabilities under the start policy, which is this model where its adapters can be switched off."""
        if self._config.policy.lora.rank is not None:
            with torch.no_grad(), tree_attention(self._model), as_at_the_start(self._model):
                return self._logprobs(self._model, batch)
        if self._reference is None:
            reference, _ = load_policy(self._start_policy, dtype=dtype_of(self._config.policy))
            if self._ranks is None:
                self._reference = reference.to(self._model.device)  # pyright: ignore[reportArgumentType]
            else:
                self._reference = self._ranks.sharded(reference.requires_grad_(False))
        with torch.no_grad(), tree_attention(self._reference):
            return self._logprobs(self._reference, batch)


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


def loss_packs(
    settings: LossConfig, trees: Sequence[TrajectoryTree], advantages: Sequence[Floats], weights: Sequence[Floats], budget: int
) -> Iterator[PrefixTreeBatch]:
    """The packs of some trees, cut as the loss needs them: see `packs`."""
    whole, by_length = settings.ratio_of == "sequence", settings.aggregation == "sequence"
    return packs(trees, advantages, weights, budget, whole_rollouts=whole, by_length=by_length)


def ratio_groups(settings: LossConfig, batch: PrefixTreeBatch, share: Share) -> RatioGroups | None:
    """Which tokens share a ratio; None where each has its own."""
    if settings.ratio_of == "token":
        return None
    if settings.ratio_of == "turn":
        return turn_groups(batch)
    return sequence_groups(batch, share.trees, share.weights, by_length=settings.aggregation == "sequence")
