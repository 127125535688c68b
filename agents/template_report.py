"""A tokenizer's conversations grow to what its chat template would write for the whole of them, or the report says where they do not.

The comparison is with the whole conversation rendered and tokenised at once, after every observation of several hard conversations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from agents.chat_renderer import ChatRenderer, Ids, special_tokens
from agents.context import Context
from agents.errors import ContextError
from agents.turn_template import TurnTemplate

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Agreement(StrEnum):
    """How increments and the whole rendering compare, from the best on."""

    IDS = "ids"
    """Token for token the same."""
    TEXT = "text"
    """The same text in other tokens: the whole rendering merges across a boundary, or makes a special token of an observation's text."""
    TRIMMED = "trimmed"
    """The same but for white space around a sampled turn, which the template would trim; the sample stands as it was drawn."""
    DIFFERS = "differs"
    """Another text."""


_ORDER = list(Agreement)


@dataclass(frozen=True, slots=True)
class Probe:
    """A conversation to try, which ends with an observation."""

    name: str
    observations: tuple[str, ...]
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What came of one probe."""

    name: str
    agreement: Agreement
    """The worst of its turns."""
    segments: int
    """New segments that had to begin because the template rewrites history."""
    difference: str
    """Where the first difference is and how both sides go on; "" where ids agree."""


@dataclass(frozen=True, slots=True)
class TemplateReport:
    """What a check of a tokenizer and its template found."""

    results: tuple[ProbeResult, ...]

    @property
    def faithful(self) -> bool:
        """True where a conversation never reads otherwise than the template would write it, white space around samples aside."""
        return all(result.agreement is not Agreement.DIFFERS for result in self.results)

    @property
    def rewrites(self) -> bool:
        """True where history is rewritten, so that new segments begin."""
        return any(result.segments for result in self.results)

    def __str__(self) -> str:
        """A line for each probe."""
        lines = []
        for result in self.results:
            segments = f", new segments: {result.segments}" if result.segments else ""
            lines.append(f"{result.name}: {result.agreement}{segments}" + (f" ({result.difference})" if result.difference else ""))
        return "\n".join(lines)


def check_template(
    tokenizer: "PreTrainedTokenizerBase", *, chat_template: str | None = None, system: str | None = None, probes: Sequence[Probe] = ()
) -> TemplateReport:
    """Try the template, as `TurnTemplate.from_tokenizer` takes it, on conversations that are known to go wrong, and on `probes`.

    Raises what `TurnTemplate.from_tokenizer` raises, where the template cannot be followed at all.
    """
    template = TurnTemplate.from_tokenizer(tokenizer, chat_template=chat_template, system=system)
    return TemplateReport(tuple(_try(template, probe) for probe in (*standard_probes(tokenizer), *probes)))


def standard_probes(tokenizer: "PreTrainedTokenizerBase") -> tuple[Probe, ...]:
    """Conversations with what templates and tokenizers are known to stumble over."""
    specials = " ".join(special_tokens(tokenizer))
    response, call = '<tool_response>\n{"ok": true}\n</tool_response>', '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
    return (
        Probe("words", ("You are in a room.", "Nothing happens.", "You see a mug 1."), ("go to drawer 2", "open drawer 2")),
        Probe("white space", ("  two before", "\ttab and two after  ", " "), (" look ", "open\n")),
        Probe("line breaks", ("\n\nabove", "a\n\n\nb\n", "below\n\n"), ("look\naround", "a.\n\nb")),
        Probe("special tokens", (f"It reads: {specials}", specials, "x<|im_"), ("read it", "write <|im_end")),
        Probe("unicode", ("\U0001f469\u200d\U0001f680 öffnet 门", "e\u0301 and \u05d0\u05d1", "\u00a0\u3000"), ("öffne Türe", "走")),
        Probe("empty", ("", "", "x"), ("look", "look")),
        Probe("tool results", ("Call the tool.", response, f"{response}\n{response}"), (call, f"{call}\n{call}")),
        Probe("thinking", ("first", "second", "third"), ("<think>\nwhy\n</think>\n\nlook", "<think>so</think>go")),
        Probe(
            "thinking and tools", ("first", response, "now this"), (f"<think>\nwhy\n</think>\n\n{call}", "<think>\nso\n</think>\n\ndone")
        ),
    )


def _try(template: TurnTemplate, probe: Probe) -> ProbeResult:
    """Drive a conversation as a sampler would, and compare after each observation."""
    context, renderer = Context(template), template.renderer
    worst, difference, segments = Agreement.IDS, "", 0
    for turn, observation in enumerate(probe.observations):
        try:
            segments += context.extend(observation).new_segment
            whole = renderer.render(probe.observations[: turn + 1], probe.actions[:turn])
        except ContextError as error:
            return ProbeResult(probe.name, Agreement.DIFFERS, segments, str(error))
        ours_T, theirs_T = context.ids(), renderer.encode(whole)
        agreement = _compare(renderer, ours_T, theirs_T, probe.observations[: turn + 1], probe.actions[:turn])
        if _ORDER.index(agreement) > _ORDER.index(worst):
            worst, difference = agreement, _difference(renderer, ours_T, theirs_T)
        if turn < len(probe.actions):
            sample_T = np.append(template.encode_text(probe.actions[turn]), np.int32(template.stop_id))
            context.record(sample_T, stopped=True)
    return ProbeResult(probe.name, worst, segments, difference)


def _compare(renderer: ChatRenderer, ours_T: Ids, theirs_T: Ids, observations: Sequence[str], actions: Sequence[str]) -> Agreement:
    if np.array_equal(ours_T, theirs_T):
        return Agreement.IDS
    ours, theirs = renderer.decode(ours_T), renderer.decode(theirs_T)
    if ours == theirs:
        return Agreement.TEXT
    names = [f"quokka{index}quokka" for index in range(len(actions))]
    kept = trimmed = renderer.render(observations, names)
    for name, action in zip(names, actions, strict=True):
        kept, trimmed = kept.replace(name, action), trimmed.replace(name, action.strip())
    return Agreement.TRIMMED if (ours, theirs) == (_normal(renderer, kept), _normal(renderer, trimmed)) else Agreement.DIFFERS


def _normal(renderer: ChatRenderer, text: str) -> str:
    """A text as it comes back from its tokens; some tokenizers change what they encode."""
    return renderer.decode(renderer.encode(text))


def _difference(renderer: ChatRenderer, ours_T: Ids, theirs_T: Ids) -> str:
    common = min(len(ours_T), len(theirs_T))
    different_T = np.flatnonzero(ours_T[:common] != theirs_T[:common])
    place = int(different_T[0]) if different_T.size else common
    ours, theirs = (
        [renderer.decode(ids_T[index : index + 1]) for index in range(place, min(place + 4, len(ids_T)))] for ids_T in (ours_T, theirs_T)
    )
    return f"from token {place} on, increments have {ours}, the whole rendering {theirs}"
