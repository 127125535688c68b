"""A skipped test proves nothing: where one is skipped because the machine lacks something, the whole session fails unless ALLOW_SKIP=1."""

import os
from typing import Any

import pytest

_skipped: list[str] = []


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
