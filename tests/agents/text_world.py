"""A handful of household sentences, and chat templates in the style of well-known model families."""

from transformers import PreTrainedTokenizerFast

from agents.tokenizer import train_tokenizer

ENTITIES = [f"{name} {number}" for name in ("drawer", "mug", "pen", "side table") for number in range(1, 13)]
SENTENCE = "You arrive at drawer 2. On the drawer 2, you see a mug 1, and a pen 3."
TEXTS = [
    SENTENCE,
    "You are in the middle of a room. Looking quickly around you, you see a drawer 1, and a side table 2.\n",
    "Your task is to: put a clean mug in drawer.\n",
    "go to drawer 1",
    "move mug 1 to drawer 12",
    "Nothing happens.",
] * 20

CHATML = (
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful agent.<|im_end|>\n' }}{% endif %}"
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA3 = (
    "{{ '<|begin_of_text|>' }}{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
GEMMA = (
    "{{ '<bos>' }}{% for message in messages %}{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
FAMILIES = {
    "chatml": (CHATML, ["<|im_start|>", "<|im_end|>"], "<|im_end|>"),
    "llama3": (LLAMA3, ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], "<|eot_id|>"),
    "gemma": (GEMMA, ["<bos>", "<start_of_turn>", "<end_of_turn>"], "<end_of_turn>"),
}


def household_tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(TEXTS, ENTITIES, 500)


def family_tokenizer(family: str) -> PreTrainedTokenizerFast:
    """The household tokenizer with the special tokens and the chat template of another family."""
    if family == "own":
        return household_tokenizer()
    template, special, end = FAMILIES[family]
    tokenizer = household_tokenizer()
    tokenizer.add_special_tokens({"extra_special_tokens": special})
    tokenizer.eos_token = end
    tokenizer.chat_template = template
    return tokenizer
