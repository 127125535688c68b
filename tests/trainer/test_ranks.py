"""Two ranks over gloo learn what one process learns."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rank_cases import CASES, alone, shares, together
from words_world import config_of

from trainer.dealt_shares import DealtShares
from trainer.run_folder import RunFolder

pytestmark = pytest.mark.slow
Both = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture(scope="module")
def computed(finished: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """What one process and what two ranks make of each case."""
    scratch, policy = tmp_path_factory.mktemp("ranks"), finished.policy(0)
    one = {name: alone(name, policy, scratch) for name in CASES}
    return one, together(policy, scratch, {name: kept["after 0"] for name, kept in one.items()})


def tolerance(name: str) -> float:
    """Two ranks pack trees otherwise, which bfloat16 rounds otherwise; AdamW then moves a weight by the learning rate, 0.01, at most."""
    return 3e-2 if CASES[name][1].get("policy.dtype") == "bfloat16" else 1e-5


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_learn_what_one_process_learns(name: str, computed: Both) -> None:
    one, two = (of[name] for of in computed)
    exact = tolerance(name)
    np.testing.assert_allclose(two["coefficients"], one["coefficients"], rtol=1e-5)
    np.testing.assert_allclose(two["norms"], one["norms"], rtol=exact)
    for step in range(3):
        first, second = one[f"after {step}"], two[f"after {step}"]
        assert first.keys() == second.keys()
        for key, tensor in first.items():
            assert tensor.shape == second[key].shape and tensor.dtype == second[key].dtype
            torch.testing.assert_close(second[key], tensor, rtol=exact, atol=exact, msg=lambda text, key=key: f"{key}: {text}")
    for mine, theirs in zip(two["logprobs"], one["logprobs"], strict=True):
        for column, expected in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(column, expected, rtol=10 * exact, atol=10 * exact)


@pytest.mark.parametrize("name", CASES)
def test_each_goes_on_from_the_others_checkpoint(name: str, computed: Both, finished: RunFolder, tmp_path: Path) -> None:
    one, two = (of[name] for of in computed)
    back = alone(name, finished.policy(0), tmp_path, two["after 0"], 1)
    for weights in (two["resumed"]["after 2"]["weights"], back["after 2"]["weights"]):
        torch.testing.assert_close(weights, one["after 2"]["weights"], rtol=tolerance(name), atol=tolerance(name))


def test_a_rank_holds_about_half(computed: Both) -> None:
    for name, kept in computed[1].items():
        total = len(kept["after 0"]["weights"])
        assert 0.45 * total < kept["parts"] < 0.55 * total, name


def test_trees_are_dealt_by_their_tokens_and_results_find_back() -> None:
    given = shares(1)
    dealt = DealtShares(given, 2)
    loads = [sum(len(turn.ids_T) for tree in part.trees for turn in tree.turns) for part in dealt.parts]
    assert max(loads) < 1.35 * min(loads)
    assert [len(part.advantages) for part in dealt.parts] == [len(part.trees) for part in dealt.parts]
    back = dealt.collected([[id(tree) for tree in part.trees] for part in dealt.parts])
    assert back == [[id(tree) for tree in share.trees] for share in given]
    assert [len(part.trees) for part in DealtShares(shares(0), 2).parts] == [1, 0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, r"optimizer\.sharding fsdp needs run\.backend ray, but that is local"),
        ({"run.backend": "ray", "critic.kind": "head", "credit.method": "gae"}, r"is for a policy alone, but critic\.kind is head"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=words):
        config_of(tmp_path, {"optimizer.sharding": "fsdp", **changes})
