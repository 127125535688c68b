"""Showing reads what was recorded; nothing is executed."""

import numpy as np
from rich.console import Console
from rich.text import Text

from trainer.recorded.lines import head, origin_of, outline, say, turn_line
from trainer.recorded.lookup import find_place, known_advantages
from trainer.recorded.place import Place
from trainer.recorded.token_texts import TokenTexts
from trainer.run_folder import RunFolder
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn


def show(folder: RunFolder, place: Place, console: Console, tokens: bool) -> int:
    """Print a tree, a line per turn; or one turn with all that is known of it, and with `tokens` each token that was sampled."""
    with Trace.open(folder.trace, readonly=True) as trace:
        summary, tree = find_place(trace, place)
        given_N = known_advantages(trace, summary)
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
    reader = TokenTexts.of_run(folder)
    say(console, f"\ntokens, read by {reader.name}", "bold")
    ids, mask_T = turn.ids_T[turn.mask_T], turn.mask_T
    for token, text, logprob, entropy in zip(ids, reader.read(ids), turn.logprobs_T[mask_T], turn.entropies_T[mask_T], strict=True):
        say(console, f"{int(token):>8} {text!r:<24} log-probability {logprob:8.4f}   entropy {entropy:7.4f}")
