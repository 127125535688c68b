"""A policy comes back bit for bit; a folder that is not whole is one clear sentence."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from text_world import household_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3ForCausalLM

from agents import policy_folder
from agents.errors import PolicyError
from agents.policy_folder import build_policy, load_policy, save_policy

SIZES = {"layers": 2, "hidden": 32, "heads": 4, "kv_heads": 2, "intermediate": 48, "max_length": 64, "rope_theta": 10_000.0}
TOKENIZER = household_tokenizer()


def _build(**changes: object) -> Qwen3ForCausalLM:
    return build_policy(TOKENIZER, **{**SIZES, "seed": 0, **changes})


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "start"
    save_policy(_build(), TOKENIZER, folder)
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "policy"))


def _same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    return all(torch.equal(a, other.state_dict()[name]) for name, a in one.state_dict().items())


def test_one_seed_is_one_policy_and_leaves_torch_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    policy = _build()
    assert torch.equal(torch.rand(1), expected)
    assert _same_weights(policy, _build())
    assert not _same_weights(policy, _build(seed=1))


def test_the_configuration_is_what_was_asked_for() -> None:
    config = _build(rope_theta=5000.0).config
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads) == (32, 2, 4, 2)
    assert (config.intermediate_size, config.max_position_embeddings, config.head_dim) == (48, 64, 8)
    assert config.rope_parameters["rope_theta"] == 5000.0
    assert config.vocab_size == len(TOKENIZER) and config.eos_token_id == TOKENIZER.eos_token_id
    assert config.pad_token_id == TOKENIZER.pad_token_id and config.bos_token_id is None
    policy = _build()
    assert policy.lm_head.weight is policy.model.embed_tokens.weight


def test_entities_start_as_type_plus_number() -> None:
    weight = _build(hidden=64).model.embed_tokens.weight.detach()

    def of(text: str) -> torch.Tensor:
        (index,) = TOKENIZER.encode(text)
        return weight[index]

    for number in ("2", "11"):
        shared = 2**0.5 * of(f"drawer {number}") - of("drawer")
        torch.testing.assert_close(2**0.5 * of(f"side table {number}") - of("side table"), shared)
        assert shared.std().item() == pytest.approx(0.02, rel=0.4)
    assert of("drawer 2").norm().item() == pytest.approx(of("drawer").norm().item(), rel=0.4)


def test_a_policy_comes_back_bit_for_bit(saved: Path) -> None:
    model, tokenizer = load_policy(saved)
    assert _same_weights(_build(), model) and not model.training
    assert tokenizer.get_vocab() == TOKENIZER.get_vocab() and tokenizer.chat_template == TOKENIZER.chat_template
    assert tokenizer.encode("go to drawer 2. x") == TOKENIZER.encode("go to drawer 2. x")
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_the_folder_is_an_ordinary_one(saved: Path) -> None:
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= {path.name for path in saved.iterdir()}
    assert _same_weights(AutoModelForCausalLM.from_pretrained(saved), _build())
    assert AutoTokenizer.from_pretrained(saved).encode("mug 1") == TOKENIZER.encode("mug 1")
    assert [path.name for path in saved.parent.iterdir()] == [saved.name], "nothing temporary is left"


def test_an_older_policy_is_replaced(copy: Path) -> None:
    save_policy(_build(seed=3), TOKENIZER, copy)
    assert _same_weights(load_policy(copy)[0], _build(seed=3))
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_an_interrupted_save_leaves_the_older_policy(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(policy_folder, "_flush", full_disk)
    with pytest.raises(PolicyError, match=r"could not be written.*No space left"):
        save_policy(_build(seed=3), TOKENIZER, copy)
    assert _same_weights(load_policy(copy)[0], _build())
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_a_rename_that_fails_puts_the_older_policy_back(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if target == copy and not self.name.endswith(".previous"):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(PolicyError, match="Input/output error"):
        save_policy(_build(seed=3), TOKENIZER, copy)
    assert _same_weights(load_policy(copy)[0], _build())


def test_a_save_killed_between_its_renames_is_explained(copy: Path) -> None:
    copy.rename(copy.with_name(f".{copy.name}.previous"))
    with pytest.raises(PolicyError, match=r"interrupted save left the older one at .*\.policy\.previous"):
        load_policy(copy)


def test_other_folders_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(PolicyError, match="is not a policy folder"):
        save_policy(_build(), TOKENIZER, tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def _truncate(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(1000)


def _rewrite_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def _drop_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors.pop("model.norm.weight")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _pickle_only(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "no policy folder .*check the path"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "a model without a tokenizer"),
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json cannot be read"),
        (lambda folder: _rewrite_config(folder, model_type="nonsense"), "does not describe a model"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "the tokenizer in .* cannot be read"),
        (_truncate, "damaged"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 100), "damaged"),
        (_drop_tensor, "1 tensors differ, such as model.norm.weight"),
        (lambda folder: _rewrite_config(folder, intermediate_size=24), "do not fit"),
        (_pickle_only, "no model.safetensors; other weight formats are not read"),
    ],
)
def test_damaged_folders(copy: Path, damage, message: str) -> None:
    damage(copy)
    with pytest.raises(PolicyError, match=message) as caught:
        load_policy(copy)
    assert "\n" not in str(caught.value)


def test_a_tokenizer_of_another_policy(copy: Path) -> None:
    larger = household_tokenizer()
    larger.add_tokens([f"extra{index}" for index in range(5)])
    larger.save_pretrained(copy)
    with pytest.raises(PolicyError, match="different policies"):
        load_policy(copy)


@pytest.mark.parametrize("changes", [{"heads": 5}, {"kv_heads": 3}, {"hidden": 36, "heads": 4, "kv_heads": 4}])
def test_sizes_that_do_not_fit(changes: dict) -> None:
    with pytest.raises(PolicyError, match="do not fit"):
        _build(**changes)
