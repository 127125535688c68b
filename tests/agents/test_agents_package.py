"""The package's names load on demand; its errors say one thing and survive pickling."""

import pickle
import subprocess
import sys

import pytest

import agents
from agents import errors


@pytest.mark.parametrize("name", agents.__all__)
def test_every_public_name_is_there(name: str) -> None:
    value = getattr(agents, name)
    assert value == 200 if name == "MAX_ACTION_LENGTH" else value.__name__ == name


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        agents.nonsense  # noqa: B018


def test_light_parts_load_without_torch() -> None:
    code = "import sys; from agents import Context, ScriptedEngine, parse_action; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", [name for name in vars(errors) if name.endswith("Error")])
def test_errors_survive_pickling_and_name_the_exit_code(name: str) -> None:
    error = getattr(errors, name)("this is wrong; type that")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == "this is wrong; type that"
    assert error.exit_code == 2 and isinstance(error, errors.AgentError)
    assert name == "AgentError" or isinstance(error, ValueError | LookupError)
