"""The start policy is a function of the configuration: built, taught by demonstrations, and kept under the hash of what it depends on."""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import envs
from agents.policy_folder import build_policy, load_policy, save_policy
from agents.tokenizer import train_tokenizer
from trainer.checkpoint import load_checkpoint, optimizer_tensors, restore_optimizer, save_checkpoint
from trainer.config import Config, config_hash
from trainer.demonstrations import demonstrate
from trainer.errors import CheckpointError
from trainer.imitation import demonstration_seed
from trainer.muon import Muon
from trainer.progress import Progress
from trainer.shard_pool import ShardPool
from trainer.shared_parameters import SharedParameters
from trainer.stop_request import StopRequest

_FORMAT = 1
_ENTITY = re.compile(r"\b[a-z]+ [0-9]+\b")
"""What the demonstrations call a thing, such as "drawer 2"; each becomes one token."""
_TOKENIZER_EPISODES = 400
_RISE_STEPS = 20
_SAVE_EVERY_S = 20.0


@dataclass(frozen=True, slots=True)
class WarmStartReport:
    """What the warm start cost when it was made."""

    minutes: float
    steps: int
    tokens: int
    final_loss: float


def cache_folder() -> Path:
    """Where start policies are kept: `BRANCHWISE_CACHE`, else `branchwise` in the user's cache folder."""
    if chosen := os.environ.get("BRANCHWISE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "branchwise"


class WarmStart:
    """Makes the start policy of a configuration, or finds the one that was made before."""

    def __init__(self, config: Config) -> None:
        self._config = config
        key = config_hash(config.env, config.policy, config.warmstart, {"shards": config.run.shards, "format": _FORMAT})
        self.folder = cache_folder() / "warmstart" / key[:16]
        self._report = self.folder / "report.json"
        self._draft = self.folder / "draft"

    @property
    def policy(self) -> Path:
        """Folder of the finished start policy."""
        return self.folder / "policy"

    @property
    def initial(self) -> Path:
        """Folder of the policy before it is taught: the same architecture and tokenizer."""
        return self.folder / "initial"

    def report(self) -> WarmStartReport | None:
        """What it cost; None where it is not finished."""
        return WarmStartReport(**json.loads(self._report.read_text())) if self._report.is_file() else None

    def build(self, progress: Progress) -> None:
        """Make the untaught policy, unless it is there: tokenizer and weights from the warm start's seed, or the folder that was named."""
        if self.initial.is_dir():
            return
        config = self._config
        if config.policy.path is not None:
            model, tokenizer = load_policy(Path(config.policy.path))
        else:
            progress.stage("tokenizer", total=_TOKENIZER_EPISODES)
            texts = list(self._texts(progress))
            entities = sorted({match.group() for text in texts for match in _ENTITY.finditer(text)})
            tokenizer = train_tokenizer(texts, entities, config.policy.vocab_size)
            sizes = config.policy.model_dump(exclude={"path", "vocab_size"})
            model = build_policy(tokenizer, **sizes, seed=config.warmstart.seed)
        save_policy(model, tokenizer, self.initial)

    def _texts(self, progress: Progress) -> Iterator[str]:
        env, settings = self._config.env, self._config.warmstart
        world = envs.make(env.id, split=env.train_split, max_turns=env.max_turns, **env.kwargs)
        for episode in range(_TOKENIZER_EPISODES):
            rng = np.random.default_rng([settings.seed, 0, episode])
            for turn in demonstrate(world, demonstration_seed(settings.seed, episode), rng, dict(settings.habits), settings.noise):
                yield turn.observation
                yield turn.action
            progress.update(episode + 1)
        world.close()

    def teach(
        self,
        pool: ShardPool,
        shared: SharedParameters,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        progress: Progress,
        stop: StopRequest,
    ) -> None:
        """Train `model`, whose weights are the shared vector, on demonstrations; goes on from where an interrupted call stopped."""
        teacher = _Teacher(self._config, model, shared)
        if self._draft.is_dir():
            teacher.restore(self._draft)
        shards, steps = self._config.run.shards, self._config.warmstart.steps
        if teacher.step < steps:
            progress.stage("recording demonstrations", total=1)
            pool.call("record", [()] * shards)
        progress.stage("warm start", total=steps, done=teacher.step)
        saved = time.monotonic()
        while teacher.step < steps:
            teacher.update(pool.call("imitate", [(teacher.step,)] * shards))
            progress.update(teacher.step, loss=teacher.loss, imitated_tokens=teacher.tokens)
            if stop.requested or time.monotonic() - saved > _SAVE_EVERY_S:
                teacher.save(self._draft)
                saved = time.monotonic()
                stop.check()
        pool.call("forget", [()] * shards)
        save_policy(model, tokenizer, self.policy)
        report = WarmStartReport(teacher.seconds / 60, steps, teacher.tokens, teacher.loss)
        draft = self._report.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(report)))
        os.replace(draft, self._report)
        shutil.rmtree(self._draft, ignore_errors=True)


