"""The key of a start policy; how one is made, interrupted and damaged, `test_run` shows."""

from pathlib import Path
from typing import Any

import pytest
import torch
from words_world import SETTINGS, config_of, copy, run

from agents.policy_folder import load_policy
from trainer.errors import ConfigError
from trainer.run_folder import RunFolder
from trainer.warm_start import WarmStart, cache_folder


def folder_of(path: Path, **changes: Any) -> Path:
    return WarmStart(config_of(path, {name.replace("__", "."): value for name, value in changes.items()})).folder


@pytest.mark.parametrize(
    ("name", "value", "same"),
    [
        ("run__seed", 3, True),
        ("optimizer__lr", 0.5, True),
        ("env__eval_split", "train", True),
        ("run__workers", 2, True),
        ("rollout__tasks", 8, True),
        ("env__train_split", "valid_unseen", False),
        ("env__max_turns", 5, False),
        ("policy__hidden", 32, False),
        ("warmstart__steps", 4, False),
        ("warmstart__tokenizer_episodes", 400, True),
        ("warmstart__tokenizer_episodes", 3, False),
        ("warmstart__habits__lazy", 1.0, False),
        ("run__shards", 3, False),
    ],
)
def test_what_it_depends_on(name: str, value: Any, same: bool, tmp_path: Path) -> None:
    assert (folder_of(tmp_path) == folder_of(tmp_path, **{name: value})) == same


def test_a_named_model_counts_by_its_contents(finished: RunFolder, tmp_path: Path) -> None:
    sizes = {name.replace(".", "__"): None for name in SETTINGS if name.startswith("policy.")}
    first, second = copy(finished, tmp_path / "a").policy(0), copy(finished, tmp_path / "b").policy(0)
    assert folder_of(tmp_path, policy__path=first, **sizes) == folder_of(tmp_path, policy__path=second, **sizes)
    before = folder_of(tmp_path, policy__path=first, **sizes)
    (first / "model.safetensors").write_bytes((finished.policy(2) / "model.safetensors").read_bytes())
    assert folder_of(tmp_path, policy__path=first, **sizes) != before


def test_where_start_policies_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BRANCHWISE_CACHE", "/one")
    assert cache_folder() == Path("/one")
    monkeypatch.delenv("BRANCHWISE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/two")
    assert cache_folder() == Path("/two/branchwise")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == Path.home() / ".cache" / "branchwise"


@pytest.mark.usefixtures("no_curves")
def test_a_batch_with_nothing_to_imitate_leaves_the_weights_finite(tmp_path: Path) -> None:
    """Every action is noise, and observations are not learned: there is no loss at all."""
    changes = {"warmstart.noise": 0.99, "warmstart.observation_weight": 0.0, "warmstart.tokens_per_step": 1, "run.iterations": 0}
    folder = run(tmp_path / "run", changes)
    assert all(torch.isfinite(parameter).all() for parameter in load_policy(folder.policy(0))[0].parameters())


@pytest.mark.usefixtures("no_curves")
def test_fewer_episodes_than_shards(tmp_path: Path) -> None:
    run(tmp_path / "run", {"warmstart.episodes": 1, "run.iterations": 0})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rollout.roots": 1, "rollout.forks": 0, "rollout.branching.rule": "none"}, "leaves a rollout nothing to be compared with"),
        ({"env.kwargs.split": "train"}, "env.kwargs.split would overrule other settings"),
        ({"env.kwargs.max_turns": 9}, "leave it out and set env.max_turns"),
    ],
)
def test_settings_that_cannot_work_together(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        run(tmp_path / "run", changes)
    assert not (tmp_path / "run").exists()
