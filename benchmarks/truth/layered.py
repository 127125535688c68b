"""In a layered process turn t is taken in layer t, so that a state tells the time, and only coincidence brings rollouts together.

Axes as in `process`; _L layers.
"""

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.truth.process import FloatArray, IntArray, Process

_SIGNATURES = 1
"""Keeps the generator of the signatures apart, so that a misleading process differs from its exact twin in nothing else."""


@dataclass(frozen=True, slots=True)
class Layers:
    """Where the states of each layer stand; the last layer is terminal."""

    size_L: list[int]

    @property
    def states(self) -> int:
        """Number of states."""
        return sum(self.size_L)

    def of(self, layer: int) -> IntArray:
        """The states of a layer."""
        first = sum(self.size_L[:layer])
        return np.arange(first, first + self.size_L[layer])


def random_layers(name: str, doc: str, seed: int, *, width: int, turns: int, share: float, tags: set[str]) -> Process:
    """One start state, then `width` states a layer; every action leads to a random state of the next layer.

    The exact `share` of the last layer (at least one state, and never all) pays 1 when it is entered.
    """
    rng = np.random.default_rng(seed)
    layers = Layers([1] + [width] * turns)
    next_XKM = np.zeros((layers.states, 3, 1), dtype=np.int64)
    for layer in range(turns):
        next_XKM[layers.of(layer)] = rng.choice(layers.of(layer + 1), size=(layers.size_L[layer], 3, 1))
    wins = int(np.clip(round(share * width), 1, width - 1))
    won = rng.choice(layers.of(turns), size=wins, replace=False)
    reward_XKM = np.isin(next_XKM, won).astype(np.float64)
    return _process(name, doc, layers, next_XKM, np.ones(next_XKM.shape), reward_XKM, tags)


def stochastic_layers(name: str, doc: str, seed: int, *, width: int, turns: int, sure: float, tags: set[str]) -> Process:
    """As `random_layers` with half of the last layer winning, but an action's successor is reached with probability `sure` only.

    Else one of two other random states of the layer comes, each as likely as the other.
    """
    base = random_layers(name, doc, seed, width=width, turns=turns, share=0.5, tags=tags)
    rng = np.random.default_rng([seed, 2])
    layers = Layers([1] + [width] * turns)
    others_XKM = np.zeros((base.states, base.actions, 2), dtype=np.int64)
    for layer in range(turns):
        others_XKM[layers.of(layer)] = rng.choice(layers.of(layer + 1), size=(layers.size_L[layer], base.actions, 2))
    next_XKM = np.concatenate([base.next_XKM, others_XKM], axis=2)
    prob_XKM = np.broadcast_to([sure, (1 - sure) / 2, (1 - sure) / 2], next_XKM.shape)
    won = np.unique(base.next_XKM[base.reward_XKM > 0])
    return replace(base, next_XKM=next_XKM, prob_XKM=prob_XKM, reward_XKM=np.isin(next_XKM, won).astype(np.float64))


def decisive_turn(name: str, doc: str, seed: int, *, width: int, turns: int, turn: int, tags: set[str]) -> Process:
    """The right action at one turn wins with .9, another with .1; nothing else matters, and which one is right differs by state.

    After that turn a state carries the flag whether it was right: `width` states for each flag and layer.
    """
    rng = np.random.default_rng(seed)
    layers = Layers([1 if layer == 0 else width * (1 + (layer > turn)) for layer in range(turns)] + [2])
    won, lost = layers.of(turns)
    next_XKM = np.zeros((layers.states, 3, 2), dtype=np.int64)
    prob_XKM = np.zeros((layers.states, 3, 2))
    prob_XKM[:, :, 0] = 1.0
    for layer in range(turns):
        states = layers.of(layer)
        flag_SK = _flags(rng, len(states), width, layer - turn)
        if layer == turns - 1:
            next_XKM[states] = [won, lost]
            prob_XKM[states] = np.where(flag_SK[:, :, None] == 1, [0.9, 0.1], [0.1, 0.9])
        else:
            place_SK = rng.integers(width, size=(len(states), 3)) + width * flag_SK
            next_XKM[states] = layers.of(layer + 1)[place_SK][:, :, None]
    reward_XKM = (next_XKM == won).astype(np.float64)
    return _process(name, doc, layers, next_XKM, prob_XKM, reward_XKM, tags | {"decisive", "stochastic"})


def merge_classes(process: Process, classes_of: int, seed: int) -> Process:
    """The same process with signatures that merge random classes of so many states of one layer; ends stay apart."""
    rng = np.random.default_rng([seed, _SIGNATURES, classes_of])
    layer_X = _layers_of(process)
    signature_X = np.arange(process.states)
    for layer in range(int(layer_X.max()) + 1):
        states = rng.permutation(np.flatnonzero((layer_X == layer) & ~process.terminal_X))
        signature_X[states] = states[np.arange(len(states)) // classes_of * classes_of]
    return replace(
        process,
        name=f"{process.name}_merge{classes_of}",
        doc=f"{process.doc}; signatures merge random classes of {classes_of} states",
        signature_X=signature_X,
        tags=(process.tags - {"exact"}) | {"misleading"},
    )


def _flags(rng: np.random.Generator, states: int, width: int, after: int) -> IntArray:
    """Whether each action leads to the flag of a right decision: 0 before the turn, drawn at it, the state's own after it."""
    if after == 0:
        right_S = rng.integers(3, size=states)
        return (right_S[:, None] == np.arange(3)).astype(np.int64)
    flag_S = np.arange(states) // width if after > 0 else np.zeros(states, dtype=np.int64)
    return np.repeat(flag_S[:, None], 3, axis=1)


def _layers_of(process: Process) -> IntArray:
    """The layer of each state that can be reached; -1 for the others, which no rollout sees."""
    layer_X = np.full(process.states, -1)
    here = np.array([process.start])
    for layer in range(process.horizon + 1):
        layer_X[here] = layer
        here = np.unique(process.next_XKM[here[~process.terminal_X[here]]])
    return layer_X


def _process(
    name: str, doc: str, layers: Layers, next_XKM: IntArray, prob_XKM: FloatArray, reward_XKM: FloatArray, tags: set[str]
) -> Process:
    terminal_X = np.zeros(layers.states, dtype=np.bool_)
    ends = layers.of(len(layers.size_L) - 1)
    terminal_X[ends] = True
    next_XKM[ends], reward_XKM[ends] = ends[:, None, None], 0.0
    return Process(
        name=name,
        doc=doc,
        next_XKM=next_XKM,
        prob_XKM=prob_XKM,
        reward_XKM=reward_XKM,
        terminal_X=terminal_X,
        start=0,
        horizon=len(layers.size_L) - 1,
        signature_X=np.arange(layers.states),
        habit_XK=np.zeros(next_XKM.shape[:2]),
        tags=frozenset(tags | {"exact"}),
    )
