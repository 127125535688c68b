from pathlib import Path

import pytest
import torch
from token_trees import tiny_model

from trainer.config import OptimizerConfig
from trainer.errors import ConfigError
from trainer.learner import Learner
from trainer.shared_parameters import SharedParameters


def shrunk(path: Path, family: str = "qwen2", **settings: object) -> set[str]:
    """The names of the parameters that a step without a gradient makes smaller."""
    model = tiny_model(family)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
    shared = SharedParameters.of(model, path / "p", 1)
    shared.publish(model)
    shared.attach(model)
    chosen = OptimizerConfig.model_validate({"warmup_iterations": 0, "lr": 0.5, "weight_decay": 0.5, **settings})
    Learner(model, shared, chosen).step(1, 1.0)
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter, torch.full_like(parameter, 0.75)) or (parameter == 1.0).all(), name
    return {name for name, parameter in model.named_parameters() if (parameter < 1.0).all()}


def test_norms_biases_and_embeddings_keep_their_scale(tmp_path: Path) -> None:
    names = {name for name, _ in tiny_model("qwen2").named_parameters()}
    assert any(name.endswith("bias") for name in names) and any("norm" in name for name in names)
    matrices = {name for name in names if name.endswith("_proj.weight")}
    assert shrunk(tmp_path) == matrices


def test_an_output_layer_of_its_own_is_a_matrix_like_others(tmp_path: Path) -> None:
    assert "lm_head.weight" in shrunk(tmp_path, "llama")


def test_patterns_name_all_that_does_not_decay(tmp_path: Path) -> None:
    names = {name for name, _ in tiny_model("qwen2").named_parameters()}
    spared = {name for name in names if ".mlp." in name or name == "model.norm.weight"}
    assert shrunk(tmp_path, no_decay=["*.mlp.*", "model.norm.weight"]) == names - spared


def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"optimizer\.no_decay '\*\.mpl\.\*' matches no trained parameter; their names are model\.embed"):
        shrunk(tmp_path, no_decay=["*.mlp.*", "*.mpl.*"])
    with pytest.raises(ValueError, match=r"optimizer\.no_decay has no effect without optimizer\.weight_decay"):
        OptimizerConfig.model_validate({"no_decay": ["*norm*"]})
