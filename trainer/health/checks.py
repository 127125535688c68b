"""Each check looks at a series up to one place and says what is wrong there, or None; thresholds are rules of thumb (reconstructed).

A change is measured against the run's own first iterations, so that a hard task is no illness; a level only where it is bad for any run.
"""

from collections.abc import Callable

from trainer.health.series import WINDOW, Series

_FAILURES = ("failures/env_error", "failures/step_timeout", "failures/rollout_timeout", "failures/engine_error")
_CLIPPED = ("loss_clipped_low", "loss_clipped_high", "loss_clipped_dual")


def entropy_collapse(series: Series, place: int) -> str | None:
    """Less than a fifth of the entropy of the start, while a tenth of the rollouts or more still fail."""
    start, now, success = series.start("entropy", place), series.recent("entropy", place), series.recent("train_success", place)
    if start is None or now is None or success is None or now >= 0.2 * start or success >= 0.9:
        return None
    return f"entropy {now:.3g} nats a token, {start:.3g} at the start; {_percent(success)} of the rollouts succeed"


def length_growth(series: Series, place: int) -> str | None:
    """Turns twice as long as at the start, and success not 10 points higher."""
    start, now = series.start("turn_tokens_mean", place), series.recent("turn_tokens_mean", place)
    won, wins = series.start("train_success", place), series.recent("train_success", place)
    if start is None or now is None or won is None or wins is None or now <= 2 * start or wins >= won + 0.1:
        return None
    return f"{now:.1f} sampled tokens a turn, {start:.1f} at the start; success went from {_percent(won)} to {_percent(wins)}"


def invalid_rising(series: Series, place: int) -> str | None:
    """10 points more invalid actions than at the start."""
    start, now = series.start("invalid_share", place), series.recent("invalid_share", place)
    if start is None or now is None or now <= start + 0.1:
        return None
    return f"{_percent(now)} of the actions are invalid, {_percent(start)} at the start"


def failures_rising(series: Series, place: int) -> str | None:
    """More than 5 % of the rollouts fail, or 2 points more than at the start."""
    now = _ratio(_sum(series.recent, _FAILURES, place), series.recent("rollouts", place))
    start = _ratio(_sum(series.start, _FAILURES, place), series.start("rollouts", place))
    if now is None or (now <= 0.05 and (start is None or now <= start + 0.02)):
        return None
    counts = {name.partition("/")[2]: series.recent(name, place) or 0.0 for name in _FAILURES}
    most = max(counts, key=lambda name: counts[name])
    since = f", {_percent(start)} at the start" if start is not None else ""
    return f"{_percent(now)} of the rollouts failed{since}; most: {most}"


def unanimous_groups(series: Series, place: int) -> str | None:
    """More than three quarters of the trees that are learned from have no advantage other than 0."""
    trees = series.recent("kept_trees", place) or series.recent("trees", place)
    share = _ratio(series.recent("unanimous_trees", place), trees)
    if share is None or share <= 0.75:
        return None
    success = series.recent("train_success", place)
    won = f"; {_percent(success)} of the rollouts succeed" if success is not None else ""
    return f"{_percent(share)} of the trees teach nothing{won}"


def singleton_states(series: Series, place: int) -> str | None:
    """Fewer than a tenth of the turns start from a state that another rollout was in."""
    rate = series.recent("merge_rate", place)
    return f"{_percent(rate)} of the turns meet another rollout's state" if rate is not None and rate < 0.1 else None


def forks_without_gain(series: Series, place: int) -> str | None:
    """Fewer than 5 % of the forks end differently from the rollout that they left; 20 forks or more in the window."""
    gain, compared = series.recent("branch_gain", place), series.recent("compared_branches", place)
    if gain is None or compared is None or compared * WINDOW < 20 or gain >= 0.05:
        return None
    return f"{_percent(gain)} of the forks ended differently from the rollout that they left; {compared * WINDOW:.0f} were compared"


def idle_engines(series: Series, place: int) -> str | None:
    """The engine has nothing to do for more than half of the time of sampling."""
    share = series.recent("waiting/engine_idle_share", place)
    return f"the engine was idle for {_percent(share)} of the sampling" if share is not None and share > 0.5 else None


def logprob_gap(series: Series, place: int) -> str | None:
    """Before the first optimizer step, training already disagrees: more than 0.01 nats a token, or a ratio above 10."""
    kl, ratio = series.recent("first_behaviour_kl", place), series.recent("first_max_ratio", place)
    if kl is None or ratio is None or (kl <= 0.01 and ratio <= 10):
        return None
    return f"in the first mini-batch KL(behaviour || policy) is {kl:.3g} nats a token, the largest ratio {ratio:.3g}"


def clip_share(series: Series, place: int) -> str | None:
    """More than 30 % of the loss is clipped away."""
    share = _sum(series.recent, _CLIPPED, place)
    return f"{_percent(share)} of the tokens are clipped and teach nothing" if share is not None and share > 0.3 else None


def kl_blow_up(series: Series, place: int) -> str | None:
    """More than 1 nat a token from the reference, or more than 0.1 and five times what it was before."""
    now, before = series.at("loss_reference_kl", place), series.before("loss_reference_kl", place, 2 * WINDOW)
    if now is None or (now <= 1 and (before is None or now <= 0.1 or now <= 5 * before)):
        return None
    return f"KL(policy || reference) is {now:.3g} nats a token" + (f", {before:.3g} before" if before is not None else "")


def gradient_spikes(series: Series, place: int) -> str | None:
    """A gradient five times as long as the median of the ten iterations before."""
    now, before = series.at("gradient_norm", place), series.before("gradient_norm", place, 2 * WINDOW)
    if now is None or not before or now <= 5 * before:
        return None
    return f"the gradient's norm is {now:.3g}, {before:.3g} before"


def _sum(mean: Callable[[str, int], float | None], names: tuple[str, ...], place: int) -> float | None:
    values = [mean(name, place) for name in names]
    return None if any(value is None for value in values) else sum(value for value in values if value is not None)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
