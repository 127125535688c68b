"""A user asks for one thing after the other, and the agent calls tools: a step is one message, a fork copies what a message changes."""

import json
from collections.abc import Sequence
from typing import Any

from envs.arguments import one_of, whole_number
from envs.errors import EnvironmentArgumentError, NoEpisodeError, nearest
from envs.text_env import TextEnv
from envs.tools.bfcl.calls import END_TURN, MOST_CALLS, Call, MessageError, read_message, write_message
from envs.tools.bfcl.conversation import Conversation
from envs.tools.bfcl.tasks import CATEGORIES, SPLITS, numbers, task
from envs.tools.bfcl.tool_texts import tool_text

Snapshot = tuple[Conversation, int]
FORMS = ("json", "python")
DETAILS = ("full", "short")
REWARDS = ("task", "turns")
_END = "When the user's request is done, or cannot be done, call"
_HOW = {
    "json": 'Call them as JSON, {"name": "...", "arguments": {...}}, several as an array. '
    + f'{_END} {{"name": "{END_TURN}", "arguments": {{}}}}.',
    "python": f"Call them as Python, name(argument=value), several as a list in one line. {_END} {END_TURN}().",
}


class BfclEnv(TextEnv):
    """One conversation: reward 1 when every turn passes the leaderboard's checks of state and answers; the first that fails ends it.

    Args:
        split: `train`, or `test` (every fifth scenario, in all categories).
        max_turns: messages per episode.
        category: `base`, `miss_func` (a tool is listed too late; as on the leaderboard, it works if it is called before), `miss_param`
            (the user forgets to say something), `long_context`, or a list of these.
        calls: the form that the task asks for and the expert writes; both `json` and `python` are understood.
        tools: how tools are described, `full` or `short` (a line each).
        reward: `task` (1 for the whole conversation), or `turns` (for each turn that passes, its share of the 1).
    """

    step_deadline_s = 20.0  # A tool computes powers and factors of any number that it is given.

    def __init__(
        self,
        split: str = "train",
        max_turns: int = 40,
        category: str | Sequence[str] = "base",
        calls: str = "json",
        tools: str = "full",
        reward: str = "task",
    ) -> None:
        super().__init__()
        for name, value, allowed in (
            ("split", split, SPLITS),
            ("calls", calls, FORMS),
            ("tools", tools, DETAILS),
            ("reward", reward, REWARDS),
        ):
            one_of(name, value, allowed)
        whole_number("max_turns", max_turns, 1)
        self.split, self.max_turns, self.calls, self.tools, self.reward = split, max_turns, calls, tools, reward
        self.categories = _categories(category)
        self._numbers = numbers(split)
        self._conversation: Conversation | None = None
        self._turns = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a conversation; the observation lists the tools and says what the user asks for first."""
        super().reset(seed=seed)
        category = self.categories[int(self.np_random.integers(len(self.categories)))]
        drawn = task(category, self._numbers[int(self.np_random.integers(len(self._numbers)))])
        self._conversation, self._turns = Conversation(drawn, drawn.apis), 0
        offered = tool_text(drawn.added(0), self.tools)
        observation = f"You can call these tools:\n{offered}\n{_HOW[self.calls]}\n\nUser: {drawn.requests[0]}"
        return observation, {"valid": True, "success": False, "task_type": drawn.category}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carry out a message; one that is not understood, or names a tool that there is not, changes nothing."""
        now = self._now()
        self._turns += 1
        reward, valid = 0.0, True
        try:
            calls, ends = _split(now, read_message(action))
        except MessageError as error:
            observation, valid = f"Not understood: {error}.", False
        else:
            after = now.call(calls) if calls else now
            observation = "\n".join(after.answers[len(now.answers) :])
            if ends:
                after = after.end_turn()
                reward = self._reward(after)
                observation = "\n".join(filter(None, (observation, self._request(after))))
            self._conversation = now = after
        success = now.ended and not now.failure
        info = {"valid": valid, "success": success, "task_type": now.task.category, "turns_passed": now.turn - bool(now.failure)}
        return observation, reward, now.ended, not now.ended and self._turns >= self.max_turns, info

    def snapshot(self) -> Snapshot:
        return self._now(), self._turns

    def restore(self, snapshot: Snapshot) -> None:
        self._conversation, self._turns = snapshot

    def state_signature(self) -> str:
        """The user turn, the state of all APIs, and which answers are there that a later check asks for; not the calls that led there."""
        return self._now().signature()

    def expert_action(self) -> str:
        """The right calls of this turn that are still missing, in one message, then the end of the turn."""
        now = self._now()
        missing = () if now.ended else now.missing()[:MOST_CALLS]
        return write_message(missing or (Call(END_TURN, {}),), self.calls)

    def _request(self, now: Conversation) -> str:
        """What the user says after a turn."""
        if now.failure:
            return f"The conversation ends: {now.failure}."
        if now.ended:
            return "The conversation ends: all that was asked for is done."
        added = now.task.added(now.turn)
        news = f"You can call these tools as well:\n{tool_text(added, self.tools)}\n" if added else ""
        return f"{news}User: {now.task.requests[now.turn]}"

    def _reward(self, after: Conversation) -> float:
        if after.failure:
            return 0.0
        return 1.0 / len(after.task.gold) if self.reward == "turns" else float(after.ended)

    def _now(self) -> Conversation:
        if self._conversation is None:
            raise NoEpisodeError("there is no conversation yet; call reset(seed=...) first")
        return self._conversation


def _split(now: Conversation, calls: tuple[Call, ...]) -> tuple[tuple[Call, ...], bool]:
    """The calls of tools, and whether the turn ends with the message; `MessageError` for what cannot be called."""
    if now.ended:
        raise MessageError("the conversation has ended")
    ends = calls[-1].name == END_TURN
    if ends and (calls[-1].arguments or calls[-1].positional):
        raise MessageError(f"{END_TURN} takes no arguments")
    calls = calls[:-1] if ends else calls
    for call in calls:
        if call.name == END_TURN:
            raise MessageError(f"{END_TURN} must come last")
        if call.name not in now.task.tools:
            raise MessageError(f"no tool is called {json.dumps(call.name[:100])}")
    return calls, ends


def _categories(given: Any) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not names:
        raise EnvironmentArgumentError(f"category is {given!r}; it must be a name, or a list of names such as ['base', 'miss_func']")
    for index, name in enumerate(names):
        if name not in CATEGORIES:
            raise EnvironmentArgumentError(f"category {name!r} is unknown; {nearest(str(name), CATEGORIES)}")
        if name in names[:index]:
            raise EnvironmentArgumentError(f"category {name!r} is named twice; name it once")
    return tuple(names)
