"""The example is part of the documentation: it runs, it is short, and it keeps what it says about seeds."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from agents import save_policy
from tree_rollout.sampler_settings import SamplerSettings

PATH = Path(__file__).parents[1] / "examples" / "loop.py"
SMALL = ["--episodes", "12", "--steps", "2", "--iterations", "1", "--tasks", "2", "--held-out", "3"]


@pytest.fixture(scope="module")
def loop() -> ModuleType:
    spec = importlib.util.spec_from_file_location("loop", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["loop"] = module
    spec.loader.exec_module(module)
    module.MAX_TURNS = 4
    return module


def test_it_can_be_read_in_one_sitting() -> None:
    assert len(PATH.read_text().splitlines()) < 300


def weights(policy: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in policy.model.parameters()])


def test_it_runs_and_its_seed_decides_everything(loop: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    outputs, ends = [], []
    for seed in ("0", "0", "1"):
        policy, before, after = loop.train(loop.parse([*SMALL, "--seed", seed]))
        assert before.trials == after.trials == 3
        outputs.append(capsys.readouterr().out)
        ends.append(weights(policy))
    for line in ("warm start 2/2: loss ", "before reinforcement learning: ", "iteration 1: ", "after reinforcement learning: "):
        assert f"\n{line}" in f"\n{outputs[0]}"
    assert outputs[0] == outputs[1]
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


def test_it_can_start_from_a_policy_folder(loop: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = loop.build(loop.record_demonstrations(12, seed=0), seed=0)
    save_policy(start.model, start.tokenizer, tmp_path / "policy")
    policy, _, _ = loop.train(loop.parse([*SMALL, "--iterations", "0", "--policy", str(tmp_path / "policy")]))
    assert torch.equal(weights(policy), weights(start))
    assert "warm start" not in capsys.readouterr().out


def test_it_learns_from_forked_trees(loop: ModuleType) -> None:
    policy = loop.build(loop.record_demonstrations(12, seed=0), seed=0)
    settings = SamplerSettings(2, 2, "topk_entropy", max_turns=4, max_new_tokens=4)
    trees = loop.grow_trees(policy, [loop.household(seed, "train") for seed in range(2)], settings, seed=0, iteration=1)
    assert all(len(tree.leaves()) == 4 for tree in trees)
    # A reward that only some rollouts have, so that there is something to learn.
    for tree in trees:
        tree.turns[tree.leaves()[0]].reward = 1.0
        assert loop.advantages(tree)[tree.leaves()[0]] > 0
    start = weights(policy)
    sharing = loop.learn(policy, torch.optim.AdamW(policy.model.parameters(), lr=1e-3), trees, np.random.default_rng(0))
    assert sharing > 1
    assert not torch.equal(start, weights(policy))
