"""Every fault that a user can mend ends as one sentence on stderr and a non-zero exit code; a traceback means a fault in the program.

Nothing heavy is imported before a verb runs, so that help and errors come at once.
"""

import argparse
import errno
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from trainer import __version__
from trainer.arguments import Parser
from trainer.errors import TrainerError, UsageError
from trainer.overrides import split_arguments

_MENDABLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE}
"""Operating system errors whose own words tell a user what to do."""

_VERBS = ("train", "sft", "eval", "health", "replay", "signatures", "play", "envs", "check", "doctor")

_OVERVIEW = """\
Train LLM agents on multi-turn tasks with reinforcement learning over rollout trees.

verbs:
{verbs}

examples:
  branchwise train household                        train from nothing; everything goes to runs/household-seed0
  branchwise train household --resume               go on where that run stopped
  branchwise train household --optimizer.lr 3e-4    change any setting; `branchwise train --settings` lists them
  branchwise sft household --from runs/household-seed0     imitate the rollouts that solved their tasks there
  branchwise eval runs/household-seed0              measure what it learned
  branchwise health runs/household-seed0            find what is wrong with it in its metrics
  branchwise replay runs/household-seed0            execute a recorded tree again and verify every turn
  branchwise signatures runs/household-seed0        where its rollouts met, by several ways to recognise a state
  branchwise play household                         act in the environment yourself
  branchwise check household                        prove that it forks exactly, and what else it declares

`branchwise VERB --help` says what a verb takes and what it writes. Exit codes: 0 done; 1 done, but what was checked did not hold;
2 something you can mend, said in one sentence; 130 stopped by Ctrl-C.
"""


class Command(Protocol):
    """What a module in `trainer.commands` offers."""

    SUMMARY: str
    """A line for the overview."""
    TAKES_SETTINGS: bool
    """Whether `--section.key value` means something to it."""
    INTERRUPTED: str
    """What to say after Ctrl-C."""

    def configure(self, parser: Parser) -> None:
        """Add the verb's arguments and texts."""
        ...

    def run(self, arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
        """Do it and return the exit code."""
        ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (`sys.argv` by default) and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = _command(words[0]) if words and words[0] in _VERBS else None
    try:
        code = _run(words, command)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _say(command.INTERRUPTED if command else "stopped by Ctrl-C", 128 + signal.SIGINT)
    except BrokenPipeError:
        # Whoever read our output has gone; the interpreter must not complain about it when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Exception as error:
        code = getattr(error, "exit_code", None)
        if isinstance(code, int):
            return _say(_sentence(error), code)
        if isinstance(error, OSError) and error.errno in _MENDABLE:
            place = f": {error.filename}" if error.filename else ""
            return _say(f"{error.strerror}{place}", TrainerError.exit_code)
        raise


def _run(words: list[str], command: Command | None) -> int:
    if not words:
        sys.stderr.write(_overview())
        return TrainerError.exit_code
    if words[0] in ("-h", "--help"):
        sys.stdout.write(_overview())
        return 0
    if words[0] == "--version":
        sys.stdout.write(f"branchwise {__version__}\n")
        return 0
    if command is None:
        raise UsageError(_unknown_verb(words[0]))
    parser = Parser(prog=f"branchwise {words[0]}")
    command.configure(parser)
    others, overrides = split_arguments(words[1:])
    if overrides and not command.TAKES_SETTINGS:
        raise UsageError(f"{words[0]} takes no settings, but got --{next(iter(overrides))}; type `branchwise {words[0]} --help`")
    try:
        parsed = parser.parse_known(others)
    except SystemExit as stop:  # argparse has printed the help
        return int(stop.code or 0)
    return command.run(parsed, overrides)


def _command(verb: str) -> Command:
    return cast(Command, importlib.import_module(f"trainer.commands.{verb}"))


def _overview() -> str:
    return _OVERVIEW.format(verbs="\n".join(f"  {verb:<12}{_command(verb).SUMMARY}" for verb in _VERBS))


def _unknown_verb(word: str) -> str:
    import difflib

    close = difflib.get_close_matches(word, _VERBS, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(_VERBS)}"
    return f"there is no verb {word!r}; {hint}"


def _sentence(error: Exception) -> str:
    """The error's text on one line; a `KeyError` would put it in quotes."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(text.split()) or type(error).__name__


def _say(sentence: str, code: int) -> int:
    sys.stderr.write(f"branchwise: {sentence}\n")
    return code
