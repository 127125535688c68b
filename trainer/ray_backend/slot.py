"""A slot is one process's place in the run; whoever dies in it is told by name, and may be replaced a limited number of times."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import ray
from ray.actor import ActorHandle
from ray.exceptions import GetTimeoutError, ObjectLostError, ObjectStoreFullError, OutOfDiskError, RayActorError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup

from trainer.errors import ClusterError, WorkerError
from trainer.ray_backend.object_store import full
from trainer.ray_backend.worker_facts import WorkerFacts, death


class Slot:
    """One actor, and how to start it again. `start` places it into a bundle of `group`, which has room within `deadline_s` or never."""

    def __init__(self, name: str, start: Callable[[], ActorHandle], group: PlacementGroup, deadline_s: float) -> None:
        self.name = name
        self._start = start
        self._group = group
        self._deadline_s = deadline_s
        self.facts: WorkerFacts | None = None
        self.begin()

    @property
    def id(self) -> str:
        """Ray's id of the actor that is here at present."""
        return self.actor._actor_id.hex()

    def begin(self) -> None:
        """Start an actor, in place of an earlier one if there was any; `ready` waits for it."""
        self.facts = None
        self.actor = self._start()
        self._ready: ray.ObjectRef = self.actor.begin.remote()

    def ready(self) -> None:
        """Wait until the actor answers; raises `WorkerError` where it died, and `ClusterError` where there is no room for it."""
        while self.facts is None:
            try:
                self.facts = cast(WorkerFacts, ray.get(self._ready, timeout=self._deadline_s))
            except GetTimeoutError as error:
                if not self._group.wait(1):  # whole seconds: less is no time at all
                    raise ClusterError(
                        f"the cluster had no room for {self.name} within {self._deadline_s:g} s (ray.start_deadline_s), since a node left; "
                        "add one, and go on with --resume"
                    ) from error
            except RayError as error:
                raise self.told(error) from error

    def get(self, reference: Any) -> Any:
        """What a call of the actor answered; what it raised, and why it died, is raised here."""
        try:
            return ray.get(reference)
        except RayError as error:
            raise self.told(error) from error

    def told(self, error: RayError) -> Exception:
        """The error as this package raises it."""
        if isinstance(error, RayTaskError):
            cause = error.cause
            if isinstance(cause, RayError):
                return self.told(cause)
            if isinstance(cause, Exception):
                cause.add_note(str(error))
                return cause
        if isinstance(error, ObjectStoreFullError | OutOfDiskError):
            return full(error)
        if isinstance(error, RayActorError | ObjectLostError):
            return death(self.name, self.facts, error)
        return WorkerError(f"{self.name} failed: {' '.join(str(error).split())[:300]}")

    def end(self) -> None:
        """End the actor, whatever it does."""
        with suppress(RayError, ValueError):
            ray.kill(self.actor)


class Restarts:
    """How many workers may be replaced in the course of the run."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.made = 0
        """Workers that were replaced so far."""

    def spend(self, cause: Exception) -> None:
        """Count a replacement; raises the cause where there were too many."""
        if self.made >= self._most:
            raise WorkerError(f"{cause}; {self.made} workers were replaced before, and ray.restarts {self._most} allows no more") from cause
        self.made += 1