class _Teacher:
    """Muon for the matrices, AdamW for embeddings and norms, and the place in the schedule."""

    def __init__(self, config: Config, model: PreTrainedModel, shared: SharedParameters) -> None:
        self._settings = config.warmstart
        self._shared = shared
        embedding = model.get_input_embeddings().weight
        matrices = [p for p in model.parameters() if p.ndim == 2 and p is not embedding]
        others = [p for p in model.parameters() if p.ndim != 2 or p is embedding]
        self._muon = Muon(matrices, lr=self._settings.lr_muon)
        self._adamw = torch.optim.AdamW(others, lr=self._settings.lr_adamw, betas=(0.9, 0.95), weight_decay=0.0)
        self._parameters = list(model.parameters())
        self.step = 0
        self.tokens = 0
        self.loss = 0.0
        self.seconds = 0.0
        self._started = time.monotonic()

    def update(self, sums: list[dict[str, float]]) -> None:
        """One step from the gradient sums that the shards left in the shared rows."""
        weight = sum(part["weight"] for part in sums)
        gradient_P = self._shared.collect().div_(weight)
        gradient_P.mul_(min(1.0, 1.0 / (float(gradient_P.norm()) + 1e-6)))
        start = 0
        for parameter in self._parameters:
            parameter.grad = gradient_P[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()
        rate = min(1.0, (self.step + 1) / _RISE_STEPS) * (1 - self.step / self._settings.steps)
        for optimizer, peak in ((self._muon, self._settings.lr_muon), (self._adamw, self._settings.lr_adamw)):
            for group in optimizer.param_groups:
                group["lr"] = peak * rate
            optimizer.step()
        self.step += 1
        self.tokens += int(sum(part["tokens"] for part in sums))
        loss = sum(part["loss"] for part in sums) / weight
        self.loss = loss if self.step == 1 else 0.98 * self.loss + 0.02 * loss
        now = time.monotonic()
        self.seconds, self._started = self.seconds + now - self._started, now

    def save(self, folder: Path) -> None:
        """Write where it stands."""
        state = {"step": self.step, "tokens": self.tokens, "loss": self.loss, "seconds": self.seconds}
        tensors = {"weights": self._shared.weights_P}
        tensors |= optimizer_tensors(self._muon, "muon") | optimizer_tensors(self._adamw, "adamw")
        save_checkpoint(folder, state, tensors)

    def restore(self, folder: Path) -> None:
        """Go on from what `save` wrote; a damaged draft is an error."""
        checkpoint = load_checkpoint(folder)
        try:
            state: dict[str, Any] = checkpoint.state
            self._shared.weights_P.copy_(checkpoint.tensors["weights"])
            restore_optimizer(self._muon, checkpoint.tensors, "muon")
            restore_optimizer(self._adamw, checkpoint.tensors, "adamw")
            self.step, self.tokens, self.loss, self.seconds = state["step"], state["tokens"], state["loss"], state["seconds"]
        except (KeyError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"checkpoint {folder} does not fit this model: {error}; remove it to start again") from error
