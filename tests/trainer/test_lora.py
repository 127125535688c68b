from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import words_world
from run_process import command
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from words_world import command_of, metrics, run

from agents.policy_folder import build_policy, load_policy, save_policy
from trainer.checkpoint import CheckpointSeries
from trainer.config import PolicyConfig
from trainer.errors import ConfigError
from trainer.policy_seal import save_sealed
from trainer.run_folder import RunFolder
from trainer.shared_parameters import SharedParameters
from trainer.trained_model import as_at_the_start, load_trained, trained_parameters

pytestmark = pytest.mark.usefixtures("no_curves")
SIZES = {name: None for name in words_world.SETTINGS if name.startswith("policy.") and name != "policy.max_length"}
LORA = {**SIZES, "policy.lora.rank": 2, "warmstart.steps": 0, "optimizer.mini_batches": 1, "optimizer.lr": 0.05}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain policy folder."""
    folder = tmp_path_factory.mktemp("lora")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRANCHWISE_CACHE", str(folder / "cache"))
        started = run(folder / "run", {"run.iterations": 0})
    save_policy(*load_policy(started.policy(0)), folder / "base")
    return folder / "base"


@pytest.fixture(scope="module")
def adapted(base: Path) -> RunFolder:
    """A run that trained adapters for two iterations."""
    return run(base.parent / "adapted", {**LORA, "policy.path": base, "loss.kl_coefficient": 0.1})


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.arange(20)[None]).logits


def moved(base: Path, **settings: Any) -> Any:
    """A model whose adapters have an effect."""
    model, _ = load_trained(PolicyConfig.model_validate({"path": str(base), "lora": {"rank": 2, **settings}}), base, 0)
    with torch.no_grad():
        for number, parameter in enumerate(trained_parameters(model)):
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)) * 0.2)
    return model


def test_adapters_begin_without_an_effect_and_alone_are_trained(base: Path) -> None:
    model, _ = load_trained(PolicyConfig.model_validate({"path": str(base), "lora": {"rank": 2}}), base, 0)
    assert torch.equal(logits(model), logits(load_policy(base)[0]))
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained and all(".lora_" in name for name in trained)
    assert SharedParameters.size(model) == sum(parameter.numel() for parameter in trained_parameters(model))


def test_the_blocks_before_the_last_ones_are_left_alone(base: Path, tmp_path: Path) -> None:
    tokenizer = load_policy(base)[1]
    sizes = {"hidden": 16, "heads": 2, "kv_heads": 2, "intermediate": 16, "max_length": 64, "rope_theta": 10_000.0}
    save_policy(build_policy(tokenizer, layers=3, seed=0, **sizes), tokenizer, tmp_path / "three")
    model = moved(tmp_path / "three", last_blocks=2)
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert {int(name.split(".layers.")[1].split(".")[0]) for name in trained} == {1, 2}
    passed: list[bool] = []
    model.model.layers[0].register_forward_hook(lambda _layer, _args, hidden: passed.append(hidden.requires_grad))
    model(torch.arange(20)[None]).logits.sum().backward()
    assert passed == [False], "nothing is propagated back through a block without adapters below it"


def test_what_is_saved_is_a_plain_model_and_an_adapter_that_peft_loads(base: Path, tmp_path: Path) -> None:
    model, (_, tokenizer) = moved(base), load_policy(base)
    assert (logits(model) - logits(load_policy(base)[0])).abs().max() > 0.1
    save_sealed(model, tokenizer, tmp_path / "policy")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "policy")
    torch.testing.assert_close(logits(plain), logits(model), rtol=0, atol=2e-5)
    loaded = peft.PeftModel.from_pretrained(load_policy(base)[0], str(tmp_path / "policy" / "adapter"))
    torch.testing.assert_close(logits(loaded), logits(model), rtol=0, atol=0)


def test_without_its_adapters_the_model_is_the_start_policy(base: Path) -> None:
    model = moved(base)
    before = logits(model)
    with as_at_the_start(model):
        assert torch.equal(logits(model), logits(load_policy(base)[0]))
    assert torch.equal(logits(model), before)
    assert len(trained_parameters(model)) == sum(".lora_" in name for name, _ in model.named_parameters())


def test_the_engine_samples_from_the_policy_that_is_trained(adapted: RunFolder) -> None:
    last = metrics(adapted)[-1]
    assert last["loss_reference_kl"] > 1e-5, "the adapters have an effect by now"
    assert abs(last["loss_max_ratio"] - 1) < 1e-4 and last["loss_behaviour_kl"] < 1e-6


def test_a_run_holds_and_keeps_the_adapters_alone(adapted: RunFolder, base: Path) -> None:
    checkpoint = CheckpointSeries(adapted.checkpoints).newest()
    assert checkpoint is not None
    model, _ = load_trained(adapted.read_config().policy, base, 0)
    assert checkpoint.tensors["weights"].numel() == SharedParameters.size(model)
    assert (adapted.policy(0) / "model.safetensors").read_bytes() == (base / "model.safetensors").read_bytes()
    first, last = (load_file(adapted.policy(number) / "adapter" / "adapter_model.safetensors") for number in (0, 2))
    assert any(not torch.equal(first[name], last[name]) for name in first)


def test_a_resumed_run_is_the_same_and_so_is_one_with_two_processes(adapted: RunFolder, base: Path, tmp_path: Path) -> None:
    changes = {**LORA, "policy.path": base, "loss.kl_coefficient": 0.1}
    ended = command(
        command_of(
            tmp_path / "run", **{name.replace(".", "__"): value for name, value in changes.items()}, run__workers=2, run__iterations=1
        )
    )
    assert (ended.code, ended.err) == (0, "")
    again = run(tmp_path / "run", changes, resume=True)
    for name in ("model.safetensors", "adapter/adapter_model.safetensors", "adapter/adapter_config.json"):
        assert (again.policy(2) / name).read_bytes() == (adapted.policy(2) / name).read_bytes()


def test_a_warm_start_of_adapters_ends_as_a_plain_start_policy(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHWISE_CACHE", str(tmp_path / "cache"))
    changes = {**LORA, "policy.path": base, "warmstart.steps": 3, "warmstart.lr_muon": "null", "warmstart.lr_adamw": 0.05}
    started = run(tmp_path / "run", {**changes, "run.iterations": 0})
    taught, before = load_policy(started.policy(0))[0], load_policy(base)[0]
    changed = {name for name, tensor in taught.state_dict().items() if not torch.equal(tensor, before.state_dict()[name])}
    assert changed and all("_proj" in name for name in changed), "adapters stand beside linear layers alone"


@pytest.mark.parametrize(("settings", "other"), [({"rank": 1}, {}), ({"alpha": 1.0}, {}), ({"targets": ["q_proj"]}, {})])
def test_each_setting_has_its_effect(base: Path, settings: dict[str, Any], other: dict[str, Any]) -> None:
    changed, usual = moved(base, **settings), moved(base, **other)
    assert not torch.equal(logits(changed), logits(usual))


def test_what_does_not_fit_is_one_sentence(base: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy.lora.targets \['q_prj'\] do not fit the model; its linear layers are .*q_proj"):
        load_trained(PolicyConfig.model_validate({"path": str(base), "lora": {"rank": 2, "targets": ["q_prj"]}}), base, 0)
    with pytest.raises(ValueError, match=r"name one in policy.path"):
        PolicyConfig.model_validate({"lora": {"rank": 2}})
    blocks = load_policy(base)[0].config.num_hidden_layers
    with pytest.raises(ConfigError, match=rf"policy.lora.last_blocks is {blocks + 1}, but the model has {blocks} blocks"):
        load_trained(PolicyConfig.model_validate({"path": str(base), "lora": {"rank": 2, "last_blocks": blocks + 1}}), base, 0)
    for alone in ({"alpha": 2.0}, {"targets": ["q_proj"]}, {"last_blocks": 1}):
        with pytest.raises(ValueError, match=r"policy.lora.alpha, targets and last_blocks have no effect without policy.lora.rank"):
            PolicyConfig.model_validate({"path": str(base), "lora": alone})
