"""The list of what is measured: every registered estimator at least once, with the settings that it recommends.

An estimator enters on the layouts that it is made for: those of the tree family on trees alone, as on flat groups they equal a flat
method (all but `tree_graph`, which merges flat rollouts as well); all others on both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.truth.cell import Cell
from benchmarks.truth.process import FloatArray
from credit import methods, resolve
from credit.registry import Family
from credit.tree_graph import TreeGraphSettings, tree_graph

FLAT, TREE = "none", "entropy"
"""The branching rules of the two layouts."""
EXACT = "exact A"
"""No estimator but the truth: what sampling alone costs."""
REFERENCE = "dr_grpo"
"""On flat samples the measure of all."""
NOTES = {
    "settings": "the defaults of each method, but for what the name says",
    "tree_graph": "in batches of 8 tasks, one group of each draw, that share variances; `alone` shares nothing",
    "reinforce_pp, gdpo, empg": "normalised over all groups of the cell",
}


@dataclass(frozen=True)
class Entrant:
    """An estimator with settings, under the name that tables show."""

    label: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    critic: str | None = None
    """Quality of the critic whose values it reads (see `inputs.CRITICS`)."""
    advantages: Callable[[Cell], FloatArray] | None = None
    """Used in place of the registered method, where that needs more than the batch."""

    also_flat: bool = False
    """Whether a method of the tree family says more than a flat method on flat samples, too."""

    @property
    def family(self) -> Family:
        """What its advantages are made of."""
        return resolve(self.method, self.settings).estimator.family

    def layouts(self) -> tuple[str, ...]:
        """The layouts on which it enters."""
        return (TREE,) if self.family == "tree" and not self.also_flat else (FLAT, TREE)

    def on(self, cell: Cell) -> FloatArray:
        """Advantage of each row, shape (O,)."""
        if self.advantages is not None:
            return cell.batch.per_node(self.advantages(cell))
        batch = cell.batch
        if self.critic is not None:
            batch = replace(batch, extra={**batch.extra, "value": cell.values[self.critic]})
        return resolve(self.method, self.settings).advantages(batch)


def entrants() -> list[Entrant]:
    """All that is measured, by family."""
    plain = [Entrant(name, name) for name in methods() if name not in ("gae", "tree_graph")]
    more = [
        Entrant("tree_mc + group", "tree_mc", {"group_weight": 1.0}),
        Entrant("gae, good critic", "gae", critic="good critic"),
        Entrant("gae, poor critic", "gae", critic="poor critic"),
        Entrant("tree_graph, alone", "tree_graph", {"pooled": False}, also_flat=True),
        Entrant("tree_graph", "tree_graph", advantages=_in_training_batches, also_flat=True),
    ]
    order: list[Family] = ["trajectory", "graph", "tree", "turn"]
    return sorted([*plain, *more], key=lambda entrant: (order.index(entrant.family), entrant.method))


def find(*labels: str) -> list[Entrant]:
    """The entrants of these labels, in this order."""
    known = {entrant.label: entrant for entrant in entrants()}
    return [known[label] for label in labels]


def _in_training_batches(cell: Cell) -> FloatArray:
    """`tree_graph` as in a run, where the tasks of a batch share what is known of variances: here one group of each draw."""
    return tree_graph(cell.batch, TreeGraphSettings(), cell.pool_T)
