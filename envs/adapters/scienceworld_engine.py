"""ScienceWorld's simulator in a Java process of its own, in which the same actions always give the same answers.

The simulator walks through sets of objects whose order follows the hash that Java draws for each object, so what it lists, and the
package's solution, would differ from start to start. Here Java gives all objects the same hash, and sets keep the order of insertion.
"""

import contextlib
import json
import subprocess
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError
from scienceworld.constants import BASEPATH, JAR_PATH

from envs.errors import MissingNeedError

_JAVA = ("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2", "-XX:+UseSerialGC")
_REFUSED = "No known action matches"
_EXIT_S = 5.0


class ScienceWorldEngine:
    """One simulator, which holds one task at a time.

    The package's Python class is left out: it starts Java without these options, and lists all possible actions after every step.
    """

    def __init__(self) -> None:
        try:
            launched: Any = launch_gateway(classpath=JAR_PATH, javaopts=list(_JAVA), die_on_exit=True, cwd=BASEPATH, return_proc=True)
        except (Py4JError, OSError, ValueError) as error:
            need = "Java of the OpenJDK family, since its option -XX:hashCode makes episodes the same"
            raise MissingNeedError(
                f"ScienceWorld's simulator did not start; it needs {need}: type sudo apt-get install default-jre-headless"
            ) from error
        port, process = launched
        gateway: Any = JavaGateway(gateway_parameters=GatewayParameters(port=port), java_process=process)
        self._stop = weakref.finalize(self, _stop, gateway, process)
        self._server: Any = gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
        self._variations: dict[tuple[str, str], list[int]] = {}

    def task_names(self) -> list[str]:
        """All tasks, in the package's order."""
        return list(self._server.getTaskNames())

    def simplifications(self) -> list[str]:
        """What may be made easier; `easy` is all of it."""
        return ["easy", *self._server.getPossibleSimplifications().split(", ")]

    def variations(self, task: str, fold: str) -> list[int]:
        """The package's own variations of a task in its fold `Train`, `Dev` or `Test`. The present task is given up."""
        if (task, fold) not in self._variations:
            self._server.load(task, 0, "", False)
            self._variations[task, fold] = sorted(getattr(self._server, f"getVariations{fold}")())
        return self._variations[task, fold]

    def load(self, task: str, variation: int, simplifications: str) -> str:
        """Begin a variation of a task; what a first look around shows, which takes one move of the simulator's time."""
        self._server.load(task, variation, simplifications, False)
        return self._server.step("look around")

    def solution(self, task: str, variation: int, simplifications: str) -> tuple[str, ...]:
        """The package's gold actions, which go on after the first look around. The present task is given up."""
        self._server.load(task, variation, simplifications, True)
        return tuple(self._server.getGoldActionSequence())

    def description(self) -> str:
        """What the present task asks for."""
        return self._server.getTaskDescription()

    def step(self, action: str) -> tuple[str, float, bool, bool]:
        """What the simulator answers, the score so far (1 when solved, below 0 when failed), whether it ended, whether it understood."""
        observation = self._server.step(action)
        score = float(self._server.getScore())
        return observation, score, score < 0 or bool(self._server.getCompleted()), not observation.startswith(_REFUSED)

    def possible_actions(self) -> list[str]:
        """All actions that the present state admits; what they call things is drawn anew by each call, and moves the simulator's chance on.

        The simulator lists actions on things in closed containers and in other rooms too, which it does not understand; they are left out.
        """
        world = _tree(self._server)
        known = set(json.loads(self._server.getPossibleObjectReferentLUTJSON()))
        hidden = set(_inside(world, through_closed=True)) - set(_inside(_room(world) or world)) - known
        listed = json.loads(self._server.getValidActionObjectCombinationsJSON())["validActions"]
        far = "teleport to "
        return [one["action"] for one in listed if one["action"].startswith(far) or hidden.isdisjoint(map(str, one["obj_ids"]))]

    def close(self) -> None:
        """End the Java process; a second time does nothing."""
        self._stop()


def _stop(gateway: Any, process: "subprocess.Popen[Any]") -> None:
    with contextlib.suppress(Py4JError, OSError):
        gateway.shutdown()
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()  # It exits when its input ends.
    try:
        process.wait(_EXIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _tree(server: Any) -> dict[str, Any]:
    """All objects, each with what it contains; the simulator writes them to a folder."""
    with tempfile.TemporaryDirectory() as folder:
        server.getObjectTree(folder)
        return json.loads((Path(folder) / "objectTree.json").read_text())


def _inside(thing: dict[str, Any], through_closed: bool = False) -> Iterator[str]:
    """Ids of the thing and of what it contains, closed containers unopened."""
    yield thing["uuid"]
    if through_closed or (thing["propContainer"] or {}).get("isOpen", True):
        for content in thing["contents"].values():
            yield from _inside(content, through_closed)


def _room(thing: dict[str, Any]) -> dict[str, Any] | None:
    """What contains the agent."""
    if any(content["name"] == "agent" for content in thing["contents"].values()):
        return thing
    return next((room for content in thing["contents"].values() if (room := _room(content)) is not None), None)
