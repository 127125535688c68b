"""Where a run keeps what: the one place that knows the file names of a run folder."""

import difflib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trainer.config import Config
from trainer.errors import RunFolderError
from trainer.folder_lock import FolderLock
from trainer.load_config import restore_config
from trainer.policy_seal import check_seal, is_sealed

FORMAT = 1
"""Raised when a run folder of this version can no longer be read by an older one, or the other way round."""
_FREE_ON_RESUME = {
    "run.out",
    "run.workers",
    "run.iterations",
    "run.checkpoint_every",
    "run.keep_checkpoints",
    "run.keep_best",
    "run.max_failed_share",
    "run.backend",
    "run.grace_s",
    "run.straggler_wait_s",
    "run.loggers",
    "optimizer.sharding",
    "policy.device",
    "rollout.device",
    "rollout.vllm.gpu_memory_utilization",
    "rollout.vllm.cache_gib",
    "rollout.vllm.tensor_parallel",
    "rollout.vllm.sleep",
}
"""Settings that may differ when a run goes on: they do not change what an iteration computes, beyond rounding with another sharding or on
another device."""


class RunFolder:
    """Names in the folder of one run, and what makes a folder a run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        """The configuration and the format of the folder; its presence makes a folder a run folder."""
        self.metrics = path / "metrics.jsonl"
        self.trace = path / "trace.sqlite"
        self.checkpoints = path / "checkpoints"
        self.result = path / "result.json"
        self.curve = path / "learning_curve.png"
        self.loss_curve = path / "loss_curve.png"
        """Of supervised fine-tuning."""

    @property
    def is_run(self) -> bool:
        """Whether this is the folder of a run; a model's folder has a config.json as well, of another kind."""
        try:
            values = json.loads(self.config.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(values, dict) and "benchmark" in values

    def policy(self, iteration: int) -> Path:
        """Hugging Face folder of the policy after an iteration."""
        return self.path / "policies" / f"{iteration:06d}"

    def policies(self) -> list[int]:
        """Iterations whose policy is kept, ascending: the start, and the last ones; one that was never finished is not counted."""
        folder = self.path / "policies"
        if not folder.is_dir():
            return []
        return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdigit() and is_sealed(entry))

    def chosen_policy(self, iteration: int | None = None) -> tuple[int, Path]:
        """The policy after an iteration (None: the last one that is kept), with its iteration; a damaged one is an error."""
        kept = self.policies()
        if not kept:
            raise RunFolderError(f"{self.path} has no policy yet; go on with `branchwise train ... --resume`")
        number = kept[-1] if iteration is None else iteration
        if number not in kept:
            raise RunFolderError(f"{self.path} keeps no policy of iteration {number}; choose one of {', '.join(map(str, kept))}")
        check_seal(self.policy(number))
        return number, self.policy(number)

    def start_policy(self) -> Path:
        """The policy that the run started from, which it needs to go on."""
        if 0 not in self.policies():
            raise RunFolderError(f"{self.policy(0)} is missing, and a run cannot go on without the policy it started from; put it back")
        return self.chosen_policy(0)[1]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder, and keep other processes from training in it meanwhile; a new folder that stays empty is removed again."""
        new = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"{self.path} cannot be made a run folder: {error.strerror or error}") from error
        lock = FolderLock(self.path)
        if not lock.acquire():
            raise RunFolderError(f"another process is training in {self.path}; wait for its end, or choose another folder with --out DIR")
        try:
            yield
        finally:
            lock.release()
            if new:
                with suppress(OSError):
                    self.path.rmdir()

    def prepare(self, config: Config, resume: bool) -> None:
        """Write the configuration of a new run, or check that the run in the folder can go on with it."""
        if not self.config.is_file():
            entries = self.path.iterdir() if self.path.is_dir() else ()
            strange = [entry for entry in entries if not entry.name.startswith(f".{self.config.name}")]
            if strange:
                raise RunFolderError(f"{self.path} holds other files and no run; choose an empty folder with --out DIR")
            if resume:
                raise RunFolderError(f"{self.path} holds no run to go on with; leave --resume out to begin one")
        else:
            recorded = self.read_config()
            begun = bool(self.policies()) or self.checkpoints.is_dir()
            if begun and not resume:
                raise RunFolderError(
                    f"{self.path} holds a run already; add --resume to go on with it, or choose another folder with --out DIR"
                )
            if resume and (difference := _difference(recorded, config)):
                raise RunFolderError(
                    f"{self.path} was started with {difference}; resume it with the same settings, or choose another folder with --out DIR"
                )
        self._write(config)

    def read_config(self) -> Config:
        """The run's configuration."""
        try:
            text = self.config.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RunFolderError(f"{self.config} cannot be read: {error}") from error
        return restore_config(self._without_format(text), str(self.config))

    def read_result(self) -> dict[str, Any] | None:
        """What the run wrote into result.json at its end; None where it has not ended, or the file is none."""
        try:
            result = json.loads(self.result.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return result if isinstance(result, dict) else None

    def _without_format(self, text: str) -> str:
        """The configuration alone; raises where the folder is of another version."""
        try:
            values = json.loads(text)
        except ValueError:
            return text
        if not isinstance(values, dict):
            return text
        if (found := values.pop("format", FORMAT)) != FORMAT:
            raise RunFolderError(
                f"{self.path} is a run folder of format {found!r}, and this version reads format {FORMAT}; "
                "use the version that wrote it, or choose another folder with --out DIR"
            )
        return json.dumps(values)

    def _write(self, config: Config) -> None:
        draft = self.path / f".{self.config.name}.draft"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps({"format": FORMAT, **config.model_dump(mode="json")}, indent=2) + "\n", encoding="utf-8")
            os.replace(draft, self.config)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise RunFolderError(f"{self.config} cannot be written: {error.strerror or error}") from error

    @classmethod
    def existing(cls, path: Path) -> "RunFolder":
        """The folder of a run that was started; an error names the nearest run folders beside it where there is none."""
        folder = cls(path)
        if folder.config.is_file():
            return folder
        beside = path.absolute().parent
        runs = sorted(entry.parent.name for entry in beside.glob("*/config.json")) if beside.is_dir() else []
        close = difflib.get_close_matches(path.name, runs, n=3, cutoff=0.5) or runs[:3]
        hint = f"did you mean {' or '.join(str(path.parent / name) for name in close)}?" if close else "branchwise train makes one"
        raise RunFolderError(f"{path} is no run folder; {hint}")


def _difference(recorded: Config, given: Config) -> str | None:
    """The first setting in which two configurations differ in a way that changes the run, as `name = recorded value`."""
    before, now = _flat(recorded.model_dump(mode="json")), _flat(given.model_dump(mode="json"))
    for name in sorted(before.keys() | now.keys()):
        if name not in _FREE_ON_RESUME and not name.startswith("ray.") and before.get(name) != now.get(name):
            return f"{name} = {before.get(name)!r} (now {now.get(name)!r})"
    return None


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat
