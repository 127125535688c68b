"""A fork goes on from the state before a recorded turn and is kept in the same tree as soon as it has ended; what was there stays."""

from collections.abc import Callable, Sequence

import numpy as np
from rich.console import Console

from trainer.recorded.human_policy import HumanPolicy, LeftError
from trainer.recorded.lines import head, outcome_of, say
from trainer.recorded.lookup import find_place
from trainer.recorded.place import Place
from trainer.recorded.replaying import environment
from trainer.run_folder import RunFolder
from tree_rollout.fork import SCRIPTED_POLICIES, Policy, fork
from tree_rollout.trace import Trace
from tree_rollout.turn import Turn

UNTIL_END = 10_000
"""Turns of a fork that goes on until the environment ends it; one that never ends is cut there."""


def fork_tree(
    folder: RunFolder,
    place: Place,
    policy: Policy,
    console: Console,
    *,
    count: int = 1,
    seed: int | None = None,
    max_turns: int | None = None,
) -> int:
    """Go on `count` times from the state before the turn at `place`, add the new turns to the trace, and print them.

    `seed` None is the number of forks that the tree has, so that a second fork at random draws anew; `max_turns` None is the run's
    env.max_turns. Each fork is recorded before the next one begins.
    """
    assert place.turn is not None
    limit = max_turns if max_turns is not None else folder.read_config().env.max_turns
    with Trace.open(folder.trace) as trace:
        summary, tree = find_place(trace, place)
        first = summary.forks if seed is None else seed
        say(console, f"{head(summary)}: {policy.name} goes on before turn {place.turn}", "bold")
        solved = 0
        with environment(tree) as env:
            for number in range(count):
                rng = np.random.default_rng([first + number, place.turn])
                try:
                    turns = fork(tree, place.turn, policy, env, rng=rng, max_turns=limit)
                except LeftError as left:
                    say(console, str(left), "dim")
                    return 0
                indices = trace.add_fork(summary.id, turns)
                solved += turns[-1].success
                _print_fork(console, indices, turns)
    if count > 1:
        say(console, f"{count} forks recorded in tree {summary.id}, {solved} of them solved", "bold")
    return 0


def chosen_policy(name: str, folder: RunFolder, console: Console, server: Callable[[], tuple[str, str]]) -> Policy:
    """The policy of that name; `server` gives the address and the model of an OpenAI-compatible server when it is asked for."""
    if name in SCRIPTED_POLICIES:
        return SCRIPTED_POLICIES[name]
    if name == "human":
        return HumanPolicy(console)
    from trainer.engine_policy import EnginePolicy

    return EnginePolicy.of_server(folder, *server()) if name == "openai" else EnginePolicy.of_run(folder)


def _print_fork(console: Console, indices: Sequence[int], turns: Sequence[Turn]) -> None:
    for index, turn in zip(indices, turns, strict=True):
        say(console, f"      {turn.observation}", "dim")
        say(console, f"{index:>5} {turn.action}", "" if turn.valid else "yellow")
    outcome, total = outcome_of(turns)
    say(console, f"recorded {len(turns)} turns as {indices[0]} to {indices[-1]}: {outcome}, return {total:g}", "bold")
