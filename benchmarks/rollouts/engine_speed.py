"""Figure 3: tokens per second of the transformers engine against plain `generate`, for turns of equal and of uneven length.

Equal turns fill one batch. Uneven ones have a heavy tail and a backlog: an engine takes up the next as soon as one ends, `generate` takes
them in batches that run until their longest ends. The stop token is never drawn, so that both sample the same lengths. Rates are those
of one core: sampled tokens over the seconds that the process computes with one thread, prompts included. The two sides run in turns, and
which is first changes from pair to pair; how many times as fast the engine is, is the median over pairs, so that a machine that is busy
for a while slows both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.report import Estimate, Row, estimate, measured, shown
from benchmarks.rollouts.engine_drive import Ids, flood
from benchmarks.rollouts.part import PartResult
from benchmarks.rollouts.pictures import engine_speed_picture
from benchmarks.rollouts.plain_generate import plain_generate
from benchmarks.rollouts.policies import Policy, never_stopping, one_thread, policies, tiny_policy
from benchmarks.rollouts.vllm_process import VLLMError, as_lists, ask_vllm

ASKED = {"equal": 1.0, "uneven": 1.5}
"""How many times as fast as `generate` the engine should be, where turns are sampled side by side."""
_ALONE = "1x, since with one turn at a time no other turn can take the place of one that has ended"
"""Asked of uneven turns one at a time."""
_SEED = 5
_VLLM_REPEATS = 3
"""At most: it is shown beside the others, and nothing is asked of it."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one model is given."""

    repeats: Mapping[int, int]
    """By how many turns are sampled at once: how often it is measured."""
    prompt: int
    """Tokens of an equal prompt; uneven ones have half as many to one and a half times as many."""
    equal: int
    """Tokens of an equal turn."""
    median: float
    """Of the uneven turns; their logarithms are normal with a deviation of 1."""
    longest: int
    shortest: int = 4
    backlog: int = 4
    """Uneven turns per turn that is sampled at once."""
    vllm: bool = True
    """Whether vLLM is measured beside them, which takes a start of its own."""


FULL = {
    "tiny": Load({1: 31, 8: 21, 32: 11, 128: 5}, prompt=64, equal=48, median=14, longest=128),
    "SmolLM2-135M": Load({1: 9, 8: 7, 32: 5}, prompt=16, equal=16, median=5, longest=24, shortest=2),
}
QUICK = {"tiny": Load({1: 3, 8: 1, 32: 1}, prompt=32, equal=24, median=8, longest=64, vllm=False)}


@dataclass(frozen=True, slots=True)
class Work:
    """Turns to sample, and how many at once."""

    shape: str
    slots: int
    prompts: Sequence[Ids]
    limits: Sequence[int]


@dataclass(frozen=True, slots=True)
class Speed:
    """Rates of one kind of work, in tokens per CPU second, a value for each repeat."""

    model: str
    work: Work
    ours: Sequence[float]
    plain: Sequence[float]
    vllm: Sequence[float] = ()

    def rows(self) -> list[Row]:
        """Ours against `generate`, and vLLM against `generate`."""
        name = f"{self.work.shape} turns, {self.work.slots} at once, {self.model}"
        longest, mean = max(self.work.limits), float(np.mean(self.work.limits))
        turns = f"{len(self.work.limits)} turns of {shown(mean)} tokens in the mean, {longest} at most; baseline: generate of transformers"
        asked = _ALONE if self.work.shape == "uneven" and self.work.slots == 1 else f"{ASKED[self.work.shape]:g}x"
        ours, plain, ratio = estimate(self.ours), estimate(self.plain), self.ratio
        note = f"{turns}; asked: {asked}; ratio: {ratio}, tokens/s: {ours}"
        found = [Row(f"transformers: {name}", ours.median, "tokens/s", plain.median, ratio.median, note)]
        if self.vllm:
            found.append(measured(f"vLLM: {name}", self.vllm, "tokens/s", better="higher", baseline=self.plain, note=turns))
        return found

    @property
    def ratio(self) -> Estimate:
        """How many times as fast as `generate` the engine is, of the pairs that were measured one after the other."""
        return estimate([ours / plain for ours, plain in zip(self.ours, self.plain, strict=True)])

    @property
    def vllm_ratio(self) -> float:
        """How many times as fast as `generate` vLLM is, which runs in a process of its own at another time."""
        return estimate(self.vllm).median / estimate(self.plain).median


