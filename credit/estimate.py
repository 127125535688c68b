"""One call: rollouts in, one finite number per turn out, the same number wherever a shared node appears.

What holds for every method is kept in `credit.registry.Method` and here, and nowhere else: a group whose outcomes are all equal gives
exactly 0, a lone rollout is an error unless the method has a fallback, rows of one node are averaged by weight, and nothing that is
not finite gets out.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from credit.batch import Batch, Weighting
from credit.errors import LoneRolloutError
from credit.moments import FloatArray
from credit.reader import Rollouts
from credit.registry import Method, resolve


def estimate(
    rollouts: Rollouts,
    method: str = "rtmc",
    *,
    weighting: Weighting = "path",
    reward_weights: Mapping[str, float] | None = None,
    **settings: Any,
) -> list[FloatArray]:
    """Advantages of the rollouts of ONE task: one float64 array per rollout, one number per turn.

    Leave failed rollouts out (they are no outcome of 0). Rollouts without turns get empty arrays and count nowhere.
    `Turn.node` marks turns that several rollouts share: they get one number. `weighting` says what a rollout counts in every mean,
    deviation and value: "path" (default) 1 / (number of continuations) at each node on its way, which forks do not bias; "leaf" 1.
    With `reward_weights` a turn's reward is the weighted sum of its `Turn.rewards` (see `credit.RewardWeights` for schedules).
    Raises `UnknownMethodError`, `SettingError`, `GroupError`, or `LoneRolloutError` for a group of one rollout.
    """
    return estimate_batch([rollouts], method, weighting=weighting, reward_weights=reward_weights, **settings)[0]


def estimate_batch(
    tasks: Iterable[Rollouts],
    method: str = "rtmc",
    *,
    weighting: Weighting = "path",
    reward_weights: Mapping[str, float] | None = None,
    **settings: Any,
) -> list[list[FloatArray]]:
    """Advantages of the rollouts of several tasks, as `estimate` gives them for each: a list per task of one array per rollout.

    Baselines and values never reach across tasks. Methods that normalise over the batch (`reinforce_pp`, `gdpo`, `empg`) do so over
    all tasks given, and `tree_graph` reads off all of them how far merges can be trusted (unless `pooled=False`); every other method
    gives each task the numbers that it would get alone.
    """
    checked = resolve(method, settings)
    batch = Batch.read(tasks, weighting, needs=checked.needs, reward_weights=reward_weights)
    return batch.split(advantages(batch, checked))


def advantages(batch: Batch, method: Method) -> FloatArray:
    """Advantage of each row of a batch, shape (O,); raises `LoneRolloutError` where a task has one rollout and the method no fallback."""
    lone_T = np.bincount(batch.task_R) == 1
    if lone_T.any() and not method.lone:
        where = f", and task {_given(batch.lengths, int(np.argmax(lone_T)))} has one" if len(batch.lengths) > 1 else ", and got one"
        raise LoneRolloutError(
            f"method {method.name!r} needs at least two rollouts with turns{where}; sample more or use 'rtmc' with n_p > 0"
        )
    return method.advantages(batch)


def _given(lengths: Sequence[Sequence[int]], task: int) -> int:
    """The place in the input of a task that has turns."""
    return [place for place, own in enumerate(lengths) if any(own)][task]
