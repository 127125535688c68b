"""These tests run where vLLM is installed, which is in the environment of `make test-vllm` alone; elsewhere they are not collected."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from trainer.run_folder import RunFolder

ON_VLLM = find_spec("vllm") is not None
collect_ignore_glob = [] if ON_VLLM else ["test_*.py"]

if ON_VLLM:
    # The little models of the other engines' tests.
    sys.path.insert(0, str(Path(__file__).parents[1] / "agents"))


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small policy whose output layer is its embedding."""
    from vllm_world import save_small_policy

    return save_small_policy(tmp_path_factory.mktemp("policies") / "tied")


@pytest.fixture(scope="session")
def made_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds the start policy of the very small runs, which is made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def taught_cache(made_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs find the start policy."""
    monkeypatch.setenv("BRANCHWISE_CACHE", str(made_cache))


@pytest.fixture(scope="session")
def finished(made_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> "RunFolder":
    """The very small run, in one process."""
    from vllm_runs import run

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRANCHWISE_CACHE", str(made_cache))
        return run(tmp_path_factory.mktemp("runs") / "whole")
