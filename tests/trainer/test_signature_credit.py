"""The estimator takes its states from the configured signature, and from nothing else."""

from pathlib import Path

import numpy as np
import pytest

import credit
from trainer.config import CreditConfig, RewardConfig
from trainer.errors import ConfigError
from trainer.load_config import load_config
from trainer.tree_credit import assign
from tree_rollout.errors import SignatureError, SignatureFunctionError, UnknownSignatureError
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn

PLAIN = RewardConfig(invalid_penalty=0.0)
CENTRED = {"gamma": 1.0, "n_p": 0.0}


def add(tree: TrajectoryTree, parent: int, observation: str, action: str, state: str, next_state: str, **last: object) -> int:
    nothing = np.zeros(0)
    values = {"reward": 0.0, "terminated": False, "truncated": False, "valid": True, **last}
    return tree.add(
        Turn(
            parent, observation, action, nothing.astype(np.int32), nothing.astype(bool), nothing.astype(np.float32),
            nothing.astype(np.float32), 0, state=state, next_state=next_state, **values,
        )  # pyright: ignore
    )  # fmt: skip


def two_ways() -> TrajectoryTree:
    """Two ways into a room, which the environment tells apart and the text does not; from there one rollout wins and one loses."""
    tree = TrajectoryTree("tests", 0)
    for action, state, reward in (("left", "A", 1.0), ("right", "B", 0.0)):
        first = add(tree, -1, "Hall.", action, "S", state)
        add(tree, first, "Room.", "take" if reward else "wait", state, f"{state}!", reward=reward, stop_reason=StopReason.TERMINATED)
    return tree


def advantages(tree: TrajectoryTree, signature: str, **settings: object) -> list[float]:
    chosen = CreditConfig(method="rtmc", settings=CENTRED, signature=signature, signature_settings=settings)  # pyright: ignore
    return assign([tree], chosen, PLAIN).trees[0].advantages_N.tolist()


def test_merged_states_are_those_of_the_signature() -> None:
    """By state each room was seen once, so that its value is its only outcome; by observation there is one room, worth a half."""
    assert advantages(two_ways(), "env") == [0.5, 0.0, -0.5, 0.0]
    assert advantages(two_ways(), "observation") == [0.5, 0.5, -0.5, -0.5]
    assert advantages(two_ways(), "window", of="observation") == [0.5, 0.5, -0.5, -0.5]
    assert advantages(two_ways(), "actions") == [0.5, 0.0, -0.5, 0.0]


def test_next_states_are_those_of_the_signature() -> None:
    """SALT averages equal transitions: (S, go, room) is one only where what comes after is recognised as one."""
    tree = TrajectoryTree("tests", 0)
    for state, reward in (("A", 1.0), ("B", 0.0)):
        first = add(tree, -1, "Hall.", "go", "S", state)
        add(tree, first, "Room.", "take" if reward else "wait", state, "!", reward=reward, stop_reason=StopReason.TERMINATED)
    given = {
        name: assign([tree], CreditConfig(method="salt", settings={"base": "rloo"}, signature=name), PLAIN).trees[0].advantages_N.tolist()
        for name in ("env", "observation")
    }
    assert given == {"env": [1.0, 1.0, -1.0, -1.0], "observation": [0.0, 1.0, 0.0, -1.0]}


def test_the_default_is_what_the_environment_recorded() -> None:
    tree = two_ways()
    rollouts = [
        [credit.Turn(turn.state, turn.action, turn.next_state, turn.reward, node=index) for index, turn in enumerate(tree.turns)][
            slice(*cut)
        ]
        for cut in ((0, 2), (2, 4))
    ]
    expected = np.concatenate(credit.estimate(rollouts, "rtmc", **CENTRED))
    np.testing.assert_array_equal(
        assign([tree], CreditConfig(method="rtmc", settings=dict(CENTRED)), PLAIN).trees[0].advantages_N, expected
    )
    assert load_config("household").credit.signature == "env"


def test_failed_rollouts_are_gone_before_states_are_recognised() -> None:
    """A failure's observation must not found a cluster: with it, "Roon." and "Roof." would be told apart."""
    tree = TrajectoryTree("tests", 0)
    for observation, reward in (("Roof.", 1.0), ("Roon.", 0.0)):
        add(tree, -1, observation, "go" if reward else "wait", observation, "", reward=reward, stop_reason=StopReason.TERMINATED)
    plain = advantages(tree, "similar", threshold=0.8)
    assert plain == [0.5, -0.5]
    add(tree, -1, "Room!", "go", "x", "", reward=0.0, stop_reason=StopReason.ENV_ERROR)
    assert advantages(tree, "similar", threshold=0.8) == [*plain, 0.0]


def test_a_bad_name_is_refused_when_the_configuration_is_read(tmp_path: Path) -> None:
    for overrides, error, words in (
        ({"credit.signature": "obsrvation"}, UnknownSignatureError, "did you mean observation"),
        ({"credit.signature": "nowhere:sign"}, SignatureError, "No module named 'nowhere'"),
        ({"credit.signature": "window", "credit.signature_settings.history": "0"}, SignatureError, "history is 0"),
        ({"credit.signature_settings.mask": "ids"}, SignatureError, "the signature 'env' has no setting 'mask'"),
        ({"credit.signature": "observation", "credit.method": "grpo"}, ConfigError, "credit.signature observation has no effect with"),
        ({"credit.signature": "3"}, UnknownSignatureError, "no signature is called '3'"),
    ):
        with pytest.raises(error, match=words):
            load_config("household", None, overrides)
    (tmp_path / "mine.yaml").write_text("credit: {signature: actions, signature_settings: {categorise: cod}}\n")
    with pytest.raises(SignatureError, match="did you mean code"):
        load_config("household", tmp_path / "mine.yaml")


def test_another_signature_drops_the_settings_of_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("credit: {signature: similar, signature_settings: {threshold: 0.5}}\n")
    assert load_config("household", file).credit.signature_settings == {"threshold": 0.5}
    assert load_config("household", file, {"credit.signature": "normalised"}).credit.signature_settings == {}
    kept = load_config("household", file, {"credit.signature_settings.threshold": "0.7"}).credit
    assert (kept.signature, kept.signature_settings) == ("similar", {"threshold": 0.7})


def test_a_function_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failingsignature.py").write_text("def sign(tree):\n    return [('a', 3) for turn in tree.turns]\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SignatureFunctionError, match=r"failingsignature:sign gave \('a', 3\) for turn 0"):
        advantages(two_ways(), "failingsignature:sign")
