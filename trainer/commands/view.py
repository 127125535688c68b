"""`branchwise view RUN`: pages in a browser that show what was recorded; they only read, unless forks are allowed."""

import argparse
from pathlib import Path

from trainer.arguments import Parser, count
from trainer.errors import UsageError

SUMMARY = "look at runs, trees, turns and tokens in a browser"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C"

_TEXT = """\
Serve pages on this machine (127.0.0.1, a free port, a token in the address) that show one run or several, also while they train: curves,
health, the list of trees with filters and a search, each tree drawn with its turns coloured by advantage, value, entropy, visits or policy
version, every turn with its tokens and the numbers behind its advantage, the states that rollouts share, and two runs compared.

Nothing comes from the network, and nothing is written unless --allow-fork is given. Ctrl-C ends it. With --export FILE.html, all of it goes
into one file instead, to be opened anywhere. The server needs: pip install 'branchwise[view]'
"""

_EXAMPLES = """\
examples:
  branchwise view runs/household-seed0
  branchwise view runs/salt runs/grpo
  branchwise view runs/household-seed0 --allow-fork            with buttons that go on from a turn
  branchwise view runs/household-seed0 --export run.html --trees 12,30
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="run folders")
    parser.add_argument("--port", metavar="N", type=count, help="port to listen on (default: any that is free)")
    parser.add_argument("--open", action="store_true", help="open the page in this machine's browser")
    parser.add_argument("--allow-fork", action="store_true", help="let the page add forks to recorded trees")
    parser.add_argument("--export", metavar="FILE.html", type=Path, help="write one file that holds everything, and stop")
    parser.add_argument("--trees", metavar="IDS", type=_trees, help="with --export: which trees, as 12,30 (default: the last 12)")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Export, or serve until Ctrl-C."""
    _check(arguments)
    from agents.missing_package import imported
    from trainer.console import Console

    for package in ("jinja2", "starlette", "uvicorn"):
        imported(package, "view", "branchwise view")
    from trainer.viewer.source import opened

    source, console = opened(arguments.runs), Console()
    if arguments.export is not None:
        from trainer.progress import Progress
        from trainer.viewer.export import exported_page
        from trainer.whole_file import write_whole

        with Progress(Console(stderr=True)) as progress:
            page = exported_page(source, len(arguments.runs), arguments.trees, progress)
        write_whole(arguments.export, page.encode("utf-8", "replace"))
        console.print(f"page: {arguments.export} ({len(page) / 2**20:.1f} MiB)", soft_wrap=True, markup=False)
        return 0
    from trainer.viewer.server import bound_socket, serve

    serve(source, bound_socket(arguments.port or 0), arguments.allow_fork, lambda address: _say(console, address, arguments.open))
    return 0


def _say(console, address: str, show: bool) -> None:
    """Print where the page is; also for somebody who is logged in to this machine from another one."""
    import socket
    import webbrowser

    port = address.split(":")[2].split("/")[0]
    console.print(f"{address}", soft_wrap=True, markup=False, style="bold")
    console.print(f"from another machine: ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}, then the same address; Ctrl-C ends it",
                  soft_wrap=True, markup=False, style="dim")  # fmt: skip
    if show:
        webbrowser.open(address)


def _check(arguments: argparse.Namespace) -> None:
    if arguments.export is None:
        if arguments.trees is not None:
            raise UsageError("--trees has no effect without --export FILE.html; leave it out")
        if arguments.port is not None and arguments.port > 65535:
            raise UsageError(f"--port {arguments.port} is no port; give one up to 65535")
        return
    extra = next((name for name in ("port", "open", "allow_fork") if getattr(arguments, name)), None)
    if extra:
        raise UsageError(f"--{extra.replace('_', '-')} has no effect with --export, which serves nothing; leave it out")


def _trees(text: str) -> list[int]:
    """Numbers with commas between them."""
    try:
        return [count(word.strip()) for word in text.split(",")]
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} are no trees; write their numbers as 12,30") from error
