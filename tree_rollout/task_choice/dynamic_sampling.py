"""Groups whose rollouts all ended alike are dropped and replaced by other tasks, until enough are kept or the cap is reached.

Pure: the caller draws and samples the tasks, and asks after each round what comes next. A group is a task's tree; it ends alike when the
spread of its returns is within rounding (`TaskOutcomes.unanimous`). Source: dynamic sampling of DAPO (arXiv 2503.14476).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tree_rollout.branching.options import check_count
from tree_rollout.errors import TaskChoiceError
from tree_rollout.rule_table import refused_as
from tree_rollout.task_outcomes import TaskOutcomes
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class Refill:
    """What to do after a round, and what came of the groups so far."""

    draw: int
    """Tasks to draw in the next round; 0 when nothing more is to be sampled."""
    chosen: tuple[int, ...]
    """Places of the groups to learn from, in their order; at most as many as wanted."""
    drawn: int
    kept: int
    """Groups with unlike returns, also those beyond what was wanted."""
    dropped_solved: int
    """Groups in which all rollouts ended alike and every one was solved."""
    dropped_unsolved: int
    """Groups in which they ended alike otherwise."""
    dropped_small: int
    """Groups with less than two rollouts that have an outcome; nothing can be said of them."""
    cap_reached: bool
    """Whether the cap ended it with fewer kept than wanted."""


def refill(wanted: int, groups: Sequence[TrajectoryTree | TaskOutcomes], drawn: int, cap: int, *, fill_up: bool = False) -> Refill:
    """After each round: how many tasks to draw next, and which groups to learn from so far.

    wanted: groups to learn from, at least 1.
    groups: all groups of all rounds so far, in the order in which they were drawn.
    drawn: tasks drawn so far, at least as many as groups (a task whose sampling was given up has none).
    cap: tasks to draw in all, at least `wanted`.
    fill_up: once the cap is reached, take unanimous groups too, the earliest first, until `wanted` are chosen (small ones never).
    A round draws as many as would do if as large a share is kept as so far: missing * drawn / kept, rounded up; at most `wanted`, which is
    also what it draws while none was kept, and up to the cap.
    """
    with refused_as(TaskChoiceError):
        check_count("wanted", wanted, 1, 16)
        check_count("drawn", drawn, len(groups), len(groups) or 1)
        check_count("cap", cap, wanted, 4 * wanted)
    if drawn > cap:
        raise TaskChoiceError(f"{drawn} tasks were drawn, and the cap is {cap}; draw no more than `Refill.draw`")
    seen = [group if isinstance(group, TaskOutcomes) else TaskOutcomes.of(group) for group in groups]
    small = [place for place, group in enumerate(seen) if group.rollouts < 2]
    kept = [place for place, group in enumerate(seen) if group.rollouts >= 2 and not group.unanimous]
    alike = [place for place, group in enumerate(seen) if group.rollouts >= 2 and group.unanimous]
    solved = sum(seen[place].all_solved for place in alike)
    missing = wanted - len(kept)
    draw = min(_next_round(wanted, missing, len(kept), drawn), cap - drawn)
    over = missing > 0 and draw == 0
    chosen = kept[:wanted] + (alike[:missing] if over and fill_up else [])
    return Refill(draw, tuple(sorted(chosen)), drawn, len(kept), solved, len(alike) - solved, len(small), over)


def _next_round(wanted: int, missing: int, kept: int, drawn: int) -> int:
    """Tasks to draw without regard to the cap."""
    if missing <= 0:
        return 0
    return min(-(-missing * drawn // kept), wanted) if kept else wanted
