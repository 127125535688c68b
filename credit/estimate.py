"""One call, one table: rollouts of one task in, one finite number per turn out, the same number wherever a shared node appears.

What holds for every method is kept here and nowhere else: a group whose outcomes are all equal gives exactly 0, a lone rollout is an
error unless the method has a fallback, rows of one node are averaged by weight, and nothing that is not finite gets out.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from credit.dr_grpo import DrGrpoSettings, dr_grpo
from credit.errors import EstimatorError, LoneRolloutError, SettingError, UnknownMethodError, nearest
from credit.gigpo import GigpoSettings, gigpo
from credit.group import Group, Weighting
from credit.grpo import GrpoSettings, grpo
from credit.moments import FloatArray
from credit.rloo import RlooSettings, rloo
from credit.rtmc import RtmcSettings, rtmc
from credit.salt import SaltSettings, salt
from credit.tree_mc import TreeMcSettings, tree_mc
from credit.turn import Turn


def _never(settings: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Estimator:
    """One entry of the table."""

    settings: type[Any]
    """Frozen dataclass whose constructor checks its values (see `credit.Settings`)."""
    function: Callable[[Group, Any], FloatArray]
    """Group and settings to advantages, shape (O,); rows of one node may differ and are averaged by weight afterwards."""
    doc: str
    """One line."""
    lone: Callable[[Any], bool] = _never
    """Whether a group of one rollout is allowed under these settings."""


_TABLE: dict[str, Estimator] = {
    "dr_grpo": Estimator(DrGrpoSettings, dr_grpo, "outcome minus the group's mean, for every turn of a rollout"),
    "gigpo": Estimator(GigpoSettings, gigpo, "outcome against the group plus the turn's return against turns in the same state"),
    "grpo": Estimator(GrpoSettings, grpo, "outcome standardised over the group, for every turn of a rollout"),
    "rloo": Estimator(RlooSettings, rloo, "outcome minus the mean of the other rollouts, for every turn of a rollout"),
    "rtmc": Estimator(
        RtmcSettings,
        rtmc,
        "value of the action minus value of the state, over all rollouts that came by",
        lambda settings: settings.n_p > 0,
    ),
    "salt": Estimator(SaltSettings, salt, "mean of the rollouts' advantages over each merged edge of the trajectory graph"),
    "tree_mc": Estimator(TreeMcSettings, tree_mc, "value after the turn minus value before it, over what was sampled below"),
}


def methods() -> dict[str, str]:
    """Name and one-line description of every registered estimator, sorted by name."""
    return {name: _TABLE[name].doc for name in sorted(_TABLE)}


def register_estimator(name: str, estimator: Estimator) -> None:
    """Add an estimator to the table; a name that is taken is an `EstimatorError`."""
    if name in _TABLE:
        raise EstimatorError(f"an estimator named {name!r} is registered already; choose another name")
    if not is_dataclass(estimator.settings):
        raise EstimatorError(f"the settings of {name!r} are no dataclass; derive a frozen dataclass from credit.Settings")
    _TABLE[name] = estimator


def settings_for(method: str, **settings: Any) -> Any:
    """The checked settings object of a method, before any rollout exists; raises `UnknownMethodError` or `SettingError`."""
    known = {field.name for field in fields(_estimator(method).settings)}
    for name in settings:
        if name not in known:
            raise SettingError(f"method {method!r} has no setting {name!r}; {nearest(name, known)}")
    try:
        return _estimator(method).settings(**settings)
    except SettingError as error:
        raise SettingError(f"method {method!r}: {error}") from None


def estimate(
    rollouts: Iterable[Iterable[Turn | Mapping[str, Any]]], method: str = "rtmc", *, weighting: Weighting = "path", **settings: Any
) -> list[FloatArray]:
    """Advantages of the rollouts of ONE task: one float64 array per rollout, one number per turn.

    Leave failed rollouts out (they are no outcome of 0). Rollouts without turns get empty arrays and count nowhere.
    `Turn.node` marks turns that several rollouts share: they get one number. `weighting` says what a rollout counts in every mean,
    deviation and value: "path" (default) 1 / (number of continuations) at each node on its way, which forks do not bias; "leaf" 1.
    Raises `UnknownMethodError`, `SettingError`, `GroupError`, or `LoneRolloutError` for a group of one rollout.
    """
    checked = settings_for(method, **settings)
    if weighting not in ("path", "leaf"):
        raise SettingError(f"weighting is {weighting!r}; {nearest(weighting, ('path', 'leaf'))}")
    group = Group.read(rollouts, weighting)
    if group.rollouts == 1 and not _estimator(method).lone(checked):
        raise LoneRolloutError(
            f"method {method!r} needs at least two rollouts with turns, and got one; sample more or use 'rtmc' with n_p > 0"
        )
    if group.unanimous:
        return group.split(np.zeros(len(group.reward_O)))
    advantage_O = _estimator(method).function(group, checked)
    if advantage_O.shape != group.reward_O.shape:
        raise EstimatorError(
            f"estimator {method!r} returned shape {advantage_O.shape} for {len(group.reward_O)} rows; return one number per row"
        )
    advantage_O = group.per_node(advantage_O.astype(np.float64, copy=False))
    if not np.isfinite(advantage_O).all():
        raise EstimatorError(f"estimator {method!r} returned a number that is not finite; give smaller rewards or settings")
    return group.split(advantage_O)


def _estimator(method: str) -> Estimator:
    if not isinstance(method, str) or method not in _TABLE:
        raise UnknownMethodError(f"there is no method {method!r}; {nearest(method, _TABLE)}")
    return _TABLE[method]
