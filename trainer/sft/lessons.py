"""What is learned from recorded rollouts, and in which order, is a function of the trace, the configuration and the seed alone.

Tasks are held out whole, so that no rollout that is learned from shares its beginning with one that the validation loss is measured on.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from trainer.config import Config
from trainer.demonstrations import batches
from trainer.errors import RecordedRolloutsError
from trainer.progress import Progress
from trainer.sft.keep_rule import Candidate, choose
from trainer.sft.recorded_run import RecordedRun
from trainer.tree_encoding import KeptTree, TreeEncoder
from tree_rollout.state_graph import task_key


@dataclass(slots=True)
class LessonCounts:
    """What became of the recorded rollouts."""

    recorded: int = 0
    """Rollouts with an outcome."""
    measured: int = 0
    """Of further ones, on tasks that the held-out success is measured on; never learned from."""
    kept: int = 0
    """Learned from, or held out."""
    held_out: int = 0
    tasks: int = 0
    """Tasks with a kept rollout."""
    left_out: int = 0
    """Chosen, but the agent could not have had them."""
    re_encoded_turns: int = 0
    """Turns whose tokens are not those that were recorded."""
    turns: int = 0


@dataclass(frozen=True)
class LessonStep:
    """One optimizer step."""

    epoch: int
    """From 0."""
    trees: list[int]
    """Indices into `Lessons.learned`, the shortest first."""
    ends_epoch: bool


@dataclass
class Lessons:
    """The kept trees, those that are learned from apart from those that are held out."""

    learned: list[KeptTree]
    held_out: list[KeptTree]
    counts: LessonCounts
    reasons: list[str] = field(default_factory=list)
    """Why rollouts were left out, the most frequent first."""

    @classmethod
    def gather(cls, config: Config, run: RecordedRun, encoder: TreeEncoder, progress: Progress) -> "Lessons":
        """Read, choose and encode; raises `RecordedRolloutsError` where nothing is left to learn from."""
        progress.stage("reading recorded rollouts", total=run.count())
        candidates, measured = run.candidates(config, encoder.own_tokens, progress.update)
        chosen = choose(candidates, config.sft.keep)
        if not chosen:
            raise RecordedRolloutsError(_nothing(config, run, candidates, measured))
        progress.stage("encoding kept rollouts", total=len({candidate.tree for candidate in chosen}))
        kept: list[KeptTree] = []
        reasons: Counter[str] = Counter()
        for number, (tree, leaves) in enumerate(run.trees(chosen), 1):
            encoded, faults = encoder.encode(tree, leaves)
            kept += [encoded] if encoded else []
            reasons.update(faults)
            progress.update(number)
        said = [reason for reason, _ in reasons.most_common()]
        if not kept:
            raise RecordedRolloutsError(f"none of the {len(chosen)} kept rollouts of {run.trace} can be learned from; the first: {said[0]}")
        lessons = cls(*_split(kept, config), LessonCounts(), said)
        lessons._count(len(candidates), measured, sum(reasons.values()))
        return lessons

    def _count(self, recorded: int, measured: int, left_out: int) -> None:
        kept = [*self.learned, *self.held_out]
        self.counts = LessonCounts(
            recorded=recorded,
            measured=measured,
            kept=sum(entry.rollouts for entry in kept),
            held_out=sum(entry.rollouts for entry in self.held_out),
            tasks=len({task_key(entry.tree) for entry in kept}),
            left_out=left_out,
            re_encoded_turns=sum(entry.re_encoded for entry in kept),
            turns=sum(len(entry.tree.turns) for entry in kept),
        )

    @cached_property
    def digest(self) -> str:
        """Equal for equal lessons."""
        total = hashlib.blake2b(digest_size=16)
        for part in (self.learned, self.held_out):
            total.update(b"part")
            for entry in part:
                total.update(entry.weights_N.tobytes())
                for turn in entry.tree.turns:
                    total.update(np.array([turn.parent, turn.new_segment, len(turn.ids_T)], np.int64).tobytes())
                    total.update(turn.ids_T.tobytes() + turn.mask_T.tobytes())
        return total.hexdigest()

    def steps(self, config: Config) -> list[LessonStep]:
        """All steps: the passes that `sft.epochs` asks for, or as many steps as `sft.steps` says."""
        wanted, steps = config.sft.steps, list[LessonStep]()
        for epoch in range(config.sft.epochs) if wanted is None else count():
            if wanted is not None and len(steps) >= wanted:
                break
            rng = np.random.default_rng([config.run.seed, 4, epoch])
            cut = batches([_tokens(entry) for entry in self.learned], config.sft.tokens_per_step, rng)
            steps += [LessonStep(epoch, batch, number == len(cut)) for number, batch in enumerate(cut, 1)]
        return steps if wanted is None else steps[:wanted]

    def as_json(self) -> dict[str, Any]:
        """The counts as plain values."""
        return asdict(self.counts)

    def __str__(self) -> str:
        counts = self.counts
        kept = f"{counts.kept:,} of {counts.recorded:,} recorded rollouts kept, on {counts.tasks:,} tasks"
        parts = [f"{kept}, {counts.held_out:,} of them held out"]
        if counts.measured:
            parts.append(f"{counts.measured:,} on tasks of the evaluation passed over")
        if counts.left_out:
            parts.append(f"{counts.left_out:,} left out (the most frequent reason: {self.reasons[0]})")
        if counts.re_encoded_turns:
            parts.append(f"{counts.re_encoded_turns:,} of {counts.turns:,} turns encoded anew, as they were recorded in other tokens")
        return "; ".join(parts)


def _tokens(entry: KeptTree) -> int:
    return sum(len(turn.ids_T) for turn in entry.tree.turns)


def _split(kept: Sequence[KeptTree], config: Config) -> tuple[list[KeptTree], list[KeptTree]]:
    """Trees to learn from and held-out ones, by task; a single task is learned from."""
    tasks = list(dict.fromkeys(task_key(entry.tree) for entry in kept))
    share = config.sft.held_out_share
    drawn_tasks = min(len(tasks) - 1, max(1, round(share * len(tasks)))) if share else 0
    drawn = np.random.default_rng([config.run.seed, 5]).permutation(len(tasks))[:drawn_tasks]
    held_out = {tasks[int(index)] for index in drawn}
    learned = [entry for entry in kept if task_key(entry.tree) not in held_out]
    return learned, [entry for entry in kept if task_key(entry.tree) in held_out]


def _nothing(config: Config, run: RecordedRun, candidates: Sequence[Candidate], measured: int) -> str:
    if candidates:
        return (
            f"none of the {len(candidates):,} rollouts in {run.trace} solved its task, so --keep {config.sft.keep} keeps none; try "
            "--keep best_of_task or --keep top:K"
        )
    if measured:
        return (
            f"all {measured:,} rollouts in {run.trace} are on tasks that held-out success is measured on, and learning from them would "
            "spoil it; set another evaluation.seed, or name another run"
        )
    return f"{run.trace} holds no rollout with an outcome: all of them failed, or were stopped before they had one"
