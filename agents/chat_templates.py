"""Each built-in chat template is a Jinja source that writes every turn the same way, whatever comes after it, so increments can follow it.

The formats are those of the model families; the sources are ours. They know the roles system (first only), user and assistant.
"""

from dataclasses import dataclass

from agents.errors import SettingError
from agents.nearest import nearest


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A named chat template."""

    source: str
    """Jinja, as `tokenizer.chat_template` holds it."""
    tokens: tuple[str, ...]
    """Special tokens that the tokenizer must have."""
    about: str
    """One sentence for people who choose."""


def _opens(turn: str) -> str:
    """Jinja that opens the policy's next turn."""
    return "{%- if add_generation_prompt -%}{{- '" + turn + "' -}}{%- endif -%}"


_CHATML_TURNS = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}"
    "{%- endfor -%}" + _opens("<|im_start|>assistant\\n")
)
_CHATML_DEFAULT = (
    "{%- if messages[0]['role'] != 'system' -%}{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}{%- endif -%}"
)
_LLAMA3 = (
    "{{- '<|begin_of_text|>' -}}"
    "{%- for message in messages -%}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' -}}"
    "{%- endfor -%}" + _opens("<|start_header_id|>assistant<|end_header_id|>\\n\\n")
)
_GEMMA3 = (
    "{{- '<bos>' -}}"
    "{%- set told = messages[0]['role'] == 'system' -%}"
    "{%- for message in (messages[1:] if told else messages) -%}"
    "{{- '<start_of_turn>' + ('model' if message['role'] == 'assistant' else 'user') + '\\n' -}}"
    "{{- messages[0]['content'] + '\\n\\n' if told and loop.first else '' -}}"
    "{{- message['content'] | trim + '<end_of_turn>\\n' -}}"
    "{%- endfor -%}" + _opens("<start_of_turn>model\\n")
)
_PLAIN = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'system' -%}{{- message['content'] + '\\n\\n' -}}"
    "{%- elif message['role'] == 'user' -%}{{- 'Observation:\\n' + message['content'] + '\\n\\n' -}}"
    "{%- else -%}{{- 'Action:\\n' + message['content'] + eos_token + '\\n\\n' -}}"
    "{%- endif -%}"
    "{%- endfor -%}" + _opens("Action:\\n")
)

_CHATML_TOKENS = ("<|im_start|>", "<|im_end|>")

CHAT_TEMPLATES = {
    "chatml": ChatTemplate(_CHATML_TURNS, _CHATML_TOKENS, "Qwen and SmolLM2, without a system message unless one is given"),
    "chatml_default": ChatTemplate(
        _CHATML_DEFAULT + _CHATML_TURNS, _CHATML_TOKENS, "the same, with a system message even if none is given"
    ),
    "llama3": ChatTemplate(
        _LLAMA3,
        ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        "Llama 3, without dates; white space around a turn is dropped",
    ),
    "gemma3": ChatTemplate(
        _GEMMA3,
        ("<bos>", "<start_of_turn>", "<end_of_turn>"),
        "Gemma 3; the system message opens the first user turn, white space around a turn is dropped",
    ),
    "plain": ChatTemplate(_PLAIN, (), "ordinary words; needs no special token but the tokenizer's end token"),
}


def chat_template(name: str) -> ChatTemplate:
    """The built-in template of that name; `SettingError` where there is none."""
    if name not in CHAT_TEMPLATES:
        raise SettingError(f"there is no chat template {name!r}; {nearest(name, CHAT_TEMPLATES)}")
    return CHAT_TEMPLATES[name]