def measure(loads: Mapping[str, Load]) -> PartResult:
    """All models that there are and that `loads` names."""
    found, left_out = policies() if len(loads) > 1 else ([tiny_policy()], ["speed of SmolLM2-135M: not in --quick"])
    speeds: list[Speed] = []
    for policy in found:
        if policy.name in loads:
            measured_speeds, missing = of_policy(policy, loads[policy.name])
            speeds += measured_speeds
            left_out += missing
    return PartResult([row for speed in speeds for row in speed.rows()], lambda: engine_speed_picture(speeds), left_out=left_out)


def of_policy(policy: Policy, load: Load) -> tuple[list[Speed], list[str]]:
    """Every kind of work, engine and `generate` in turns; then vLLM in a process of its own."""
    works = [work(policy, load, shape, slots) for shape in ASKED for slots in load.repeats]
    with one_thread(), never_stopping(policy):
        pairs = [_paired(policy, each, load.repeats[each.slots]) for each in works]
    vllm, missing = _vllm(policy, load, works) if load.vllm else ([[]] * len(works), ["speed of vLLM: not in --quick"])
    return [Speed(policy.name, each, *pair, rates) for each, pair, rates in zip(works, pairs, vllm, strict=True)], missing


def work(policy: Policy, load: Load, shape: str, slots: int) -> Work:
    """The same turns each time."""
    rng = np.random.default_rng([_SEED, slots])
    vocab = policy.model.config.get_text_config().vocab_size
    turns = slots if shape == "equal" else slots * load.backlog
    if shape == "equal":
        lengths, limits = np.full(turns, load.prompt), np.full(turns, load.equal)
    else:
        lengths = rng.integers(load.prompt // 2, load.prompt * 3 // 2 + 1, size=turns)
        limits = np.clip(np.rint(load.median * np.exp(rng.standard_normal(turns))), load.shortest, load.longest).astype(np.int64)
    prompts = [rng.integers(vocab, size=length).astype(np.int32) for length in lengths]
    return Work(shape, slots, prompts, limits.tolist())


def _paired(policy: Policy, each: Work, repeats: int) -> tuple[list[float], list[float]]:
    """Rates of the engine and of `generate`, measured in turns; both have run once before."""
    longest = max(map(len, each.prompts)) + max(each.limits)
    engine = policy.engine(each.slots, longest)
    ways: tuple[Callable[[], tuple[int, float]], ...] = (
        lambda: flood(engine, each.prompts, each.limits, each.slots),
        lambda: plain_generate(policy, each.prompts, each.limits, each.slots),
    )
    few = slice(0, min(each.slots, 4))
    flood(engine, each.prompts[few], [2] * len(each.prompts[few]), each.slots)
    plain_generate(policy, each.prompts[few], [2] * len(each.prompts[few]), each.slots)
    rates: tuple[list[float], list[float]] = ([], [])
    for repeat in range(repeats):
        for side in (0, 1) if repeat % 2 == 0 else (1, 0):
            rates[side].append(_rate(*ways[side]()))
    return rates


def _rate(tokens: int, seconds: float) -> float:
    return tokens / seconds


def _vllm(policy: Policy, load: Load, works: Sequence[Work]) -> tuple[list[list[float]], list[str]]:
    floods: list[dict[str, Any]] = [
        {
            "prompts": as_lists(each.prompts),
            "limits": list(each.limits),
            "slots": each.slots,
            "repeats": min(_VLLM_REPEATS, load.repeats[each.slots]),
        }
        for each in works
    ]
    longest = max(len(prompt) for each in works for prompt in each.prompts) + load.longest + load.equal
    try:
        answers = ask_vllm(policy, longest, {"floods": floods})["floods"]
    except VLLMError as error:
        return [[] for _ in works], [f"vLLM's tokens per second, {policy.name}: {error}"]
    return [[_rate(tokens, seconds) for tokens, seconds in answer] for answer in answers], []
