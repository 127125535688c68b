"""Showing reads what was recorded; nothing is executed."""

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from agents.policy_folder import load_tokenizer
from trainer.errors import TrainerError
from trainer.recorded.lines import head, origin_of, outline, say, turn_line
from trainer.recorded.lookup import find_place
from trainer.recorded.place import Place
from trainer.run_folder import RunFolder
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn


def show(folder: RunFolder, place: Place, console: Console, tokens: bool) -> int:
    """Print a tree, a line per turn; or one turn with all that is known of it, and with `tokens` each token that was sampled."""
    with Trace.open(folder.trace, readonly=True) as trace:
        summary, tree = find_place(trace, place)
        advantages_N = trace.advantages(summary.id)
    given_N = np.full(len(tree.turns), np.nan) if advantages_N is None else advantages_N
    say(console, head(summary), "bold")
    if place.turn is None:
        for index, depth in outline(tree):
            advantage = "" if np.isnan(given_N[index]) else f"advantage {given_N[index]:+.3f}"
            console.print(turn_line(index, depth, tree.turns[index], advantage), soft_wrap=True)
        say(console, f"`branchwise show {folder.path} {summary.id}:TURN` shows one of them", "dim")
        return 0
    _show_turn(console, tree, place.turn, float(given_N[place.turn]))
    if tokens:
        _show_tokens(console, folder, tree.turns[place.turn])
    return 0


def _show_turn(console: Console, tree: TrajectoryTree, index: int, advantage: float) -> None:
    turn = tree.turns[index]
    siblings = [other for other in tree.children(turn.parent) if other != index]
    facts = {
        "turn": f"{index}, at depth {len(tree.path(index))}",
        "origin": origin_of(turn),
        "siblings": ", ".join(f"{other} ({tree.turns[other].action})" for other in siblings),
        "state": f"{turn.state} -> {turn.next_state}",
        "reward": f"{turn.reward:g}" + (", solved" if turn.success else ""),
        "end": str(turn.stop_reason or ""),
        "valid": "" if turn.valid else "no, the environment refused the action",
        "advantage": "" if np.isnan(advantage) else f"{advantage:+.6f}",
        "sampled": f"{int(turn.mask_T.sum())} tokens by policy version {turn.policy_version}" if turn.mask_T.any() else "",
        "entropy": f"{turn.entropy:.4f} nats a token" if turn.mask_T.any() else "",
        "log-probability": f"{float(turn.logprobs_T[turn.mask_T].sum()):.4f} nats" if turn.mask_T.any() else "",
    }
    for name, value in facts.items():
        if value:
            line = Text(f"{name:<16}", style="dim")
            console.print(line.append(value, style="default"), soft_wrap=True)
    say(console, "\nobservation", "bold")
    say(console, turn.observation)
    say(console, "\naction", "bold")
    say(console, turn.action)


def _show_tokens(console: Console, folder: RunFolder, turn: Turn) -> None:
    """Each sampled token as the run's tokenizer reads it, with its log-probability and its entropy."""
    tokenizer, name = _tokenizer(folder)
    say(console, f"\ntokens, read by {name}", "bold")
    for token, logprob, entropy in zip(turn.ids_T[turn.mask_T], turn.logprobs_T[turn.mask_T], turn.entropies_T[turn.mask_T], strict=True):
        text = repr(tokenizer.decode([int(token)])) if tokenizer is not None else ""
        say(console, f"{int(token):>8} {text:<24} log-probability {logprob:8.4f}   entropy {entropy:7.4f}")


def _tokenizer(folder: RunFolder):
    """The tokenizer of a policy that the run keeps, and where it lies; None where it keeps none."""
    try:
        path: Path = folder.chosen_policy()[1]
    except TrainerError:
        return None, "nobody, as the run keeps no policy"
    return load_tokenizer(path), str(path)
