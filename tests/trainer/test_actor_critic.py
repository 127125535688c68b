"""PPO with a critic in whole runs and steps: what warms up, what learns from what, and that a run goes on where it stopped."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from run_process import Mishap, command
from safetensors.torch import load_file
from token_trees import tiny_model
from words_world import assert_same_run, command_of, config_of, metrics, run

from agents.policy_folder import load_policy
from trainer.actor_critic_learner import ActorCriticLearner
from trainer.checkpoint import CheckpointSeries
from trainer.critic import make_critic, trained
from trainer.errors import CheckpointError, ConfigError, DivergedError
from trainer.learner import Learner
from trainer.load_config import load_config
from trainer.shared_parameters import SharedParameters

pytestmark = pytest.mark.usefixtures("no_curves")
GAE = {"credit.method": "gae", "critic.kind": "head"}


@pytest.mark.parametrize("changes", [{}, {"critic.kind": "model", "critic.level": "token"}], ids=str)
def test_a_run_learns_what_states_are_worth_and_goes_on_where_it_stopped(changes: dict[str, Any], tmp_path: Path) -> None:
    settings = {**GAE, "critic.clip": 0.2, **changes}
    whole = run(tmp_path / "whole", settings)
    given = {name.replace(".", "__"): value for name, value in settings.items()}
    killed = command(command_of(tmp_path / "again", **given, run__workers=2), Mishap("trainer.iteration:Trainer._learn", 2, "kill"))
    assert killed.code == -signal.SIGKILL
    assert_same_run(whole, run(tmp_path / "again", settings, resume=True))
    records = metrics(whole)
    assert 0 < abs(records[0]["critic_value"]) < abs(records[1]["critic_value"]), "it begins at 0 and is on its way"
    assert {"critic_loss", "critic_clipped", "critic_target", "critic_explained"} <= records[0].keys()
    checkpoint = CheckpointSeries(whole.checkpoints).newest()
    assert checkpoint is not None and checkpoint.tensors["critic_weights"].any()
    model, _ = load_policy(whole.policy(2))
    assert SharedParameters.size(model) == len(checkpoint.tensors["weights"]), "the policy's folder holds the policy alone"
    assert not any("critic" in name or "head.bias" in name for name in load_file(whole.policy(2) / "model.safetensors"))


def test_while_the_critic_warms_up_the_policy_stands_still(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", {**GAE, "critic.warmup_iterations": 1})
    start, warm, last = ((folder.policy(number) / "model.safetensors").read_bytes() for number in range(3))
    assert start == warm != last
    assert metrics(folder)[1]["critic_value"] != 0.0


def learner_of(path: Path, **changes: Any) -> tuple[ActorCriticLearner, SharedParameters, int]:
    """A learner, all of the vector, and where the critic begins in it."""
    config = config_of(path, {**GAE, "critic.lr": 0.1, "optimizer.lr": 0.01, "optimizer.warmup_iterations": 0, **changes})
    model = tiny_model("qwen2")
    critic = make_critic(config.critic, model)
    assert critic is not None
    whole, own = trained(model, critic), SharedParameters.size(model)
    shared = SharedParameters(path / "parameters", SharedParameters.size(whole), 2)
    shared.publish(whole)
    shared.attach(whole)
    mine, others = shared.part(0, own), shared.part(own, len(shared.weights_P))
    return ActorCriticLearner(Learner(model, mine, config.optimizer), mine, critic, others, config), shared, own


def test_each_has_its_own_rate_and_its_own_norm(tmp_path: Path) -> None:
    """AdamW's first step is the rate times the sign; a huge gradient of one clips nothing of the other."""
    learner, shared, own = learner_of(tmp_path)
    before = shared.weights_P.clone()
    shared.gradients_SP[:, :own] = 1e-4
    shared.gradients_SP[1, own:] = -1e6
    norm = learner.step(1, 0.5, rate=0.5)
    assert norm == pytest.approx(2 * 0.5 * 1e-4 * own**0.5, rel=1e-4)
    moved = shared.weights_P - before
    torch.testing.assert_close(moved[:own], torch.full((own,), -0.005), rtol=1e-2, atol=1e-6)
    torch.testing.assert_close(moved[own:], torch.full((len(moved) - own,), 0.1), rtol=1e-2, atol=1e-6)
    assert not shared.gradients_SP.any() and learner.version == 1


def test_a_restored_learner_goes_on(tmp_path: Path) -> None:
    results = []
    for name in ("whole", "again"):
        (tmp_path / name).mkdir()
        learner, shared, _ = learner_of(tmp_path / name)
        for step in range(3):
            if name == "again" and step == 2:
                saved = learner.tensors()
                (tmp_path / "third").mkdir()
                learner, shared, _ = learner_of(tmp_path / "third")
                learner.restore(saved, 2)
            shared.gradients_SP.copy_(torch.randn(shared.gradients_SP.shape, generator=torch.Generator().manual_seed(step)))
            learner.step(1, 1.0)
        results.append((shared.weights_P.clone(), learner.version))
    assert torch.equal(results[0][0], results[1][0]) and results[0][1] == results[1][1] == 3


def test_what_is_not_finite_or_does_not_fit_is_refused(tmp_path: Path) -> None:
    learner, shared, own = learner_of(tmp_path)
    shared.gradients_SP[0, own] = np.nan
    with pytest.raises(DivergedError, match=r"the critic's gradient of iteration 3 .* lower critic\.lr"):
        learner.step(3, 1.0)
    with pytest.raises(CheckpointError, match="does not fit this critic"):
        learner.restore({"weights": shared.weights_P[:own]}, 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"critic.kind": "head"}, r"critic\.kind head has no effect with credit\.method gigpo.* choose gae"),
        ({"credit.method": "gae"}, r"credit\.method gae needs a critic's values; set critic\.kind to head or model"),
        ({"critic.level": "token"}, r"critic\.level has no effect with critic\.kind none"),
        ({**GAE, "critic.kind": "model", "critic.coefficient": "0.1"}, r"critic\.coefficient is for critic\.kind head"),
        (
            {"credit.method": "mix", "credit.settings.terms": "{gae: 1, rloo: 1}", "critic.kind": "head", "critic.level": "token"},
            r"critic\.level token gives advantages by credit\.method gae alone",
        ),
    ],
)
def test_critics_without_effect_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config("household", None, settings)


def test_a_method_built_on_gae_takes_a_critic() -> None:
    settings = {"credit.method": "mix", "credit.settings.terms": "{gae: 1, rloo: 1}", "critic.kind": "head"}
    assert load_config("household", None, settings).critic.kind == "head"
