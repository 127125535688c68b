"""A conversation in progress as a frozen value; a turn counts where the package's own two checks pass at its end."""

import hashlib
from collections import Counter
from dataclasses import dataclass, replace

from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import response_checker, state_checker

from envs.tools.bfcl.apis import Apis, run
from envs.tools.bfcl.calls import Call
from envs.tools.bfcl.state_text import state_text
from envs.tools.bfcl.tasks import Task


@dataclass(frozen=True, slots=True, eq=False)
class Conversation:
    """Where a conversation stands."""

    task: Task
    apis: Apis
    turn: int = 0
    """The user turn, from 0; the number of turns after the last."""
    answers: tuple[str, ...] = ()
    """What all calls so far answered."""
    calls: tuple[Call, ...] = ()
    """Calls of the present turn."""
    failure: str = ""
    """Why the turn that ended last does not count; "" where it does."""

    @property
    def ended(self) -> bool:
        """True after the last turn, and after one that does not count."""
        return bool(self.failure) or self.turn == len(self.task.gold)

    def call(self, calls: tuple[Call, ...]) -> "Conversation":
        """The conversation after a message of calls."""
        apis, answers = run(self.apis, calls)
        return replace(self, apis=apis, answers=self.answers + answers, calls=self.calls + calls)

    def end_turn(self) -> "Conversation":
        """The conversation after the agent has said that it is done with the user's request."""
        return replace(self, turn=self.turn + 1, calls=(), failure=self._failure())

    def signature(self) -> str:
        """The state of the APIs, and of the answers so far as many as a later check can still ask for."""
        if self.ended:
            return f"ended {self.turn} {self.failure}"
        state = hashlib.sha256(state_text(self.apis).encode(errors="surrogatepass")).hexdigest()[:24]
        had = sorted((answer, count) for answer, count in (self._wanted() & Counter(self.answers)).items())
        answers = hashlib.sha256(repr(had).encode()).hexdigest()[:12] if had else "-"
        return f"turn {self.turn} called {bool(self.calls)} state {state} answers {answers}"

    def missing(self) -> tuple[Call, ...]:
        """The right calls of this turn that have not been made in their order."""
        gold = list(self.task.gold[self.turn].calls)
        for call in self.calls:
            if gold and call.key == gold[0].key:
                gold.pop(0)
        return tuple(gold)

    def _wanted(self) -> Counter[str]:
        """How often each answer can still be asked for: a check never wants an answer more often than one turn's right calls give it."""
        wanted: Counter[str] = Counter()
        for gold in self.task.gold[self.turn :]:
            wanted |= Counter(gold.answers)
        return wanted

    def _failure(self) -> str:
        gold = self.task.gold[self.turn]
        if not gold.calls:  # Nothing can be done in such a turn, and the leaderboard checks nothing after it.
            return ""
        if not self.calls:
            return "nothing was called"
        if not state_checker(self.apis, gold.apis)["valid"]:
            return "the state differs"
        if not response_checker(list(self.answers), list(gold.answers), self.turn)["valid"]:
            return "an answer is missing"
        return ""
