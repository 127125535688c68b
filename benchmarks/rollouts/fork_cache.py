"""Figure 1: which share of a fork's prompt tokens an engine takes from its cache, at every turn of a household conversation.

A fork samples after the same prompt as the turn that it was forked from. Counted is what the engines say they computed of those prompts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from matplotlib.figure import Figure

from benchmarks.report import Row
from benchmarks.rollouts.engine_drive import Ids, forked_turns
from benchmarks.rollouts.household_talk import conversation
from benchmarks.rollouts.part import PartResult
from benchmarks.rollouts.pictures import fork_cache_picture
from benchmarks.rollouts.policies import Policy, never_stopping, policies, tiny_policy
from benchmarks.rollouts.vllm_process import BLOCK, VLLMError, as_lists, ask_vllm

ASKED = 0.95
"""Share that the engines should reach."""
_SEED = 11


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    tokens: int
    """The conversation goes on until a prompt has so many."""
    last_turns: int
    """Of SmolLM2 only so many turns are forked, the last ones; its conversation before them is one prompt. 0 leaves it out."""
    vllm: bool
    """Whether vLLM is measured, which takes a start of its own."""
    forks: int = 4
    """At each turn."""


FULL = Extent(tokens=1400, last_turns=6, vllm=True)
QUICK = Extent(tokens=1000, last_turns=0, vllm=False)
LONG = 800
"""Tokens from which on a prompt counts in the row of vLLM, which shares whole blocks only."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What one engine computed, turn by turn; axis K is the turns that were forked."""

    engine: str
    prompt_K: Sequence[int]
    """Tokens of one prompt."""
    asked_K: Sequence[int]
    """Prompt tokens of all forks of a turn."""
    computed_K: Sequence[int]
    """Those of `asked_K` that were computed."""
    alone_K: Sequence[int] | None = None
    """The same without sharing; None where it was not measured."""

    @property
    def share_K(self) -> list[float]:
        """Share from the cache, turn by turn."""
        return [1 - computed / asked for computed, asked in zip(self.computed_K, self.asked_K, strict=True)]

    def row(self, note: str) -> Row:
        """The share over all forks, against forks that share nothing."""
        asked, computed = sum(self.asked_K), sum(self.computed_K)
        alone = asked if self.alone_K is None else sum(self.alone_K)
        spread = f"least of a turn {100 * min(self.share_K):.2f} %; prompts of {min(self.prompt_K)} to {max(self.prompt_K)} tokens"
        told = f"{spread}; {note}; asked: {100 * ASKED:g} %; ratio: prompt tokens computed without sharing over those with it"
        return Row(f"fork from cache: {self.engine}", 100 * (1 - computed / asked), "%", 100 * (1 - alone / asked), alone / computed, told)


def measure(extent: Extent) -> PartResult:
    """All engines that there are."""
    found, left_out = policies() if extent.last_turns else ([tiny_policy()], ["forks of SmolLM2-135M: not in --quick"])
    measured = [of_transformers(policy, extent, whole=policy.name == "tiny") for policy in found]
    try:
        if not extent.vllm:
            raise VLLMError("not in --quick")
        measured.append(of_vllm(tiny_policy(), extent))
    except VLLMError as error:
        left_out.append(f"forks of vLLM: {error}")
    rows = [shares.row(_note(shares, extent)) for shares in measured]
    return PartResult(rows, lambda: _picture(measured), left_out=left_out)


def of_transformers(policy: Policy, extent: Extent, *, whole: bool) -> Shares:
    """`TransformersEngine`, with forks and without; `whole` forks every turn, else the last ones."""
    deltas = talk(policy, extent.tokens)
    if not whole:
        deltas = last_turns(deltas, extent.last_turns)
    engine = policy.engine(1 + extent.forks, sum(map(len, deltas)) + 8)
    counters = engine.counters

    def computed() -> int:
        return counters.prefilled_tokens

    with never_stopping(policy):
        shared = forked_turns(engine, deltas, extent.forks, computed)
        alone = forked_turns(engine, deltas, extent.forks, computed, share=False) if whole else None
    return _shares(f"transformers, {policy.name}", deltas, shared, alone)


def of_vllm(policy: Policy, extent: Extent) -> Shares:
    """`VLLMEngine`, at the turns with long prompts."""
    deltas = talk(policy, extent.tokens)
    job = {"forks": {"deltas": as_lists(deltas), "each": extent.forks}}
    found = ask_vllm(policy, sum(map(len, deltas)) + 8, job)["forks"]
    shares = _shares(f"vLLM, {policy.name}", deltas, found, None)
    kept = [place for place, prompt in enumerate(shares.prompt_K) if prompt >= LONG]
    chosen = {name: [getattr(shares, name)[place] for place in kept] for name in ("prompt_K", "asked_K", "computed_K")}
    return replace(shares, **chosen)


def talk(policy: Policy, tokens: int) -> list[Ids]:
    """Deltas of a household conversation, up to the first prompt of at least so many tokens."""
    deltas = conversation(policy.agent, _SEED, max(4, tokens // 8))
    lengths = list(accumulate(map(len, deltas)))
    enough = next((place for place, length in enumerate(lengths) if length >= tokens), len(deltas) - 1)
    return deltas[: enough + 1]


def last_turns(deltas: Sequence[Ids], turns: int) -> list[Ids]:
    """The same conversation, with all but its last turns as the first prompt."""
    cut = max(1, len(deltas) - turns + 1)
    return [np.concatenate(deltas[:cut]), *deltas[cut:]]


def _shares(engine: str, deltas: Sequence[Ids], shared: Sequence[Sequence[int]], alone: Sequence[Sequence[int]] | None) -> Shares:
    asked_K, computed_K = zip(*shared, strict=True)
    return Shares(engine, list(accumulate(map(len, deltas))), asked_K, computed_K, None if alone is None else [pair[1] for pair in alone])


def _note(shares: Shares, extent: Extent) -> str:
    if shares.engine.startswith("vLLM"):
        return f"{extent.forks} forks at each turn with a prompt of at least {LONG} tokens, blocks of {BLOCK}"
    measured = "measured" if shares.alone_K is not None else "all of the prompt"
    return f"{extent.forks} forks at each of {len(shares.prompt_K)} turns; without sharing: {measured}"


def _picture(measured: Sequence[Shares]) -> Figure:
    return fork_cache_picture([(shares.engine, shares.prompt_K, shares.share_K) for shares in measured], ASKED)
