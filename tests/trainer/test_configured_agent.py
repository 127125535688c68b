from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from agents.errors import SettingError
from agents.memory import SlidingWindow
from agents.tagged_action import TaggedAction
from agents.tokenizer import train_tokenizer
from trainer.config import AgentConfig
from trainer.configured_agent import configured_agent

CHATML = (
    "{%- for message in messages -%}{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)


def tokenizer(template: str = CHATML) -> PreTrainedTokenizerFast:
    made = train_tokenizer(["You have box 1. Go on."], ["box 1"], 300)
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>", "<|eot|>"]})  # pyright: ignore
    made.chat_template = template
    return made


def agent(template: str = CHATML, **changes: Any) -> Any:
    return configured_agent(AgentConfig.model_validate(changes), tokenizer(template))


def prompt(talking: Any) -> str:
    return talking.text(talking.context().extend("Hello.").ids_T.tolist())


def test_an_agent_talks_as_it_is_configured() -> None:
    assert "system" not in prompt(agent())
    assert prompt(agent(system="Be brief.")).startswith("<|im_start|>system\nBe brief.<|im_end|>")
    other = CHATML.replace("'assistant\\n'", "'assistant\\n'").replace("<|im_end|>\n", "<|im_end|> ")
    assert prompt(agent(other)) != prompt(agent()) == prompt(agent(other, chat_template="chatml"))
    eot = tokenizer().convert_tokens_to_ids("<|eot|>")
    assert eot not in agent().stop_ids and eot in agent(stop_tokens=["<|eot|>"]).stop_ids
    thinking = CHATML.replace("message['content']", "message['content'].split('</think>')[-1]")
    assert not agent(thinking).keeps_everything and agent(thinking, follow_rewrites=False).keeps_everything
    window = agent(memory="sliding_window", memory_settings={"turns": 3})
    assert window.memory == SlidingWindow(turns=3) and not window.keeps_everything
    assert agent(action_format="tagged", action_settings={"max_length": 9}).action_format == TaggedAction(9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"memory": "slidingwindow"}, "sliding_window"),
        ({"memory_settings": {"turns": 3}}, "turns"),
        ({"action_format": "tag"}, "tagged"),
        ({"action_settings": {"length": 3}}, "length"),
        ({"chat_template": "chat_ml"}, "chatml"),
    ],
)
def test_what_does_not_exist_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        agent(**changes)
