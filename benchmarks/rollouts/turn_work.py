"""Figure 5: what a turn costs does not depend on how many turns came before it.

Rollouts of many turns of one size run in lockstep. Tokens are counted. Of the time, the sampler's (with context, parsing and environment)
is what passes between two engine calls; the engine's is held against the same turn of a sequence as long that had no turns before, since
attention to more tokens takes longer however they came about. Seconds are those that the process spends computing.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

from agents import Agent, TransformersEngine, TurnTemplate
from agents.engine import Sample, SampleRequest
from benchmarks.report import Row, measured
from benchmarks.rollouts.paced_env import PACED, make_paced
from benchmarks.rollouts.part import PartResult
from benchmarks.rollouts.pictures import turn_work_picture
from benchmarks.rollouts.policies import Policy, never_stopping, one_thread, tiny_policy
from tree_rollout import Sampler, SamplerSettings, Task

_TOKENS = 8
"""Of each turn."""
_ROOM = 64
"""Tokens that a turn with its observation takes, at most."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    turns: int
    early: tuple[int, int]
    """Turns from the first to the second (not included), counted from 0, that later ones are held against."""
    late: tuple[int, int]
    repeats: int
    rollouts: int
    probes: int
    """Turns in each of the two ranges that are compared with a sequence that had no turns."""


FULL = Extent(turns=128, early=(8, 32), late=(96, 127), repeats=3, rollouts=8, probes=6)
QUICK = Extent(turns=128, early=(8, 32), late=(96, 127), repeats=1, rollouts=2, probes=2)


@dataclass(slots=True)
class TurnCost:
    """What one turn of all rollouts took."""

    given: int
    """Tokens that the sampler gave to the engine."""
    prefilled: int
    """Tokens that the engine computed before it sampled."""
    length: int
    """Tokens of the first sequence before the turn."""
    delta: int
    """Tokens that the first sequence was given."""
    engine_s: float = 0.0
    encoded: int = 0
    """Tokens that text was turned into, after the turn and before the next."""
    sampler_s: float = 0.0
    """Seconds from the end of the turn to the beginning of the next."""


@dataclass(slots=True)
class Tally:
    """Tokens that text was turned into."""

    tokens: int = 0


