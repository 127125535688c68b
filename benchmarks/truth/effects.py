"""Effects: one thing about the random layered process is varied at a time, and each point has its own flat `dr_grpo` to be held against."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.truth.catalog import start_policy
from benchmarks.truth.cell import draw_cell, start_of
from benchmarks.truth.entrants import FLAT, TREE, find
from benchmarks.truth.layered import random_layers
from benchmarks.truth.resample import Sure
from benchmarks.truth.scale import Scale
from benchmarks.truth.scores import turn_ratio
from benchmarks.truth.study import cosine_of, reference_cosine

SHOWN = ("dr_grpo", "rtmc", "gigpo", "salt", "graft_graph", "tree_mc", "tree_graph")


@dataclass(frozen=True, slots=True)
class Point:
    """One random layered process and how it is sampled."""

    rollouts: int = 16
    turns: int = 10
    width: int = 30
    noise: float = 0.0
    """Standard deviation of Gaussian noise on each outcome."""


BASE = Point()
EFFECTS: Mapping[str, tuple[str, tuple[Point, ...]]] = {
    "rollouts": ("rollouts' worth of turns in a group", tuple(Point(rollouts=n) for n in (4, 8, 16, 32))),
    "turns": ("turns of a rollout", tuple(Point(turns=n) for n in (5, 10, 25))),
    "width": ("states a layer, from many merges to few", tuple(Point(width=n) for n in (4, 10, 30, 100, 300))),
    "noise": ("standard deviation of the noise on outcomes", tuple(Point(noise=s) for s in (0.0, 0.5, 1.0))),
}
"""By the field of `Point` that varies: what it means, and its points; `BASE` is one of each."""
POINTS = tuple(dict.fromkeys(point for _, points in EFFECTS.values() for point in points))


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """What was measured at one point."""

    point: Point
    merge_rate: float
    """Of flat samples; see `Cell.merge_rate`."""
    cosine: Sure
    """Of flat `dr_grpo`."""
    ratio: dict[str, dict[str, Sure]]
    """By entrant and layout."""


def effect(point: Point, scale: Scale) -> Effect:
    """Measure one point."""
    starts = []
    for seed in range(scale.draws):
        process = random_layers("layers", "an effect", seed, width=point.width, turns=point.turns, share=0.5, tags=set())
        starts.append(start_of(seed, process, start_policy(process, seed)))
    cells = {
        layout: draw_cell(f"{point}", starts, layout, scale.effects, rollouts=point.rollouts, reward_noise=point.noise)
        for layout in (FLAT, TREE)
    }
    reference = reference_cosine(cells[FLAT])
    ratio = {
        entrant.label: {layout: turn_ratio(cosine_of(cells[layout], entrant), reference) for layout in entrant.layouts()}
        for entrant in find(*SHOWN)
    }
    return Effect(point, cells[FLAT].merge_rate, reference, ratio)
