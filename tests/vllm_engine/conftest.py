"""These tests run where vLLM is installed, which is in the environment of `make test-vllm` alone; elsewhere they are not collected."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

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