class ClockedEngine(TransformersEngine):
    """Writes down what each turn took."""

    def __init__(self, policy: Policy, rows: int, max_length: int, tally: Tally) -> None:
        super().__init__(policy.model, policy.agent.stop_ids, max_length=max_length, rows=rows)
        self.costs: list[TurnCost] = []
        self._tally = tally
        self._left, self._encoded = 0.0, 0
        """When the turn before ended, and what was encoded until then."""

    def generate(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        """The next turn of all rollouts."""
        came = time.process_time()
        if self.costs:
            self.costs[-1].sampler_s, self.costs[-1].encoded = came - self._left, self._tally.tokens - self._encoded
        length, prefilled = self.length(requests[0].handle), self.counters.prefilled_tokens
        began = time.process_time()
        samples = super().generate(requests)
        self._left, self._encoded = time.process_time(), self._tally.tokens
        given = sum(len(request.ids_T) for request in requests)
        prefilled = self.counters.prefilled_tokens - prefilled
        self.costs.append(TurnCost(given, prefilled, length, len(requests[0].ids_T), self._left - began))
        return samples


@dataclass(frozen=True, slots=True)
class CountingTemplate(TurnTemplate):
    """Counts every text that is encoded."""

    tally: Tally = field(default_factory=Tally)

    def encode_text(self, text: str) -> npt.NDArray[np.int32]:
        """The ids of a text alone."""
        ids_T = TurnTemplate.encode_text(self, text)
        self.tally.tokens += len(ids_T)
        return ids_T


@dataclass(frozen=True, slots=True)
class Run:
    """One call; the axis K is the turns but the last, whose sampler time nobody sees the end of."""

    costs_K: Sequence[TurnCost]
    net: tuple[Sequence[float], Sequence[float]]
    """Engine seconds of a probed turn over those without turns before, early and late."""
    rollouts: int

    def values(self, name: str, turns: tuple[int, int]) -> list[float]:
        """One rollout's share of a cost in a range of turns."""
        return [getattr(cost, name) / self.rollouts for cost in self.costs_K[slice(*turns)]]


def measure(extent: Extent) -> PartResult:
    """`repeats` calls of all turns."""
    policy = tiny_policy()
    with one_thread(), never_stopping(policy):
        runs = [run(policy, extent, seed) for seed in range(extent.repeats)]
    return PartResult(rows(runs, extent), lambda: turn_work_picture(curves(runs), extent.early, extent.late))


def run(policy: Policy, extent: Extent, run_seed: int) -> Run:
    """One call, then the probes."""
    tally = Tally()
    agent = _counting(policy.agent, tally)
    max_length = _ROOM * (extent.turns + 1)
    engine = ClockedEngine(policy, extent.rollouts, max_length, tally)
    settings = SamplerSettings.plain(extent.turns, _TOKENS)
    tasks = [Task(PACED, seed, {"turns": extent.turns}) for seed in range(extent.rollouts)]
    with Sampler(engine, make_paced, agent, settings) as sampler:
        sampler.sample(tasks, run_seed=run_seed)
    costs_K = engine.costs[:-1]
    early, late = ([_net(policy, costs_K, turn, extent.rollouts, max_length) for turn in _spread(*turns, extent.probes)]
                   for turns in (extent.early, extent.late))  # fmt: skip
    return Run(costs_K, (early, late), extent.rollouts)


def _counting(agent: Agent, tally: Tally) -> Agent:
    template = agent.template
    return replace(agent, template=CountingTemplate(**{each.name: getattr(template, each.name) for each in fields(template)}, tally=tally))


def _spread(first: int, end: int, count: int) -> list[int]:
    """Turns in the middle of `count` equal parts of a range."""
    return [first + (2 * place + 1) * (end - first) // (2 * count) for place in range(count)]


def _net(policy: Policy, costs_K: Sequence[TurnCost], turn: int, rollouts: int, max_length: int) -> float:
    """Engine seconds of a turn over those of the same turn of sequences as long that were given at once; medians of three turns."""
    around = costs_K[turn - 1 : turn + 2]
    engine = policy.engine(rollouts, max_length)
    handles = [engine.start() for _ in range(rollouts)]
    rng = np.random.default_rng(turn)
    vocab = policy.model.config.get_text_config().vocab_size

    def ask(count: int, tokens: int, stage: int) -> float:
        requests = [
            SampleRequest(handle, rng.integers(vocab, size=count).astype(np.int32), (stage, place), tokens)
            for place, handle in enumerate(handles)
        ]
        began = time.process_time()
        engine.generate(requests)
        return time.process_time() - began

    ask(around[0].length - 1, 1, 0)
    alone = [ask(cost.delta, _TOKENS, 1 + place) for place, cost in enumerate(around)]
    return float(np.median([cost.engine_s for cost in around]) / np.median(alone))


def rows(runs: Sequence[Run], extent: Extent) -> list[Row]:
    """Late turns against early ones; net engine time against sequences without turns."""
    ranges = " to ".join(str(turn) for turn in extent.early), " to ".join(str(turn) for turn in extent.late)
    against = f"turns {ranges[1]}; baseline: turns {ranges[0]}; {len(runs)} calls of {extent.rollouts} rollouts"
    found = []
    for name, (attribute, scale, unit, what) in _MEASURES.items():
        early, late = ([scale * value for each in runs for value in each.values(attribute, turns)] for turns in (extent.early, extent.late))
        found.append(measured(f"{name} of a turn", late, unit, better="lower", baseline=early, note=f"{what}; {against}"))
    early, late = ([value for each in runs for value in each.net[place]] for place in range(2))
    note = f"over that of the same turn of a sequence as long that was given at once, without turns before; {against}"
    found.append(measured("engine time of a turn, net of length", late, "x", better="lower", baseline=early, note=note))
    length = [float(cost.length) for each in runs for cost in each.costs_K[slice(*extent.late)]]
    encoded = [value for each in runs for value in each.values("encoded", extent.late)]
    note = f"turns {ranges[1]}; baseline: the whole conversation again"
    return [*found, measured("tokens encoded, against encoding all again", encoded, "tokens", better="lower", baseline=length, note=note)]


_MEASURES = {
    "sampler time": ("sampler_s", 1e6, "us", "sampler, context, parsing and an environment that does nothing"),
    "tokens encoded": ("encoded", 1.0, "tokens", "text that became ids"),
    "tokens given to the engine": ("given", 1.0, "tokens", "the observation with what the template writes around it"),
    "tokens prefilled": ("prefilled", 1.0, "tokens", "the same and the last token that was sampled"),
    "engine time": ("engine_s", 1e3, "ms", "with the attention to a sequence that grows"),
}
"""By name: attribute of `TurnCost`, scale, unit, and what it is."""


def curves(runs: Sequence[Run]) -> dict[str, npt.NDArray[np.float64]]:
    """Medians over the calls for each turn, relative to nothing: (unit in the name)."""
    shown = {
        "sampler time (us)": ("sampler_s", 1e6),
        "engine time (ms)": ("engine_s", 1e3),
        "tokens encoded": ("encoded", 1.0),
        "tokens prefilled": ("prefilled", 1.0),
    }
    whole = (0, len(runs[0].costs_K))
    return {
        name: np.median([[scale * value for value in each.values(of, whole)] for each in runs], axis=0)
        for name, (of, scale) in shown.items()
    }
