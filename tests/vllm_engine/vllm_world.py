"""A policy that is small enough for a CPU and sharp enough to tell one wrong token, and the slow truth about it."""

from pathlib import Path

import numpy as np
import torch
from text_world import household_tokenizer
from transformers import PreTrainedModel

from agents.engine import SampleRequest
from agents.policy_folder import build_policy, load_policy, save_policy

MAX_LENGTH = 1024
STOP = 5
TOLERANCE = 3e-5


def save_small_policy(folder: Path, seed: int = 0) -> Path:
    tokenizer = household_tokenizer()
    # vLLM's attention on a CPU takes heads of 32 and more.
    model = build_policy(
        tokenizer, layers=2, hidden=128, heads=4, kv_heads=2, intermediate=96, max_length=MAX_LENGTH, rope_theta=1e4, seed=seed
    )
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.mul_(6)
    save_policy(model, tokenizer, folder)
    return folder


def small_policy(folder: Path) -> PreTrainedModel:
    return load_policy(folder)[0]


def other_weights(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Change the model as a few large updates would."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.02)
    return model


def prompt(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(10, 400, length).tolist()


def request(handle: int, ids: list[int], **settings: object) -> SampleRequest:
    return SampleRequest(handle, np.array(ids, dtype=np.int32), **{"seed": (0,), "max_tokens": 8, **settings})


def truth(model: torch.nn.Module, ids_T: np.ndarray, count: int, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities over the vocabulary, shape (count, V), before each of the last `count` tokens, and their entropies."""
    with torch.no_grad():
        logits_TV = model(torch.from_numpy(ids_T.astype(np.int64))[None]).logits[0].double() / temperature
    logprobs_TV = torch.log_softmax(logits_TV, -1).numpy()[-count - 1 : -1]
    return logprobs_TV, -(np.exp(logprobs_TV) * logprobs_TV).sum(-1)
