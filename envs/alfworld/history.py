"""How a state was reached, as a chain of turns that never change; rollouts that share a beginning share its turns."""

from dataclasses import dataclass

from envs.alfworld.world import State


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One turn of an episode, or its start."""

    before: "Turn | None"
    """None at the start."""
    command: str
    """Empty at the start."""
    observation: str
    state: State
    """After the command."""
    number: int
    """Turns so far; 0 at the start."""

    def since(self, earlier: "Turn | None") -> "list[Turn] | None":
        """The turns after `earlier` up to this one; None where `earlier` is not on the way here. Of None: all, with the start."""
        turns: list[Turn] = []
        turn: Turn | None = self
        while turn is not None and turn is not earlier:
            turns.append(turn)
            turn = turn.before
        return turns[::-1] if turn is earlier else None
