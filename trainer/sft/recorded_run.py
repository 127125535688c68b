"""A recorded run is a trace, in a run folder or by itself; it is only read, and what is wrong with it is one sentence."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from agents.agent import Agent
from agents.policy_folder import load_tokenizer
from trainer.config import Config
from trainer.configured_agent import configured_agent
from trainer.errors import RecordedRolloutsError
from trainer.run_folder import RunFolder
from trainer.sft.keep_rule import Candidate
from tree_rollout.state_graph import task_key
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """Where rollouts were recorded."""

    trace: Path
    folder: RunFolder | None
    """None for a trace by itself, of which no policy is known."""

    @classmethod
    def at(cls, path: Path) -> Self:
        """The run in a folder, or of a trace file; raises `RunFolderError` or `RecordedRolloutsError` where there is none."""
        if path.is_file():
            return cls(path, None)
        trace = path / "trace.sqlite"
        if not trace.is_file():
            folder = RunFolder.existing(path)
            raise RecordedRolloutsError(
                f"{folder.path} has no {trace.name}, so nothing is recorded there; name a run of `branchwise train`, or what "
                "`branchwise play --record` wrote"
            )
        return cls(trace, RunFolder(path) if RunFolder(path).config.is_file() else None)

    @property
    def has_policy(self) -> bool:
        """Whether the run keeps a policy that can be gone on from."""
        return self.folder is not None and bool(self.folder.policies())

    def agent(self) -> Agent | None:
        """The agent whose tokens were recorded; None where no policy of the run is kept, so that they cannot be read."""
        if self.folder is None or not self.has_policy:
            return None
        return configured_agent(self.folder.read_config().agent, load_tokenizer(self.folder.chosen_policy()[1]))

    def check(self, config: Config) -> None:
        """Raise at once where it is clear that nothing can be learned: no trees, or those of another environment."""
        trees = 0
        with Trace.open(self.trace, readonly=True) as trace:
            for summary in trace.trees():
                trees += 1
                if summary.env_id != config.env.id:
                    raise RecordedRolloutsError(
                        f"{self.trace} holds rollouts of {summary.env_id}, and this is about {config.env.id}; name another run with "
                        "--from, or another benchmark"
                    )
        if not trees:
            raise RecordedRolloutsError(
                f"{self.trace} holds no rollout; record some first, with `branchwise train` or `branchwise play --record`"
            )

    def candidates(self, config: Config, own_tokens: Callable[[Turn], int], said: Callable[[int], None]) -> tuple[list[Candidate], int]:
        """All rollouts that have an outcome, and how many were passed over because their tasks are measured.

        `said` is told the number of trees read so far. Rollouts that failed or were stopped without an outcome are no candidates.
        Raises `TraceError` where the trace is damaged.
        """
        found: list[Candidate] = []
        measured = 0
        with Trace.open(self.trace, readonly=True) as trace:
            for number, summary in enumerate(trace.trees(), 1):
                tree = trace.tree(summary.id)
                rollouts = list(_candidates(tree, summary.id, own_tokens))
                if _is_measured(tree, config):
                    measured += len(rollouts)
                else:
                    found += rollouts
                said(number)
        return found, measured

    def trees(self, chosen: list[Candidate]) -> Iterator[tuple[TrajectoryTree, list[int]]]:
        """The trees of the chosen rollouts, in the order of the trace, each with the last turns of its own."""
        leaves: dict[int, list[int]] = {}
        for candidate in chosen:
            leaves.setdefault(candidate.tree, []).append(candidate.leaf)
        with Trace.open(self.trace, readonly=True) as trace:
            for tree in leaves:
                yield trace.tree(tree), leaves[tree]

    def count(self) -> int:
        """How many trees there are."""
        with Trace.open(self.trace, readonly=True) as trace:
            return sum(1 for _ in trace.trees())


def _candidates(tree: TrajectoryTree, tree_id: int, own_tokens: Callable[[Turn], int]) -> Iterator[Candidate]:
    task = task_key(tree)
    for path in tree.rollouts():
        turns = [tree.turns[index] for index in path]
        if (reason := turns[-1].stop_reason) is None or reason.counts:
            score, tokens = sum(turn.reward for turn in turns), sum(map(own_tokens, turns))
            yield Candidate(tree_id, path[-1], task, score, turns[-1].success, tokens)


def _is_measured(tree: TrajectoryTree, config: Config) -> bool:
    """Whether the held-out tasks have this one: to learn from it would be to learn the answers."""
    first, count = config.evaluation.seed, config.evaluation.tasks
    return first <= tree.seed < first + count and tree.env_kwargs.get("split") == config.env.eval_split
