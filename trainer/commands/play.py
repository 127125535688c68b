"""`branchwise play ENV`: one episode, seen as a policy sees it, with a person, the expert or chance at the keys."""

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.arguments import Parser, count

if TYPE_CHECKING:
    from rich.console import Console

    from envs import ScriptedPolicy, TextEnv
    from trainer.played_episode import PlayedEpisode

SUMMARY = "act in an environment, or watch its expert"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C"

_TEXT = """\
Play one episode in the terminal. Type an action and press Enter; `?` lists what can be done, `!` asks the expert, an empty line
or Ctrl-D ends the episode. The same seed is the same task, here and in training.

With --record FILE, an episode that came to its end is added to a trace, for `branchwise sft BENCHMARK --from FILE` to learn from.
Otherwise nothing is written to disk.
"""

_EXAMPLES = """\
examples:
  branchwise play household --seed 7
  branchwise play branchwise/Household-v0 --split valid_unseen --policy expert
  branchwise play household --seed 7 --record played.sqlite
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("env", metavar="ENV", help="environment: its id, or the name in it (household)")
    parser.add_argument("--seed", metavar="N", type=count, default=0, help="which task (default: 0)")
    parser.add_argument("--split", help="split of the environment (default: its first)")
    parser.add_argument("--max-turns", metavar="N", type=count, help="turns after which the episode is cut (default: the environment's)")
    parser.add_argument("--policy", choices=("human", "random", "expert"), default="human", help="who acts (default: human)")
    parser.add_argument("--record", metavar="FILE", type=Path, help="add the episode to this trace file, which is made if need be")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Play to the end of the episode; 1 where an expert did not solve its task."""
    import numpy as np

    import envs
    from trainer.console import Console
    from trainer.errors import UsageError
    from trainer.played_episode import PlayedEpisode, open_record

    spec = envs.spec(envs.full_id(arguments.env))
    if arguments.split is not None and arguments.split not in spec.splits:
        raise UsageError(f"{spec.id} has no split {arguments.split!r}; choose one of {', '.join(spec.splits)}")
    # A record names its split, so that it is seen which tasks were played.
    split = arguments.split or (spec.splits[0] if arguments.record else None)
    given = {"split": split, "max_turns": arguments.max_turns}
    chosen = {name: value for name, value in given.items() if value is not None}
    env = envs.make(spec.id, **chosen)
    rng = np.random.default_rng(arguments.seed)
    policies: dict[str, ScriptedPolicy | None] = {"human": None, "random": envs.RandomPolicy(rng), "expert": envs.ExpertPolicy()}
    played = PlayedEpisode(spec.id, arguments.seed, chosen, arguments.policy)
    try:
        with open_record(arguments.record) if arguments.record else nullcontext() as trace:
            solved = _episode(env, arguments.seed, policies[arguments.policy], Console(), played)
            if trace is not None:
                number = played.append_to(trace)
                left = "an episode that was left has no outcome and is not recorded"
                _print(Console(), left if number is None else f"recorded as tree {number} in {arguments.record}", "dim")
    finally:
        env.close()
    return 1 if arguments.policy == "expert" and not solved else 0


def _episode(env: "TextEnv", seed: int, policy: "ScriptedPolicy | None", console: "Console", played: "PlayedEpisode") -> bool:
    observation, info = env.reset(seed=seed)
    turns, total, done = 0, 0.0, False
    _print(console, observation)
    while not done:
        action = policy(env) if policy else _ask(env, console)
        if action is None:
            break
        if policy:
            _print(console, f"> {action}", "bold cyan")
        before = observation, env.state_signature()
        observation, reward, terminated, truncated, info = env.step(action)
        played.add(before, action, (float(reward), terminated, truncated, info), env.state_signature())
        turns, total, done = turns + 1, total + float(reward), terminated or truncated
        _print(console, observation, "" if info.get("valid", True) else "yellow")
    solved = bool(info.get("success", False))
    outcome = "solved" if solved else "not solved" if done else "left"
    _print(console, f"{outcome} after {turns} turns, return {total:g}", "bold green" if solved else "bold")
    return solved


def _ask(env: "TextEnv", console: "Console") -> str | None:
    """The next action that a person typed; None at the end of input or for an empty line. What came through a pipe is echoed."""
    from rich.text import Text

    from envs import AbilityError

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
            _print(
                console,
                "\n".join(f"  {action}" for action in env.admissible_actions()) if line == "?" else f"  {env.expert_action()}",
                "dim",
            )
        except AbilityError as error:
            _print(console, f"  {error}", "dim")


def _print(console: "Console", text: str, style: str = "") -> None:
    """Print a text of the environment as it is: no markup, nothing cut."""
    from rich.text import Text

    console.print(Text(text, style=style), soft_wrap=not console.is_terminal)
