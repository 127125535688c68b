"""Settings of the loss that do not go together are refused with what to choose instead; what is left out fits the kind."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from trainer.config import LossConfig
from trainer.loss import LossRule
from trainer.policy_gradient import loss_rule


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ratio": "sequence"}, "loss.kind ppo has no ratio of a sequence; choose loss.kind gspo or cispo, or leave loss.ratio out"),
        ({"kind": "gspo", "ratio": "token"}, "choose loss.kind ppo or cispo"),
        ({"clip_low": 1.0}, "only loss.kind cispo can go without a lower bound"),
        ({"kind": "cispo", "dual_clip": 9.0}, "loss.dual_clip has no effect with loss.kind cispo"),
        ({"kind": "gspo", "dual_clip": 1.0001}, "loss.dual_clip must be above 1 + loss.clip_high = 1.0004"),
        ({"correction": "tis"}, "set loss.decoupled true, or choose mis or double_sided"),
        ({"correction_high": 3.0}, "choose tis, mis or double_sided"),
        ({"correction": "mis", "correction_low": 0.1}, "no effect with loss.correction mis; choose double_sided"),
        ({"correction": "double_sided", "correction_high": 0.5}, "loss.correction_low must be below loss.correction_high"),
        ({"kl_estimator": "k2"}, "no effect with loss.kl_coefficient 0"),
        ({"kl_in": "reward"}, "no effect with loss.kl_coefficient 0"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        LossConfig(**settings)


@pytest.mark.parametrize(
    ("kind", "ratio", "clips"), [("ppo", "token", (0.2, 0.28)), ("gspo", "sequence", (3e-4, 4e-4)), ("cispo", "token", (1.0, 4.0))]
)
def test_what_is_left_out_fits_the_kind(kind: Any, ratio: str, clips: tuple[float, float]) -> None:
    settings = LossConfig(kind=kind)
    assert (settings.ratio_of, settings.clips) == (ratio, clips)
    given = LossConfig(kind=kind, clip_low=0.1, clip_high=0.3)
    assert given.clips == (0.1, 0.3)
    assert loss_rule(settings).kind == kind


def test_bounds_and_estimators_that_are_left_out_fit_their_place() -> None:
    assert LossConfig(correction="mis").bounds == (0.0, 2.0)
    assert LossConfig(correction="double_sided").bounds == (0.7, 6.0)
    assert LossConfig(correction="double_sided", correction_low=0.0, correction_high=3.0).bounds == (0.0, 3.0)
    assert LossConfig(kl_coefficient=0.1).estimator == "k3"
    assert LossConfig(kl_coefficient=0.1, kl_in="reward").estimator == "k1"
    assert LossConfig(kl_coefficient=0.1, kl_in="reward", kl_estimator="k2").estimator == "k2"


def test_a_divergence_in_the_reward_is_no_part_of_the_loss() -> None:
    assert loss_rule(LossConfig(kl_coefficient=0.1)).kl_coefficient == 0.1
    assert loss_rule(LossConfig(kl_coefficient=0.1, kl_in="reward")).kl_coefficient == 0.0
    assert loss_rule(LossConfig()) == LossRule()
