"""A mix is a weighted sum of methods: base + w * graph, or any number of terms, each exactly what its method gives alone.

    A = sum over terms of weight * A_term

`terms` is a sequence of terms, each the name of a method or a mapping {"method": name, "weight": w, **settings}, or one mapping from
names to weights; a weight is 1 unless given, and may be 0 or negative. A term may be a mix itself. As data:

    terms: [{method: grpo}, {method: salt, weight: 0.5, history: 1}]        terms: {grpo: 1.0, rtmc: 0.5}

It needs what any of its terms needs, allows a group of one where all of them do, and judges turns of unanimous groups where one of them
does: a term that does not adds exactly 0 there. Its diagnostics are those of its terms, each under "place.method.figure". Nothing is
normalised: terms on different scales (`grpo` is in deviations, `dr_grpo` and `rtmc` in rewards) are for the weights to balance.
Default: dr_grpo + rtmc, both in rewards. Source: reconstructed; the sum of GiGPO and of tree methods with a group term, made general.
Failed rollouts must be left out by the caller.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from credit.base import base_method, check_nesting
from credit.batch import Batch
from credit.errors import SettingError
from credit.moments import FloatArray
from credit.registry import Method
from credit.settings import Settings, number


@dataclass(frozen=True, slots=True)
class Term:
    """One method of a mix, with its settings and its weight."""

    method: Method
    weight: float


_WEIGHT = number(1.0, -1e100, 1e100).metadata["rule"]


@dataclass(frozen=True)
class MixSettings(Settings):
    terms: Any = ("dr_grpo", "rtmc")
    """What is added up, as said above; held as a tuple of `Term`s."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "terms", _terms(self.terms))


def mix(batch: Batch, settings: MixSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    return sum((term.weight * term.method.advantages(batch) for term in settings.terms), np.zeros(len(batch.reward_O)))


def mix_needs(settings: MixSettings) -> frozenset[str]:
    """What any term needs."""
    return frozenset().union(*(term.method.needs for term in settings.terms))


def mix_by_state(settings: MixSettings) -> bool:
    """Whether any term compares turns by their states."""
    return any(term.method.by_state for term in settings.terms)


def mix_lone(settings: MixSettings) -> bool:
    """Whether every term allows a group of one."""
    return all(term.method.lone for term in settings.terms)


def mix_judges_turns(settings: MixSettings) -> bool:
    """Whether any term judges the turns of unanimous groups."""
    return any(term.method.judges_turns for term in settings.terms)


def mix_diagnostics(batch: Batch, settings: MixSettings) -> dict[str, float]:
    """The figures of every term."""
    return {
        f"{place}.{term.method.name}.{name}": figure
        for place, term in enumerate(settings.terms)
        for name, figure in term.method.diagnostics(batch).items()
    }


def _terms(given: object) -> tuple[Term, ...]:
    check_nesting(given)
    if isinstance(given, Mapping):
        if "method" in given:
            raise SettingError("terms is one term; put it into a list, or give a mapping from names of methods to weights")
        given = [{"method": name, "weight": weight} for name, weight in given.items()]
    if not isinstance(given, Sequence) or isinstance(given, str | bytes) or not given:
        raise SettingError(f"terms is {given!r}; give a list of terms, or a mapping from names of methods to weights")
    return tuple(_term(term) for term in given)


def _term(given: object) -> Term:
    if isinstance(given, Term):
        return given
    if isinstance(given, str):
        return Term(base_method(given), 1.0)
    if not isinstance(given, Mapping) or "method" not in given:
        raise SettingError(
            f"terms has {given!r}; a term is the name of a method, or a mapping with method, weight and the method's settings"
        )
    settings = dict(given)
    weight = settings.pop("weight", 1.0)
    if not _WEIGHT.accepts(weight):
        raise SettingError(f"the weight of term {given['method']!r} is {weight!r}; allowed is {_WEIGHT.allowed}")
    return Term(base_method(settings), float(weight))
