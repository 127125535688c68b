"""A skipped test proves nothing: where one is skipped because the machine lacks something, the whole session fails unless ALLOW_SKIP=1.

`make test` runs files beside each other, one worker a core. A file's tests stay on one worker, so what its fixtures make is made once;
files that share a cluster stay together.
"""

import os
from typing import Any

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers fill the cores already: more threads would only wait for each other. torch reads this once, when it is imported.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

MOST_WORKERS = 8
"""Each holds torch and the models of its tests; more would cost memory and hardly any less time."""
GROUPS = {name: "ray" for name in ("test_ray_async", "test_ray_faults", "test_ray_ranks", "test_ray_run", "test_signature_credit")}
"""Files whose tests share a worker, by name without the ending: two clusters beside each other would fight for the cores."""

_skipped: list[str] = []


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return min(MOST_WORKERS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


# First, since xdist reads the marks in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.has_plugin("xdist"):
        return
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item.path.stem)))
    if "PYTEST_XDIST_WORKER" in os.environ:
        # What takes longest starts first, or it would run alone at the end.
        items.sort(key=lambda item: group_of(item.path.stem) not in GROUPS.values())


def group_of(file: str) -> str:
    """The name of the tests that share a worker with those of a file; names of files are unique."""
    return GROUPS.get(file, file)


def _note(report: Any) -> None:
    # An expected failure is reported as skipped too, but it ran.
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if _skipped and os.environ.get("ALLOW_SKIP") != "1" and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _skipped and os.environ.get("ALLOW_SKIP") != "1":
        terminalreporter.section("skipped tests fail the session", red=True)
        terminalreporter.line(
            f"{len(_skipped)} skipped, the first is {_skipped[0]}; install what is missing (see above), or set ALLOW_SKIP=1"
        )
