"""`check_env` proves what an environment declares, check by check; one that fails leaves the others to be run."""

import time
from collections.abc import Callable
from typing import Any

from envs import registry
from envs.arguments import whole_number
from envs.checking import deadline_check, episode_checks, fork_checks, signature_checks
from envs.checking.player import Player
from envs.checking.report import Check, CheckFailedError, CheckReport, CheckResult, CounterExample, NothingToCheckError, Verdict
from envs.deadline import DeadlineExceededError

CHECKS: dict[str, Check] = {
    "gymnasium": episode_checks.gymnasium,
    "plays": episode_checks.plays,
    "abilities": episode_checks.abilities,
    "same seed": episode_checks.same_seed,
    "restore": fork_checks.restore,
    "restore often": fork_checks.restore_often,
    "travel": fork_checks.travel,
    "children": fork_checks.children,
    "memory": fork_checks.memory,
    "equal states": signature_checks.equal_states,
    "different states": signature_checks.different_states,
    "deadline": deadline_check.deadline,
}
"""All checks by name, in the order in which they run."""


def check_env(
    id: str,
    *,
    seeds: int = 3,
    steps: int = 30,
    patience_s: float = 30.0,
    progress: Callable[[str], None] | None = None,
    **kwargs: Any,
) -> CheckReport:
    """Prove what the environment `id` declares.

    Args:
        seeds: tasks that are played, each by chance and by the expert where there is one.
        steps: actions of an episode at most.
        patience_s: seconds that a step may take where the environment declares no deadline; a reset four times as long.
        progress: called with the name of each check before it runs.
        kwargs: arguments of the environment, for example `split`.
    """
    for name, value in (("seeds", seeds), ("steps", steps)):
        whole_number(name, value, 1)
    player = Player(registry.spec(id), kwargs, range(seeds), steps, patience_s)
    report = CheckReport(id)
    try:
        started = time.perf_counter()
        player.record()
        recorded = time.perf_counter() - started
        for name, check in CHECKS.items():
            if progress is not None:
                progress(name)
            result = _run(name, check, player, recorded if name == "plays" else 0.0)
            report.results.append(result)
            player.close()
    finally:
        player.close()
    return report


def _run(name: str, check: Check, player: Player, seconds: float) -> CheckResult:
    started = time.perf_counter() - seconds
    example = None
    try:
        verdict, tried = Verdict.PASSED, check(player)
    except NothingToCheckError as reason:
        verdict, tried = Verdict.SKIPPED, str(reason)
    except CheckFailedError as failed:
        verdict, tried, example = Verdict.FAILED, failed.counter_example.what, failed.counter_example
    except DeadlineExceededError:
        verdict, tried = Verdict.SKIPPED, "a call hangs; see the check of deadlines"
    except Exception as error:  # Whatever an environment does where it should not, it is what the check found.
        what = f"{type(error).__name__}: {error}"
        verdict, tried, example = Verdict.FAILED, what, CounterExample(what)
    return CheckResult(name, verdict, tried, time.perf_counter() - started, example)
