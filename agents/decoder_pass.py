"""A pass through a decoder gives the logits that a call of the model gives, to the last bit, and calls the same modules.

A call of a transformers model also makes attention masks, looks up settings and gathers outputs, none of which an engine needs: for a
small model that is an eighth of the time of a decoding step.
"""

from typing import Any

import torch
from transformers import PreTrainedModel

_PLAIN = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
"""Models whose forward is: embed, one rotation of positions for all layers, the layers, a norm, the head."""


def decoder_logits(
    model: PreTrainedModel, ids_N: torch.Tensor, positions_N: torch.Tensor, last: torch.Tensor | None, step: Any
) -> torch.Tensor:
    """Logits (len(last), V) at indices `last` of one flat sequence of N tokens (None: at all); attention is told `step` as `cache_step`.

    A model of another kind, or one that somebody hooked or wrapped, is called as a whole.
    """
    if not _is_plain(model):
        keep = 0 if last is None else last
        output = model(input_ids=ids_N[None], position_ids=positions_N[None], use_cache=False, logits_to_keep=keep, cache_step=step)
        return output.logits[0]
    decoder: Any = model.model
    hidden = decoder.embed_tokens(ids_N[None])
    rotation = decoder.rotary_emb(hidden, positions_N[None])
    for layer in decoder.layers:
        hidden = layer(hidden, attention_mask=None, position_embeddings=rotation, cache_step=step)
    hidden = decoder.norm(hidden)
    head: Any = model.get_output_embeddings()
    return head(hidden if last is None else hidden[:, last])[0]


def _is_plain(model: Any) -> bool:
    kind = type(model)
    if kind.__name__ not in _PLAIN or not kind.__module__.startswith("transformers.models."):
        return False
    return not (_is_changed(model) or _is_changed(model.model))


def _is_changed(module: torch.nn.Module) -> bool:
    """Whether a call of the module does more than its class says."""
    return bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))
