"""An installed package brings environments by an entry point; it is loaded when an id is not known, and a broken one harms no other."""

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import envs
from envs import UnknownEnvironmentError, packages, registry

ROOM = """
import envs

class RoomEnv(envs.TextEnv):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "A room.", {}

def register():
    envs.register_env("pack/Room-v0", RoomEnv, description="from a package")
"""


def install(folder: Path, package: str, entry: str, source: str) -> None:
    """A module, and the metadata that an installer writes for it."""
    (folder / f"{package}.py").write_text(source)
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[branchwise.envs]\n{package} = {entry}\n")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages, which are forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))
    packages.forget()
    yield tmp_path
    packages.forget()
    for name in ("room_pack", "module_pack", "broken_pack"):
        sys.modules.pop(name, None)
    for id in [id for id in gym.registry if id.startswith("pack/")]:
        del gym.registry[id]


def test_a_package_registers_by_a_function_or_by_being_imported(site):
    install(site, "room_pack", "room_pack:register", ROOM)
    install(site, "module_pack", "module_pack", ROOM.replace("Room-v0", "Hall-v0") + "\nregister()\n")
    assert "room_pack" not in sys.modules
    assert envs.make("pack/Room-v0").reset(seed=0)[0] == "A room."
    assert {"pack/Room-v0", "pack/Hall-v0"} <= {spec.id for spec in envs.specs()}
    assert gym.make("pack/Hall-v0").reset(seed=0)[0] == "A room."


def test_nothing_is_loaded_for_an_environment_that_is_known(site):
    install(site, "room_pack", "room_pack:register", ROOM)
    envs.make("branchwise/Household-v0")
    assert "room_pack" not in sys.modules
    with pytest.raises(UnknownEnvironmentError, match="did you mean pack/Room-v0"):
        envs.make("pack/Rom-v0")


@pytest.mark.parametrize("entry", ["broken_pack", "broken_pack:nothing"])
def test_a_broken_package_is_one_sentence_and_the_others_stay(site, entry):
    install(site, "broken_pack", entry, "raise ValueError('no\\nluck')" if entry == "broken_pack" else "")
    install(site, "room_pack", "room_pack:register", ROOM)
    assert envs.make("pack/Room-v0").reset(seed=0)[0] == "A room."
    (fault,) = packages.load()
    assert fault.startswith(f"the environments of package broken_pack cannot be loaded from {entry} (") and "\n" not in fault
    with pytest.raises(UnknownEnvironmentError, match=r"no environment is called 'broken/X-v0'.*; the environments of package broken_pack"):
        envs.make("broken/X-v0")


def test_a_package_is_loaded_once(site):
    install(site, "room_pack", "room_pack:register", "made = []\n" + ROOM.replace("    envs.reg", "    made.append(1)\n    envs.reg"))
    envs.specs()
    envs.specs()
    assert sys.modules["room_pack"].made == [1]


def test_gymnasium_makes_it_by_the_package_that_registers_it(site):
    install(site, "module_pack", "module_pack", ROOM + "\nregister()\n")
    code = "import gymnasium; print(gymnasium.make('module_pack:pack/Room-v0').reset(seed=0)[0])"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(root)!r}, {str(site)!r}]; {code}"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout == "A room.\n", done.stderr
