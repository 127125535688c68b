"""GiGPO: A = A_E + omega A_S, the episode's outcome against the group plus the turn's return against all turns in the same state.

A_E centres the outcomes over the group; A_S centres the discounted returns over the rows that stand in an equal state, and is 0 for a
state that only one node visited. Mode "mean" centres only; "mean_std" also divides by (sample std + 1e-6). Returns of a shared node
enter once for every rollout below it, with that rollout's weight.
The public code takes the episode's mean over turns, so that a long rollout weighs more; here every rollout counts once, unless
`count_turns` asks for a faithful comparison.
Needs states. Unanimous groups receive exactly 0; a group of one is an error; failed rollouts must be left out by the caller. A state that
only one node visited adds 0.
Defaults: gamma .95, omega 1, mode mean, equal states.
Source: Feng et al., Group-in-Group Policy Optimization (arXiv 2505.10978).
"""

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

import numpy as np

from credit.batch import Batch
from credit.errors import GroupError
from credit.grpo import EPS
from credit.moments import FloatArray, IntArray, centre, dense, deviation
from credit.settings import Settings, choice, flag, number


@dataclass(frozen=True)
class GigpoSettings(Settings):
    gamma: float = number(0.95, 0.0, 1.0)
    """Discount per turn of the returns in A_S."""
    omega: float = number(1.0, 0.0)
    """Weight of A_S."""
    mode: Literal["mean", "mean_std"] = choice("mean", "mean_std")
    count_turns: bool = flag(False)
    """Count a rollout once per turn in A_E's mean and deviation, as the public code does."""
    similarity: float | None = number(None, 0.0, 1.0, above=True, optional=True)
    """None: equal states only. A number: string states at least this similar (difflib ratio) share a cell; see `similar_states`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.omega == 0:
            self.refuse("omega=0", "gamma", "similarity")


def gigpo(batch: Batch, settings: GigpoSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    cell_O = dense(batch.state_O if settings.similarity is None else similar_states(batch, settings.similarity)[batch.state_O])
    step_O = _normalised(batch.returns(settings.gamma), batch.weight_O, cell_O, batch.return_errors(settings.gamma), settings.mode)
    nodes_K = np.bincount(cell_O[batch.nodes.first_N])
    return _episodes(batch, settings) + settings.omega * np.where(nodes_K[cell_O] == 1, 0.0, step_O)


def _episodes(batch: Batch, settings: GigpoSettings) -> FloatArray:
    """A_E of each row, shape (O,)."""
    rows = batch.rollout_O if settings.count_turns else np.arange(batch.rollouts)
    values = _normalised(batch.outcome_R[rows], batch.weight_R[rows], batch.task_R[rows], batch.error_R[rows], settings.mode)
    return values if settings.count_turns else values[batch.rollout_O]


def _normalised(values_X: FloatArray, weights_X: FloatArray, cells_X: IntArray, error_X: FloatArray, mode: str) -> FloatArray:
    centred_X = centre(values_X, weights_X, cells_X, error_X)
    return centred_X if mode == "mean" else centred_X / (deviation(centred_X, weights_X, cells_X, 1)[cells_X] + EPS)


def similar_states(batch: Batch, threshold: float) -> IntArray:
    """Cell of each state, shape (len(batch.states),): the first of its task whose founder is at least `threshold` similar, else a new one.

    States are taken in sorted order within their task, so that the cells do not depend on the order of the rollouts.
    """
    for state in batch.states:
        if not isinstance(state, str):
            raise GroupError(
                f"similarity compares text, but state {state!r} is a {type(state).__name__}; give string states or similarity=None"
            )
    # States that no turn starts from have no row, so their cell is never looked up.
    cell_S = np.zeros(len(batch.states), dtype=np.int64)
    found = 0
    for task in range(batch.tasks):
        codes = np.unique(batch.state_O[batch.task_O == task])
        text = {code: str(batch.states[code]) for code in codes.tolist()}
        founders: list[str] = []
        matcher = SequenceMatcher(autojunk=False)
        for code in sorted(text, key=text.__getitem__):
            # SequenceMatcher keeps its work on the second sequence, so that stays fixed while the founders pass by.
            matcher.set_seq2(text[code])
            cell = next((cell for cell, founder in enumerate(founders) if _similar(matcher, founder, threshold)), len(founders))
            if cell == len(founders):
                founders.append(text[code])
            cell_S[code] = found + cell
        found += len(founders)
    return cell_S


def _similar(matcher: SequenceMatcher[str], founder: str, threshold: float) -> bool:
    matcher.set_seq1(founder)
    return all(ratio() >= threshold for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio))
