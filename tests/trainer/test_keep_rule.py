from typing import Any

import pytest

from trainer.config import SftConfig
from trainer.sft.keep_rule import Candidate, choose


def candidate(leaf: int, task: str, score: float, tokens: int, success: bool = False) -> Candidate:
    return Candidate(0, leaf, task, score, success, tokens)


CANDIDATES = [
    candidate(0, "a", 0.0, 5),
    candidate(1, "b", 1.0, 9, True),
    candidate(2, "a", 1.0, 9, True),
    candidate(3, "a", 1.0, 7),
    candidate(4, "b", 1.0, 9),
    candidate(5, "c", -1.0, 1),
    candidate(6, "a", 1.0, 7, True),
]


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        ("successful", [1, 2, 6]),
        ("best_of_task", [1, 3, 5]),  # of equal scores the shorter, of equal lengths the earlier
        ("top:1", [3]),
        ("top:3", [1, 3, 6]),
        ("top:4", [1, 2, 3, 6]),
        ("top:100", [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_what_a_rule_keeps(keep: str, kept: list[int]) -> None:
    assert [chosen.leaf for chosen in choose(CANDIDATES, keep)] == kept


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"trace": "x", "keep": "top:0"}, "top:K with a number from 1 on, but is 'top:0'"),
        ({"trace": "x", "keep": "best"}, "must be successful, best_of_task or top:K"),
        ({"keep": "top:3"}, "sft.keep has no effect without recorded rollouts"),
        ({"epochs": 3}, "sft.epochs has no effect without recorded rollouts"),
        ({"trace": "x", "epochs": 3, "steps": 9}, "sft.steps 9 overrules sft.epochs 3"),
    ],
)
def test_settings_that_cannot_be(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SftConfig.model_validate(values)
