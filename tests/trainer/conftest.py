from pathlib import Path

import pytest
from ray_world import cluster as cluster
from words_world import draw_no_losses, draw_nothing, run

from trainer.run_folder import RunFolder


@pytest.fixture(scope="session")
def _start_policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("start-policies")


@pytest.fixture(autouse=True)
def own_cache(_start_policies: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Start policies of tests are made once for the session, and never in the user's cache."""
    monkeypatch.setenv("BRANCHWISE_CACHE", str(_start_policies))
    return _start_policies


@pytest.fixture
def no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learning curve takes as long as the rest of a tiny run."""
    monkeypatch.setattr("trainer.run.learning_curve", draw_nothing)
    monkeypatch.setattr("trainer.sft.fine_tune.loss_curve", draw_no_losses)


@pytest.fixture(scope="session")
def finished(_start_policies: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A tiny run that went through; not to be changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRANCHWISE_CACHE", str(_start_policies))
        patch.setattr("trainer.run.learning_curve", draw_nothing)
        return run(tmp_path_factory.mktemp("finished") / "run")
