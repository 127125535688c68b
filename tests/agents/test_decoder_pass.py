"""A decoder's pass gives, to the last bit, what a call of the model gives; a model that somebody hooked or wrapped is called itself."""

from typing import Any

import numpy as np
import pytest
import torch
from engine_world import VOCAB, tiny_model
from transformers import MistralConfig, MistralForCausalLM, PreTrainedModel

from agents.cached_attention import PrefillStep
from agents.cached_model import CachedModel
from agents.decoder_pass import decoder_logits
from agents.engine_counters import EngineCounters

COUNT = 7


def _mistral() -> PreTrainedModel:
    torch.manual_seed(0)
    sizes: Any = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    return MistralForCausalLM(MistralConfig(vocab_size=VOCAB, max_position_embeddings=160, sliding_window=None, **sizes)).eval()


def _build(kind: str) -> PreTrainedModel:
    return _mistral() if kind == "mistral" else tiny_model(kind)


def _passed(model: Any, last: list[int] | None, whole: bool) -> torch.Tensor:
    """Logits of a prefill, by a call of the model or by `decoder_logits`."""
    served = CachedModel(model, 160, 1 << 20, EngineCounters())
    cache = served.build_cache(1)
    rows, starts = np.array([cache.acquire()]), np.array([0])
    ids, positions = torch.arange(1, COUNT + 1), torch.arange(COUNT)
    with served.serving():
        step = PrefillStep(cache, rows, starts, np.array([COUNT]), served._groups)
        kept = None if last is None else torch.tensor(last)
        if not whole:
            return decoder_logits(model, ids, positions, kept, step)
        keep = 0 if kept is None else kept
        return model(input_ids=ids[None], position_ids=positions[None], use_cache=False, logits_to_keep=keep, cache_step=step).logits[0]


@pytest.mark.parametrize("last", [None, [2, COUNT - 1]])
@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3"])
def test_it_gives_the_logits_of_a_call(kind: str, last: list[int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _build(kind)
    expected = _passed(model, last, whole=True)
    monkeypatch.setattr(type(model), "forward", _not_called)
    assert torch.equal(_passed(model, last, whole=False), expected)


def _not_called(*_args: object, **_kwargs: object) -> None:
    raise AssertionError("the model itself was called")


def test_a_hook_on_the_model_or_its_decoder_is_called() -> None:
    model: Any = tiny_model()
    plain = _passed(model, None, whole=False)
    seen: list[str] = []
    for name, module in (("model", model), ("decoder", model.model)):
        module.register_forward_hook(lambda *_args, name=name: seen.append(name))
        assert torch.equal(_passed(model, None, whole=False), plain)
    assert seen == ["model", "decoder", "model"]


def test_a_subclass_is_called_itself() -> None:
    class Doubled(type(tiny_model())):
        def forward(self, **inputs: object):  # pyright: ignore[reportIncompatibleMethodOverride]
            output = super().forward(**inputs)
            output.logits = output.logits * 2
            return output

    model: Any = tiny_model()
    plain = _passed(model, None, whole=False)
    model.__class__ = Doubled
    assert torch.equal(_passed(model, None, whole=False), 2 * plain)
