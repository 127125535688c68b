"""Settings of how the policy converses."""

from typing import Annotated

from pydantic import Field, JsonValue

from trainer.config.section import Section


class AgentConfig(Section):
    """How the policy converses."""

    chat_template: str | None = None
    """Built-in chat template: `chatml`, `llama3`, `gemma3` or `plain`; null takes the one that the policy's tokenizer has."""
    system: str | None = None
    """Text of the system message; null leaves it to the template whether there is one."""
    stop_tokens: list[str] = []
    """Special tokens that end a turn besides those of the template and the tokenizer."""
    action_format: str = "text"
    """What of a turn is the action: `text` (its first line), `tagged` (`<action>...</action>`) or `tool_call` (JSON of Hermes and Qwen)."""
    action_settings: dict[str, Annotated[int, Field(ge=1)]] = {}
    """The action format's own settings, by name."""
    memory: str = "whole_history"
    """How much of the past the policy sees: `whole_history` or `sliding_window`."""
    memory_settings: dict[str, JsonValue] = {}
    """The memory's own settings, by name: `turns` or `tokens` of a sliding window, and more."""
    follow_rewrites: bool = True
    """Where the chat template rewrites earlier turns, show the policy what it writes; false lets them stand as they were sampled."""
