"""Tiny models with sharp attention, and the slow truth about what an engine should have reported."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from agents.engine import Sample, SampleRequest

VOCAB = 40
STOP = 0
MAX_LENGTH = 160
POSITION_BYTES = 2 * 2 * 2 * 8 * 4
"""Keys and values of a tiny model: 2 layers, 2 heads of 8 float32 numbers."""

_KINDS = {
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
}


def tiny_model(kind: str = "qwen3", *, kv_heads: int = 2, seed: int = 0, **settings: object) -> PreTrainedModel:
    """Two layers; weights far from zero, so that one wrong key or position shows in every logit."""
    config_class, model_class = _KINDS[kind]
    options = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": kv_heads,
        "head_dim": 8,
        "max_position_embeddings": MAX_LENGTH,
        "initializer_range": 0.2,
        "bos_token_id": None,
        "eos_token_id": STOP,
        **settings,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model_class(config_class(**options)).eval()


def truth(model: PreTrainedModel, ids_T: np.ndarray, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Log-probability of each token given those before it, and entropy of that distribution, from one plain forward pass.

    Index 0 has no distribution; it holds NaN.
    """
    with torch.no_grad():
        logits_TV = model(torch.from_numpy(ids_T.astype(np.int64))[None]).logits[0].double() / temperature
    logprobs_TV = torch.log_softmax(logits_TV, -1).numpy()
    entropies_T = -(np.exp(logprobs_TV) * logprobs_TV).sum(-1)
    drawn_T = logprobs_TV[np.arange(len(ids_T) - 1), ids_T[1:]]
    return np.concatenate([[np.nan], drawn_T]), np.concatenate([[np.nan], entropies_T[:-1]])


def request(
    handle: int, ids: Sequence[int], *, seed: tuple[int, ...] = (0,), max_tokens: int = 6, temperature: float = 1.0, **options: Any
) -> SampleRequest:
    return SampleRequest(handle, np.array(ids, dtype=np.int32), seed, max_tokens, temperature, **options)


def assert_true(model: PreTrainedModel, ids_T: np.ndarray, sample: Sample, *, temperature: float = 1.0) -> None:
    """`sample` ends `ids_T`; its figures must be those of the plain forward pass."""
    logprobs_T, entropies_T = truth(model, ids_T, temperature)
    count = len(sample.ids_T)
    np.testing.assert_array_equal(ids_T[-count:], sample.ids_T)
    np.testing.assert_allclose(sample.logprobs_T, logprobs_T[-count:], atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(sample.entropies_T, entropies_T[-count:], atol=1e-5, rtol=1e-5)
