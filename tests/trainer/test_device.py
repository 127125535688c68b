"""A run on a device of its own, played by tensors that refuse to meet others: whatever was left behind on the CPU fails here."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from far_device import FAR, FarDevice
from words_world import metrics, run, weights

from trainer.run_folder import RunFolder
from tree_rollout.trace import Trace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("no_curves"),
    pytest.mark.filterwarnings("ignore:at..frobenius_norm is deprecated"),
]
EVERYTHING = {
    "credit.method": "gae",
    "credit.settings": "{lam: 0.9}",
    "critic.kind": "head",
    "loss.kl_coefficient": 0.1,
    "loss.entropy_coefficient": 0.01,
    "loss.decoupled": "true",
}


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> FarDevice:
    """The far device is where `policy.device` says "cuda"."""

    def device_of(name: str, setting: str, place: int = 0) -> torch.device:
        return FAR if setting == "cuda" else torch.device("cpu")

    for module in ("device", "actor_critic_learner", "warm_start", "opened_backend"):
        monkeypatch.setattr(f"trainer.{module}.device_of", device_of)
    monkeypatch.setattr(torch.__future__, "get_swap_module_params_on_conversion", lambda: True)
    return FarDevice()


def sampled(folder: RunFolder, iteration: int = 1) -> list[tuple[bytes, np.ndarray]]:
    with Trace.open(folder.trace, readonly=True) as trace:
        return [(turn.ids_T.tobytes(), turn.logprobs_T) for tree in trace.trees(iteration) for turn in trace.tree(tree.id).turns]


@pytest.mark.parametrize("settings", [{}, EVERYTHING, {"policy.dtype": "bfloat16"}], ids=["plain", "everything", "bfloat16"])
def test_another_device_computes_the_same(settings: dict[str, Any], far: FarDevice, tmp_path: Path) -> None:
    near = run(tmp_path / "near", {**settings, "run.iterations": 1})
    with far:
        folder = run(tmp_path / "far", {**settings, "run.iterations": 1, "policy.device": "cuda"})
    assert far.met > 1000
    for (ids, logprobs_T), (far_ids, far_logprobs_T) in zip(sampled(near), sampled(folder), strict=True):
        assert ids == far_ids
        np.testing.assert_allclose(far_logprobs_T, logprobs_T, atol=1e-4)
    before, after = (np.frombuffer(weights(folder), np.float32) for folder in (near, folder))
    assert np.abs(before - after).mean() < 1e-5, "AdamW moves what has next to no gradient by its rounding"
    assert metrics(folder)[0]["gradient_norm"] == pytest.approx(metrics(near)[0]["gradient_norm"], rel=1e-3)


def test_a_run_goes_on_on_another_device(far: FarDevice, finished: RunFolder, tmp_path: Path) -> None:
    run(tmp_path / "run", {"run.iterations": 1})
    with far:
        folder = run(tmp_path / "run", {"policy.device": "cuda"}, resume=True)
    assert [ids for ids, _ in sampled(folder, 2)] == [ids for ids, _ in sampled(finished, 2)]
