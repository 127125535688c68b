"""With bfloat16 the optimizer's weights stay float32: what is sampled, learned and saved are their rounded copies."""

from pathlib import Path
from typing import Any

import pytest
import torch
from run_process import command
from token_trees import tiny_model
from transformers import AutoModelForCausalLM
from words_world import command_of, contents, metrics, run, trees, weights

from agents.policy_folder import load_policy, save_policy
from trainer.checkpoint import CheckpointSeries
from trainer.checkpoint_policy import CheckpointPolicy
from trainer.config import OptimizerConfig, PolicyConfig
from trainer.learner import Learner
from trainer.run_folder import RunFolder
from trainer.shared_parameters import SharedParameters
from trainer.trained_model import load_trained, named_trained, trained_parameters

pytestmark = pytest.mark.usefixtures("no_curves")
BFLOAT16 = {"policy.dtype": "bfloat16"}


def in_bfloat16(seed: int = 0) -> Any:
    model = tiny_model("qwen3", seed=seed)
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()
    return model


def backward(model: Any, first: int) -> None:
    model(input_ids=torch.arange(first, first + 5)[None]).logits.square().mean().backward()


@pytest.fixture(scope="module")
def rounded(tmp_path_factory: pytest.TempPathFactory, _start_policies: Path) -> RunFolder:
    """A run of two iterations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRANCHWISE_CACHE", str(_start_policies))
        return run(tmp_path_factory.mktemp("bfloat16") / "run", BFLOAT16)


def test_gradients_add_up_in_float32(tmp_path: Path) -> None:
    model, plain = in_bfloat16(), in_bfloat16()
    shared = SharedParameters.of(model, tmp_path / "p", 2)
    shared.publish(model)
    shared.attach(model, shard=1)
    summed = torch.zeros_like(shared.weights_P)
    for first in (0, 5, 10):
        backward(model, first)
        backward(plain, first)
        summed += torch.cat([parameter.grad.float().flatten() for parameter in plain.parameters()])
        plain.zero_grad()
    assert torch.equal(shared.gradients_SP[1], summed) and not shared.gradients_SP[0].any()
    assert not torch.equal(summed, summed.bfloat16().float()), "a sum that bfloat16 would not hold"


def test_steps_too_small_for_bfloat16_are_not_lost(tmp_path: Path) -> None:
    """AdamW moves each weight by the learning rate, here a hundredth of what tells two bfloat16 near 1 from each other."""
    model = in_bfloat16()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
    shared = SharedParameters.of(model, tmp_path / "p", 1)
    shared.publish(model)
    shared.attach(model)
    learner = Learner(model, shared, OptimizerConfig(lr=2**-8 / 100, warmup_iterations=0))
    for step in range(1, 121):
        shared.gradients_SP.fill_(1.0)
        learner.step(step, 1.0)
        if step == 20:
            assert all((parameter == 1.0).all() for parameter in model.parameters()), "not yet"
    assert all((parameter < 1.0).all() for parameter in model.parameters())
    assert torch.equal(torch.cat([p.detach().flatten() for p in model.parameters()]), shared.weights_P.bfloat16())


def test_a_run_keeps_float32_and_saves_what_served(rounded: RunFolder) -> None:
    checkpoint = CheckpointSeries(rounded.checkpoints).newest()
    assert checkpoint is not None
    weights_P = checkpoint.tensors["weights"]
    assert weights_P.dtype == torch.float32 and not torch.equal(weights_P, weights_P.bfloat16().float())
    model = AutoModelForCausalLM.from_pretrained(rounded.policy(2))
    assert model.dtype == torch.bfloat16
    assert torch.equal(torch.cat([p.detach().flatten() for p in trained_parameters(model)]), weights_P.bfloat16())
    assert CheckpointPolicy.of_run(rounded)._engine.model.dtype == torch.bfloat16


def test_what_is_sampled_is_what_is_learned_from(rounded: RunFolder) -> None:
    """Both compute in bfloat16, which rounds products otherwise for other batches."""
    for record in metrics(rounded):
        assert record["first_behaviour_kl"] < 1e-3 and abs(record["first_max_ratio"] - 1) < 0.1


def test_two_processes_and_a_resume_make_the_same_run(rounded: RunFolder, tmp_path: Path) -> None:
    ended = command(command_of(tmp_path / "run", policy__dtype="bfloat16", run__workers=2, run__iterations=1))
    assert (ended.code, ended.err) == (0, "")
    again = run(tmp_path / "run", BFLOAT16, resume=True)
    assert weights(again) == weights(rounded) and trees(again) == trees(rounded)
    assert contents(again.policy(2)) == contents(rounded.policy(2))


def test_adapters_on_a_rounded_model_stay_float32(finished: RunFolder, tmp_path: Path) -> None:
    save_policy(*load_policy(finished.policy(0)), tmp_path / "base")
    settings = PolicyConfig.model_validate({"path": str(tmp_path / "base"), "dtype": "bfloat16", "lora": {"rank": 2}})
    model, _ = load_trained(settings, tmp_path / "base", 0)
    adapters = named_trained(model)
    assert adapters and all(parameter.dtype == torch.float32 for parameter in adapters.values())
    assert all(parameter.dtype == torch.bfloat16 for name, parameter in model.named_parameters() if name not in adapters)
    shared = SharedParameters.of(model, tmp_path / "p", 1)
    assert shared.rounded_P is None, "no copy is needed"
    shared.publish(model)
    shared.attach(model, shard=0)
    backward(model, 0)
    assert shared.gradients_SP.any()
