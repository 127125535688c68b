"""A person types the next action; `?` lists what can be done, `!` asks the expert, an empty line or the end of input ends it."""

import sys

from rich.console import Console
from rich.text import Text

from envs.errors import AbilityError
from envs.text_env import TextEnv


def ask_action(env: TextEnv, console: Console) -> str | None:
    """The next action that a person typed; None at the end of input or for an empty line. What came through a pipe is echoed."""
    while True:
        try:
            line = input("> ").strip()
            if not sys.stdin.isatty():
                console.print(Text(line))
        except EOFError:
            console.print()
            return None
        if line not in ("?", "!"):
            return line or None
        try:
            print_text(
                console,
                "\n".join(f"  {action}" for action in env.admissible_actions()) if line == "?" else f"  {env.expert_action()}",
                "dim",
            )
        except AbilityError as error:
            print_text(console, f"  {error}", "dim")


def print_text(console: Console, text: str, style: str = "") -> None:
    """Print a text of the environment as it is: no markup, nothing cut."""
    console.print(Text(text, style=style), soft_wrap=not console.is_terminal)
