"""An iteration's trees, round by round: which shard grew each, and which are learned from."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tree_rollout.sampler_report import SamplerReport
from tree_rollout.task import Task
from tree_rollout.task_choice import Refill
from tree_rollout.tree import TrajectoryTree


@dataclass(slots=True)
class SampledTrees:
    """All that an iteration sampled; trees stand in the order of their tasks."""

    tasks: list[Task] = field(default_factory=list)
    trees: list[TrajectoryTree] = field(default_factory=list)
    shards: list[int] = field(default_factory=list)
    """For each tree, the shard that grew it."""
    reports: list[SamplerReport] = field(default_factory=list)
    chosen: Sequence[int] = ()
    """Places among `trees` of those that are learned from."""
    figures: dict[str, float] = field(default_factory=dict)
    """What dynamic sampling did; empty without it."""

    def add(self, tasks: Sequence[Task], reports_S: Sequence[SamplerReport]) -> None:
        """Take in a round: task i is tree i // S of shard i % S."""
        shards = len(reports_S)
        for index in range(len(tasks)):
            shard = index % shards
            self.trees.append(reports_S[shard].trees[index // shards])
            self.shards.append(shard)
        self.tasks += tasks
        self.reports += reports_S
        self.chosen = range(len(self.trees))

    def refilled(self, outcome: Refill) -> int:
        """Keep what dynamic sampling chose so far; how many tasks to draw next."""
        self.chosen = outcome.chosen
        self.figures = {
            "drawn_trees": outcome.drawn,
            "kept_trees": outcome.kept,
            "dropped_solved": outcome.dropped_solved,
            "dropped_unsolved": outcome.dropped_unsolved,
            "dropped_small": outcome.dropped_small,
            "refill_cap_reached": float(outcome.cap_reached),
        }
        return outcome.draw
