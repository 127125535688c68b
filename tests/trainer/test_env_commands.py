"""`branchwise envs`, `check` and `doctor` say what the registry and the machine say, to people and to programs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import envs
from envs import Abilities, PackageNeed, ProgramNeed, packages, registry
from envs.household.env import HouseholdEnv
from trainer.cli import main

ID = "tests/Needy-v0"
MISSING = ProgramNeed("no-such-program", "sudo apt-get install no-such-program")
HERE = PackageNeed("numpy", "pip install numpy")


class Amnesiac(HouseholdEnv):
    """Forgets what it holds when it is restored."""

    def restore(self, snapshot: Any) -> None:
        house, state, turns = snapshot
        super().restore((house, state._replace(seen=0), turns))


@pytest.fixture
def needy() -> Iterator[envs.EnvSpec]:
    yield envs.register_env(ID, HouseholdEnv, needs=(MISSING, HERE), splits=("train",))
    del registry._SPECS[ID], gym.registry[ID]


@pytest.fixture
def amnesiac() -> Iterator[str]:
    abilities = Abilities(fork="exact", admissible=True, expert=True)
    yield envs.register_env("tests/Amnesiac-v0", Amnesiac, abilities=abilities, splits=("train", "valid_seen")).id
    del registry._SPECS["tests/Amnesiac-v0"], gym.registry["tests/Amnesiac-v0"]


def test_the_list_says_what_is_missing(needy, capsys):
    assert main(["envs"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "missing:" in text and ID in text


def test_the_list_for_programs(needy, capsys):
    assert main(["envs", "--json"]) == 0
    listed = {entry["id"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert set(listed) == {spec.id for spec in envs.specs()}
    assert listed["branchwise/Household-v0"] == {
        "id": "branchwise/Household-v0",
        "description": envs.spec("branchwise/Household-v0").description,
        "abilities": {"fork": "exact", "deterministic": True, "signature": True, "portable": True, "admissible": True, "expert": True},
        "splits": ["train", "valid_seen", "valid_unseen"],
        "max_turns": 50,
        "needs": [],
        "ready": True,
    }
    assert listed[ID]["ready"] is False
    assert listed[ID]["needs"] == [
        {"what": "the program no-such-program", "install": "sudo apt-get install no-such-program", "met": False},
        {"what": "the Python package numpy", "install": "pip install numpy", "met": True},
    ]


def test_a_broken_package_is_said_and_the_list_is_shown(monkeypatch, capsys):
    monkeypatch.setattr(packages, "load", lambda: ["the environments of package lost cannot be loaded from lost"])
    for verb in ("envs", "doctor"):
        assert main([verb]) == 0
        text = capsys.readouterr().out
        assert "the environments of package lost cannot be loaded" in text
    assert "branchwise/Household-v0" in text or verb == "doctor"


def test_the_doctor_names_what_is_missing_and_what_to_type(needy, capsys):
    assert main(["doctor", "needy"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["the", "program", "no-such-program", "missing", ID], ["the", "Python", "package", "numpy", "there", ID],
    ]  # fmt: skip
    assert lines[3:] == ["the program no-such-program: sudo apt-get install no-such-program", f"1 of 2 needs of {ID} not met"]
    assert main(["doctor"]) == 1
    capsys.readouterr()
    assert main(["doctor", "household"]) == 0
    assert capsys.readouterr().out == "branchwise/Household-v0: nothing is missing\n"
    assert main(["doctor", "houshold"]) == 2
    assert "did you mean branchwise/Household-v0" in capsys.readouterr().err


def test_a_missing_need_is_said_before_anything_else(needy, capsys):
    assert main(["play", "needy"]) == 2
    assert "needs the program no-such-program, which is missing: type sudo apt-get install" in capsys.readouterr().err


def test_check_shows_a_table_and_passes(capsys):
    assert main(["check", "household", "--seeds", "1", "--steps", "8", "--split", "valid_seen"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["check", "result", "what", "was", "tried", "seconds"]
    assert lines[-1] == "branchwise/Household-v0: 12 passed"
    assert any(line.startswith("different states  passed") for line in lines)


def test_check_fails_with_the_first_counter_example(amnesiac, capsys):
    assert main(["check", "amnesiac", "--seeds", "1", "--steps", "10"]) == 1
    text = capsys.readouterr().out
    assert "restore: the state after a restore is another one\nseed 0, actions ['" in text
    assert "\n- signature at " in text and "\n+ signature at " in text
    assert "failed" in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["check"], "the following arguments are required: ID"),
        (["check", "houshold"], "did you mean branchwise/Household-v0?"),
        (["check", "household", "--seeds", "0"], "seeds is 0; it must be a whole number of at least 1"),
        (["check", "household", "--split", "test"], "has no split 'test'"),
        (["check", "household", "--run.seed", "1"], "check takes no settings"),
        (["envs", "nwe"], "invalid choice: 'nwe'"),
        (["envs", "new"], "the following arguments are required: NAME"),
        (["envs", "new", "Bad-Name"], "'Bad-Name' is no name for a module"),
        (["envs", "new", "hunt", "--oot", "x"], "--oot"),
    ],
)
def test_what_a_user_can_mend_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err and shown.err.startswith("branchwise: ") and shown.err.count("\n") == 1


def test_a_new_environment_is_written_where_it_should_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "new", "coin_hunt", "--out", str(tmp_path / "mine")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"wrote {tmp_path / 'mine' / 'coin_hunt.py'}",
        f"wrote {tmp_path / 'mine' / 'test_coin_hunt.py'}",
        f"try it: python {tmp_path / 'mine' / 'coin_hunt'}.py check coin_hunt",
    ]
    assert all((tmp_path / "mine" / name).exists() for name in ("coin_hunt.py", "test_coin_hunt.py"))
