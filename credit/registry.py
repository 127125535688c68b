"""One table of estimators: a name stands for settings, a function, and what the function needs; nothing else knows the names."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

import numpy as np

from credit.batch import Batch
from credit.errors import EstimatorError, SettingError, UnknownMethodError, nearest
from credit.moments import FloatArray

Family = Literal["trajectory", "graph", "tree", "turn"]


def _never(settings: Any) -> bool:
    return False


def _nothing(settings: Any) -> Iterable[str]:
    return ()


def _no_figures(batch: Batch, settings: Any) -> dict[str, float]:
    return {}


@dataclass(frozen=True, slots=True)
class Estimator:
    """One entry of the table."""

    settings: type[Any]
    """Frozen dataclass whose constructor checks its values (see `credit.Settings`)."""
    function: Callable[[Batch, Any], FloatArray]
    """Batch and settings to advantages, shape (O,); rows of one node may differ and are averaged by weight afterwards."""
    doc: str
    """One line."""
    family: Family = "trajectory"
    """What an advantage is made of: whole rollouts, the merged graph, the tree, or the single turn."""
    needs: Callable[[Any], Iterable[str]] = _nothing
    """The optional fields of `credit.Turn` that the function reads under these settings."""
    by_state: bool | Callable[[Any], bool] = False
    """Whether turns are compared by their states (under these settings); else what counts as the same state makes no difference."""
    lone: Callable[[Any], bool] = _never
    """Whether a group of one rollout is allowed under these settings."""
    diagnostics: Callable[[Batch, Any], dict[str, float]] = _no_figures
    """Figures that say how the method fared on a batch (how many groups took a fallback, how far merges were trusted), by name."""
    judges_turns: bool | Callable[[Any], bool] = False
    """Whether turns may be better or worse although all outcomes are equal (under these settings); else such a group gets exactly 0."""


@dataclass(frozen=True, slots=True)
class Method:
    """An estimator with its settings."""

    name: str
    estimator: Estimator
    settings: Any

    @property
    def needs(self) -> frozenset[str]:
        """The optional fields of `credit.Turn` that it reads."""
        return frozenset(self.estimator.needs(self.settings))

    @property
    def lone(self) -> bool:
        """Whether a group of one rollout is allowed."""
        return self.estimator.lone(self.settings)

    @property
    def by_state(self) -> bool:
        """Whether turns are compared by their states."""
        compares = self.estimator.by_state
        return compares(self.settings) if callable(compares) else compares

    @property
    def judges_turns(self) -> bool:
        """Whether a group whose outcomes are all equal may receive advantages other than 0."""
        judges = self.estimator.judges_turns
        return judges(self.settings) if callable(judges) else judges

    def diagnostics(self, batch: Batch) -> dict[str, float]:
        """Figures that say how the method fares on a batch, by name."""
        return self.estimator.diagnostics(batch, self.settings) if len(batch.reward_O) else {}

    def advantages(self, batch: Batch) -> FloatArray:
        """Advantage of each row, shape (O,): one number per node, finite, 0 for unanimous groups unless it judges turns.

        Raises `EstimatorError` where the estimator breaks its contract.
        """
        if not len(batch.reward_O) or (batch.unanimous_T.all() and not self.judges_turns):
            return np.zeros(len(batch.reward_O))
        advantage_O = self.estimator.function(batch, self.settings)
        if advantage_O.shape != batch.reward_O.shape:
            raise EstimatorError(
                f"estimator {self.name!r} returned shape {advantage_O.shape} for {len(batch.reward_O)} rows; return one number per row"
            )
        advantage_O = batch.per_node(advantage_O.astype(np.float64, copy=False))
        if not self.judges_turns:
            advantage_O = np.where(batch.unanimous_T[batch.task_O], 0.0, advantage_O)
        if not np.isfinite(advantage_O).all():
            raise EstimatorError(f"estimator {self.name!r} returned a number that is not finite; give smaller rewards or settings")
        return advantage_O


_TABLE: dict[str, Estimator] = {}


def methods() -> dict[str, str]:
    """Name and one-line description of every registered estimator, sorted by name."""
    return {name: _TABLE[name].doc for name in sorted(_TABLE)}


def estimator(name: str) -> Estimator:
    """The estimator of that name; raises `UnknownMethodError`."""
    if not isinstance(name, str) or name not in _TABLE:
        raise UnknownMethodError(f"there is no method {name!r}; {nearest(name, _TABLE)}")
    return _TABLE[name]


def register_estimator(name: str, estimator: Estimator) -> None:
    """Add an estimator to the table; a name that is taken is an `EstimatorError`."""
    if not isinstance(name, str) or not name.isidentifier():
        raise EstimatorError(f"an estimator cannot be named {name!r}; give a name of letters, digits and _, such as 'my_method'")
    if not isinstance(estimator, Estimator):
        raise EstimatorError(f"{name!r} is a {type(estimator).__name__}; give a credit.Estimator")
    if name in _TABLE:
        raise EstimatorError(f"an estimator named {name!r} is registered already; choose another name")
    if not is_dataclass(estimator.settings):
        raise EstimatorError(f"the settings of {name!r} are no dataclass; derive a frozen dataclass from credit.Settings")
    _TABLE[name] = estimator


def settings_for(method: str, **settings: Any) -> Any:
    """The checked settings object of a method, before any rollout exists; raises `UnknownMethodError` or `SettingError`."""
    return resolve(method, settings).settings


def needs(method: str, **settings: Any) -> frozenset[str]:
    """The optional fields of `credit.Turn` that a method reads under these settings ("rewards" stands for `Turn.rewards`)."""
    return resolve(method, settings).needs


def resolve(method: str, settings: Mapping[str, Any]) -> Method:
    """The method of that name with its checked settings; raises `UnknownMethodError` or `SettingError`."""
    entry = estimator(method)
    known = {field.name for field in fields(entry.settings)}
    for name in settings:
        if name not in known:
            raise SettingError(f"method {method!r} has no setting {name!r}; {nearest(name, known)}")
    try:
        return Method(method, entry, entry.settings(**settings))
    except SettingError as error:
        raise SettingError(f"method {method!r}: {error}") from None
