"""Several signatures are compared on the same recorded trees, read once and one task at a time; nothing is sampled anew.

Forks that were added to a tree afterwards are left out: another policy may have made them, and the run learned nothing from them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.errors import RunFolderError
from trainer.progress import Progress
from tree_rollout.collisions import Place
from tree_rollout.exact_states import ExactStates, sample_tasks
from tree_rollout.signature_report import SignatureReport, SignatureTally
from tree_rollout.signatures import Signature
from tree_rollout.state_graph import task_key
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_summary import TreeSummary


@dataclass(frozen=True, slots=True)
class Replayed:
    """How exact states were come by."""

    tasks: int
    """Tasks that were drawn for it."""
    turns: int
    """Turns of their rollouts that did not fail."""
    known: int
    """Those that came out as recorded, so that the snapshot before them is their exact state."""
    trouble: str | None
    """Why snapshots are not compared (after this many turns); None where they are."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What several signatures make of the same trees."""

    trees: int
    tasks: int
    rollouts: int
    reports: tuple[SignatureReport, ...]
    """The run's own signature first."""
    replayed: Replayed

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        counts = {"trees": self.trees, "tasks": self.tasks, "rollouts": self.rollouts}
        replayed = {name: getattr(self.replayed, name) for name in ("tasks", "turns", "known", "trouble")}
        return {**counts, "replayed": replayed, "signatures": [report.as_json() for report in self.reports]}


def compare_signatures(
    trace: Trace, signatures: Mapping[str, Signature], progress: Progress, *, tree: int | None = None, samples: int = 2000, seed: int = 0
) -> Comparison:
    """Report `signatures` (by label) on all trees of the trace, or on the tree of that id.

    `samples` is how many turns may be executed again to learn their exact states, in tasks drawn by `seed`; 0 executes none.
    """
    summaries = _chosen(trace, tree)
    tasks: dict[str, list[TreeSummary]] = {}
    for summary in summaries:
        tasks.setdefault(task_key(summary), []).append(summary)
    drawn = sample_tasks({task: sum(summary.turns for summary in members) for task, members in tasks.items()}, samples, seed)
    exact, tallies = ExactStates(), [SignatureTally(signature, label) for label, signature in signatures.items()]
    progress.stage("reading trees", total=len(summaries))
    done = turns = 0
    for task, members in tasks.items():
        trees = [trace.tree(summary.id, forks=False) for summary in members]
        known = _exact_states(exact, trees) if task in drawn else {}
        for tally in tallies:
            tally.add(trees, [summary.id for summary in members], known)
        done, turns = done + len(members), turns + sum(summary.turns for summary in members)
        progress.update(done, turns=turns)
    replayed = Replayed(len(drawn), exact.turns, exact.known, exact.trouble)
    reports = tuple(tally.report(seed) for tally in tallies)
    return Comparison(len(summaries), len(tasks), sum(summary.rollouts for summary in summaries), reports, replayed)


def _chosen(trace: Trace, tree: int | None) -> list[TreeSummary]:
    summaries = list(trace.trees())
    if not summaries:
        raise RunFolderError(f"{trace.path} holds no tree yet; train first")
    if tree is None:
        return summaries
    chosen = [summary for summary in summaries if summary.id == tree]
    if not chosen:
        trace.tree(tree)  # Raises the error that says which trees there are.
    return chosen


def _exact_states(exact: ExactStates, trees: Sequence[TrajectoryTree]) -> dict[Place, str]:
    return {(number, turn): digest for number, tree in enumerate(trees) for turn, digest in exact.of(tree).items()}
