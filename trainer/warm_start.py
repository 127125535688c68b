"""The start policy is a function of the configuration: built, taught by demonstrations, and kept under the hash of what it depends on.

Of several processes that want the same one, one makes it and the others wait; what is kept is used only when its seals hold.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

import envs
from agents.cache_folder import cache_folder
from agents.policy_folder import build_policy, load_policy
from agents.tokenizer import train_tokenizer
from trainer.checkpoint import Checkpoint, CheckpointSeries, optimizer_tensors, restore_optimizer
from trainer.config import AgentConfig, Config, WarmstartConfig, config_hash
from trainer.demonstrations import demonstrate
from trainer.device import device_of
from trainer.errors import CheckpointError
from trainer.folder_lock import FolderLock
from trainer.imitation import demonstration_seed
from trainer.local_backend import LocalBackend
from trainer.muon import Muon
from trainer.policy_seal import check_seal, folder_digest, is_sealed, save_sealed
from trainer.progress import Progress
from trainer.shared_parameters import SharedParameters
from trainer.stepped_parameters import SteppedParameters
from trainer.stop_request import StopRequest
from trainer.trained_model import named_policy, trained_parameters

_FORMAT = 1
_ENTITY = re.compile(r"\b[a-z]+ [0-9]+\b")
"""What the demonstrations call a thing, such as "drawer 2"; each becomes one token."""
_RISE_STEPS = 20
_SAVE_EVERY_S = 20.0
_LOOK_EVERY_S = 0.5
"""Pause between two looks at whether another process has finished the same start policy."""


@dataclass(frozen=True, slots=True)
class WarmStartReport:
    """What the warm start cost when it was made."""

    minutes: float
    steps: int
    tokens: int
    final_loss: float


class WarmStart:
    """Makes the start policy of a configuration, or finds the one that was made before."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.folder = cache_folder() / "warmstart" / _key(config)
        self._report = self.folder / "report.json"
        self._course = self.folder / "course.json"
        self._drafts = CheckpointSeries(self.folder / "drafts", keep=1)

    @property
    def policy(self) -> Path:
        """Folder of the finished start policy."""
        return self.folder / "policy"

    @property
    def initial(self) -> Path:
        """Folder of the policy before it is taught: the same architecture and tokenizer."""
        return self.folder / "initial"

    @contextmanager
    def held(self, progress: Progress, stop: StopRequest) -> Iterator[FolderLock]:
        """Keep other processes from making the same start policy meanwhile; waits while another one does."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            where = "name another place with the environment variable BRANCHWISE_CACHE"
            raise CheckpointError(f"the start policy cannot be kept in {self.folder}: {error.strerror or error}; {where}") from error
        lock = FolderLock(self.folder)
        if not lock.acquire():
            progress.message("another run is making the same start policy; waiting for it")
            while not lock.acquire():
                stop.check()
                time.sleep(_LOOK_EVERY_S)
        try:
            yield lock
        finally:
            lock.release()

    def report(self) -> WarmStartReport | None:
        """What it cost; None where it is not finished. A damaged one is an error that says what to remove."""
        if not self._report.is_file():
            return None
        try:
            report = WarmStartReport(**json.loads(self._report.read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise self._damaged(f"{self._report.name} cannot be read") from error
        self._check(self.policy)
        return report

    def course(self) -> list[dict[str, float]]:
        """Each step's loss and tokens; of a start policy that was finished before this was written down, nothing."""
        if not self._course.is_file():
            return []
        try:
            return [{"loss": float(step["loss"]), "tokens": int(step["tokens"])} for step in json.loads(self._course.read_text())]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise self._damaged(f"{self._course.name} cannot be read") from error

    def build(self, progress: Progress) -> None:
        """Make the untaught policy, unless it is there: tokenizer and weights from the warm start's seed, or the folder that was named."""
        if is_sealed(self.initial):
            self._check(self.initial)
            return
        config = self._config
        if config.policy.path is not None:
            model, tokenizer = load_policy(named_policy(config.policy.path))
        else:
            progress.stage("tokenizer", total=config.warmstart.tokenizer_episodes)
            texts = list(self._texts(progress))
            entities = sorted({match.group() for text in texts for match in _ENTITY.finditer(text)})
            tokenizer = train_tokenizer(texts, entities, config.policy.vocab_size)
            sizes = config.policy.model_dump(exclude={"path", "lora", "device", "dtype", "vocab_size"})
            model = build_policy(tokenizer, **sizes, seed=config.warmstart.seed)
        save_sealed(model, tokenizer, self.initial)

    def _texts(self, progress: Progress) -> Iterator[str]:
        env, settings = self._config.env, self._config.warmstart
        world = envs.make(env.id, **env.arguments(env.train_split))
        for episode in range(settings.tokenizer_episodes):
            rng = np.random.default_rng([settings.seed, 0, episode])
            for turn in demonstrate(world, demonstration_seed(settings.seed, episode), rng, dict(settings.habits), settings.noise):
                yield turn.observation
                yield turn.action
            progress.update(episode + 1)
        world.close()

    def teach(self, backend: LocalBackend, progress: Progress, stop: StopRequest) -> WarmStartReport:
        """Train the backend's model on demonstrations; goes on from where an interrupted call stopped."""
        teacher, pool = _Teacher(self._config, backend.model, backend.shared), backend.learning
        if (draft := self._drafts.newest()) is not None:
            teacher.restore(draft)
        shards, steps = self._config.run.shards, self._config.warmstart.steps
        if teacher.step < steps:
            progress.stage("recording demonstrations", total=1)
            pool.call("record", [()] * shards)
            stop.check()
        progress.stage("warm start", total=steps, done=teacher.step)
        saved = time.monotonic()
        while teacher.step < steps:
            teacher.update(pool.call("imitate", [(teacher.step,)] * shards))
            progress.update(teacher.step, loss=teacher.loss, imitated_tokens=teacher.tokens)
            if stop.requested or time.monotonic() - saved > _SAVE_EVERY_S:
                teacher.save(self._drafts)
                saved = time.monotonic()
                stop.check()
        pool.call("forget", [()] * shards)
        save_sealed(backend.model, backend.tokenizer, self.policy)
        report = WarmStartReport(teacher.seconds / 60, steps, teacher.tokens, teacher.loss)
        self._write(report, teacher.course)
        shutil.rmtree(self._drafts.folder, ignore_errors=True)
        return report

    def _write(self, report: WarmStartReport, course: list[dict[str, float]]) -> None:
        """The report comes last: where it is, all is there."""
        for path, value in ((self._course, course), (self._report, asdict(report))):
            draft = path.with_suffix(".draft")
            try:
                draft.write_text(json.dumps(value))
                os.replace(draft, path)
            except OSError as error:
                draft.unlink(missing_ok=True)
                raise CheckpointError(f"{path} cannot be written: {error.strerror or error}") from error

    def _check(self, policy: Path) -> None:
        try:
            check_seal(policy)
        except CheckpointError as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, what: str) -> CheckpointError:
        return CheckpointError(f"the start policy in {self.folder} is damaged: {what}; remove that folder, and the next run makes it anew")


