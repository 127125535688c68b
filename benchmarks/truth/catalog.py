"""One table from name to decision process, and for each a start policy from which there is something to learn.

All processes are constructions of this project.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.truth.chain import idle_chain
from benchmarks.truth.errors import ProcessError, UnknownNameError
from benchmarks.truth.exact import solve
from benchmarks.truth.history import with_last_action
from benchmarks.truth.key_door import key_door
from benchmarks.truth.layered import decisive_turn, merge_classes, random_layers, stochastic_layers
from benchmarks.truth.micro_household import micro_household
from benchmarks.truth.policy import HISTORY, POLICIES, Policy
from benchmarks.truth.process import Process
from benchmarks.truth.stopping import collect_or_stop
from credit.errors import nearest

SUCCESS = (0.05, 0.9)
"""What a start policy earns in expectation, least and most."""
_OWN_SUCCESS = {"household": (0.2, 0.4)}
LEAST_GRADIENT = 0.01
"""Norm of a start policy's gradient, at least."""

_POLICY_STREAM = 3
_DRAWS = 1000

Builder = Callable[[int], Process]
"""Makes the process of a seed."""


def _named(builder: Callable[..., Process], name: str, doc: str, **settings: object) -> tuple[str, Builder]:
    return name, partial(_build, builder, name, doc, settings)


def _build(builder: Callable[..., Process], name: str, doc: str, settings: dict[str, object], seed: int) -> Process:
    return builder(name, doc, seed, **settings)


def _merged(name: str, classes_of: int) -> tuple[str, Builder]:
    return f"{name}_merge{classes_of}", partial(_build_merged, name, classes_of)


def _build_merged(name: str, classes_of: int, seed: int) -> Process:
    return merge_classes(_EXACT[name](seed), classes_of, seed)


_LAYERED = (
    _named(random_layers, "random_w4", "merges common: 4 states a layer", width=4, turns=10, share=0.5, tags={"merges"}),
    _named(random_layers, "random_w30", "merges rarer: 30 states a layer", width=30, turns=10, share=0.5, tags=set()),
    _named(random_layers, "random_w200", "almost no merges, rare success: 200 states a layer", width=200, turns=10, share=0.1, tags=set()),
    _named(random_layers, "random_long", "25 turns, 30 states a layer", width=30, turns=25, share=0.5, tags={"long"}),
    _named(decisive_turn, "first_w4", "the first turn decides, then 2 x 4 states a layer", width=4, turns=10, turn=0, tags={"merges"}),
    _named(decisive_turn, "first_w200", "the first turn decides, then 2 x 200 states a layer", width=200, turns=10, turn=0, tags=set()),
    _named(decisive_turn, "middle_w30", "the sixth turn of ten decides, 30 states a layer", width=30, turns=10, turn=5, tags=set()),
    _named(decisive_turn, "last_w30", "the last turn of ten decides, 30 states a layer", width=30, turns=10, turn=9, tags=set()),
)
_OTHERS = (
    _named(
        stochastic_layers, "stochastic_w10", "an action succeeds 7 times in 10", width=10, turns=12, sure=0.7, tags={"merges", "stochastic"}
    ),
    _named(key_door, "key_door", "a key, a door, a goal: few states, met again and again"),
    _named(micro_household, "household", "a household of all its states: most actions are of no use"),
    _named(collect_or_stop, "stopping", "the policy chooses when to stop: turns of equal index are of survivors"),
    _named(idle_chain, "idle_chain", "needed steps, no-ops and a turn limit: values must know the time left"),
)
_EXACT: dict[str, Builder] = dict(_LAYERED)

CATALOG: dict[str, Builder] = {
    **_EXACT,
    **dict(_merged(name, size) for name in ("random_w30", "random_long", "first_w200", "middle_w30") for size in (2, 5)),
    **dict(_OTHERS),
}
"""The processes by name; each makes the process of a seed."""


def build(name: str, seed: int) -> Process:
    """The process of that name and seed."""
    if name not in CATALOG:
        raise UnknownNameError(f"no process is called {name!r}; {nearest(name, CATALOG)}")
    return CATALOG[name](seed)


def problem(name: str, seed: int, policy: str = "tabular") -> tuple[Process, Policy]:
    """The process of that name and seed, and a start policy for it; with the policy "history" its states hold the last action as well.

    A policy does not depend on the signatures, so a misleading process has the policy of its exact twin.
    """
    if policy not in POLICIES:
        raise UnknownNameError(f"no policy is called {policy!r}; {nearest(policy, POLICIES)}")
    process = build(name, seed)
    process = with_last_action(process) if policy == HISTORY else process
    return process, start_policy(process, seed, policy, _OWN_SUCCESS.get(name, SUCCESS))


def start_policy(process: Process, seed: int, policy: str = "tabular", success: tuple[float, float] = SUCCESS) -> Policy:
    """A policy that earns between the two numbers of `success`, and has something to learn (`LEAST_GRADIENT`).

    Its noise is drawn again, from the same seed, until that holds.
    """
    rng = np.random.default_rng([seed, _POLICY_STREAM])
    for _ in range(_DRAWS):
        drawn = POLICIES[policy](process, rng)
        solution = solve(process, drawn)
        if success[0] <= solution.value <= success[1] and np.linalg.norm(solution.gradient_D) >= LEAST_GRADIENT:
            return drawn
    raise ProcessError(f"no start policy of {process.name!r} with seed {seed} both succeeds and learns; take another seed")