def _key(config: Config) -> str:
    """Equal for configurations with the same start policy; a named model counts by what its folder holds, not by where it lies."""
    env = config.env.model_dump(mode="json", exclude={"eval_split"})
    rest: dict[str, Any] = {"shards": config.run.shards, "format": _FORMAT}
    if config.agent != AgentConfig():
        rest["agent"] = config.agent.model_dump(mode="json")
    policy = config.policy.model_dump(mode="json")
    if config.policy.lora.rank is None:
        del policy["lora"]
    if config.policy.device == "cpu":
        del policy["device"]
    if config.policy.dtype == "float32":
        del policy["dtype"]
    warmstart = config.warmstart.model_dump(mode="json")
    if config.policy.path is not None or config.warmstart.tokenizer_episodes == WarmstartConfig().tokenizer_episodes:
        del warmstart["tokenizer_episodes"]
    if config.policy.path is not None and ((folder := named_policy(config.policy.path)) / "config.json").is_file():
        policy["path"] = folder_digest(folder)
    return config_hash(env, policy, warmstart, rest)[:16]


class _Teacher:
    """Muon for the matrices, AdamW for the rest or for all, and the place in the schedule."""

    def __init__(self, config: Config, model: PreTrainedModel, shared: SharedParameters) -> None:
        self._settings = config.warmstart
        self._shared = shared
        embedding = model.get_input_embeddings().weight
        self._stepped = SteppedParameters(shared.masters(model), shared, device_of("policy.device", config.policy.device))
        lr_muon, lr_adamw = self._settings.lr_muon, self._settings.lr_adamw
        by_muon = [lr_muon is not None and p.ndim == 2 and p is not embedding for p in trained_parameters(model)]
        matrices = [named for named, chosen in zip(self._stepped.named.items(), by_muon, strict=True) if chosen]
        others = [named for named, chosen in zip(self._stepped.named.items(), by_muon, strict=True) if not chosen]
        self._optimizers: dict[str, tuple[torch.optim.Optimizer, float]] = {}
        """By name, with the highest learning rate."""
        if lr_muon is not None and matrices:
            self._optimizers["muon"] = Muon(matrices, lr=lr_muon), lr_muon
        if others:
            self._optimizers["adamw"] = torch.optim.AdamW(others, lr=lr_adamw, betas=(0.9, 0.95), weight_decay=0.0), lr_adamw
        self.step = 0
        self.tokens = 0
        self.loss = 0.0
        self.seconds = 0.0
        self.course: list[dict[str, float]] = []
        """Loss and tokens of each step so far."""
        self._started = time.monotonic()

    def update(self, sums: list[dict[str, float]]) -> None:
        """One step from the gradient sums that the shards left in the shared rows."""
        # Where a batch holds nothing to imitate all sums are 0, and so is the gradient.
        weight = sum(part["weight"] for part in sums) or 1.0
        gradient_P = self._stepped.collect().div_(weight)
        gradient_P.mul_(min(1.0, 1.0 / (float(gradient_P.norm()) + 1e-6)))
        self._shared.hand_out(gradient_P, list(self._stepped.named.values()))
        rate = min(1.0, (self.step + 1) / _RISE_STEPS) * (1 - self.step / self._settings.steps)
        for optimizer, peak in self._optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = peak * rate
            optimizer.step()
        self._stepped.publish()
        self.step += 1
        tokens = int(sum(part["tokens"] for part in sums))
        self.tokens += tokens
        loss = sum(part["loss"] for part in sums) / weight
        self.course.append({"loss": loss, "tokens": tokens})
        self.loss = loss if self.step == 1 else 0.98 * self.loss + 0.02 * loss
        now = time.monotonic()
        self.seconds, self._started = self.seconds + now - self._started, now

    def save(self, drafts: CheckpointSeries) -> None:
        """Write where it stands."""
        state = {"step": self.step, "tokens": self.tokens, "loss": self.loss, "seconds": self.seconds, "course": self.course}
        tensors = {"weights": self._shared.weights_P}
        for name, (optimizer, _) in self._optimizers.items():
            tensors |= optimizer_tensors(optimizer, name)
        drafts.save(self.step, state, tensors)

    def restore(self, draft: Checkpoint) -> None:
        """Go on from what `save` wrote."""
        try:
            state: dict[str, Any] = draft.state
            self._stepped.restore(draft.tensors["weights"])
            for name, (optimizer, _) in self._optimizers.items():
                restore_optimizer(optimizer, draft.tensors, name)
            self.step, self.tokens, self.loss, self.seconds = state["step"], state["tokens"], state["loss"], state["seconds"]
            self.course = list(state["course"])
        except (KeyError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"checkpoint {draft.folder} does not fit this model: {error}; remove it to start again") from error
