"""A policy folder is an ordinary Hugging Face folder: complete or not there at all, read from this disk alone, and never unpickled."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.utils import logging

from agents.errors import PolicyError
from agents.tokenizer import ENTITY_PATTERN

_WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json")


def build_policy(
    tokenizer: PreTrainedTokenizerFast,
    *,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    intermediate: int,
    max_length: int,
    rope_theta: float,
    seed: int,
) -> Qwen3ForCausalLM:
    """A fresh policy in float32 whose output layer is its embedding; one seed gives one set of weights.

    Embeddings of entity tokens start as (type + number) / sqrt(2): type is the embedding of the type word, number a vector shared
    by all entities of that number. So "drawer 2" starts near "drawer" and near "mug 2", at the length of any other embedding.
    """
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "kv_heads": kv_heads, "intermediate": intermediate}
    config = architecture(len(tokenizer), **sizes, max_length=max_length, rope_theta=rope_theta)
    config.eos_token_id, config.pad_token_id = cast(int, tokenizer.eos_token_id), cast(int, tokenizer.pad_token_id)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
        _start_entities(model.model.embed_tokens.weight, tokenizer, config.initializer_range)
    return model.eval()


def architecture(
    vocab_size: int,
    *,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    intermediate: int,
    max_length: int,
    rope_theta: float,
) -> Qwen3Config:
    """The architecture of a policy that `build_policy` makes."""
    if hidden % heads or heads % kv_heads or hidden // heads % 2:
        raise PolicyError(
            f"hidden {hidden}, heads {heads} and kv_heads {kv_heads} do not fit: "
            "heads must divide hidden into an even size, and kv_heads must divide heads"
        )
    return Qwen3Config(
        vocab_size=vocab_size,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=hidden // heads,
        max_position_embeddings=max_length,
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        dtype=torch.float32,
    )


@torch.no_grad()
def _start_entities(embeddings_VD: torch.Tensor, tokenizer: PreTrainedTokenizerFast, std: float) -> None:
    numbers: dict[str, torch.Tensor] = {}
    vocabulary = tokenizer.get_vocab()
    for token, index in sorted(vocabulary.items(), key=lambda item: item[1]):
        match = ENTITY_PATTERN.fullmatch(token.replace("Ġ", " "))
        type_index = vocabulary.get(match["type"].replace(" ", "Ġ")) if match else None
        if match is None or type_index is None:
            continue
        number = match["number"]
        if number not in numbers:
            numbers[number] = torch.randn(embeddings_VD.shape[1]) * std
        embeddings_VD[index] = (embeddings_VD[type_index] + numbers[number]) / 2**0.5


def save_policy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    folder: str | os.PathLike[str],
    weights: Mapping[str, torch.Tensor] | None = None,
) -> None:
    """Write the policy to a folder beside `folder`, then rename it, so that `folder` never holds half a policy.

    `weights`, by name, are written instead of the model's own: those of a plain model, say, where this one carries adapters.
    An older policy under that name is replaced; anything else there is left alone, and is an error.
    """
    target = Path(folder)
    if target.exists() and not (target / "config.json").is_file():
        raise PolicyError(f"{target} exists and is not a policy folder; choose another name, or remove it")
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        temporary.chmod(0o755)
        with _no_progress_bars():
            model.save_pretrained(temporary, state_dict=None if weights is None else dict(weights))
        tokenizer.save_pretrained(temporary)
        _flush(temporary)
        _move_into_place(temporary, target)
    except OSError as error:
        raise PolicyError(f"the policy could not be written to {target}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _flush(folder: Path) -> None:
    """Force the files and the folder to the disk, so that the rename cannot overtake them."""
    for path in [*folder.rglob("*"), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _previous(target: Path) -> Path:
    return target.with_name(f".{target.name}.previous")


def _move_into_place(temporary: Path, target: Path) -> None:
    """A folder cannot be renamed over another: the old one steps aside first, under a name that `load_policy` knows."""
    previous = _previous(target)
    if target.exists():
        shutil.rmtree(previous, ignore_errors=True)
        target.rename(previous)
    try:
        temporary.rename(target)
    except OSError:
        if previous.is_dir():
            previous.rename(target)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def load_policy(folder: str | os.PathLike[str], *, dtype: torch.dtype = torch.float32) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Read a causal language model and its tokenizer from a local folder: safetensors only, no code from the folder, no network.

    Weights become `dtype`, whatever the files hold.

    Raises `PolicyError` where the folder is missing or incomplete, its files are damaged, or its parts do not fit together.
    """
    path = Path(folder)
    _check_files(path)
    try:
        AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise PolicyError(f"{path / 'config.json'} does not describe a model: {_summary(error)}") from error
    tokenizer = _read_tokenizer(path)
    model = _load_model(path, dtype)
    rows = cast(nn.Embedding, model.get_input_embeddings()).num_embeddings
    if len(tokenizer) > rows:
        raise PolicyError(f"{path} holds a tokenizer of {len(tokenizer)} tokens and a model of {rows}; they belong to different policies")
    return model, tokenizer


def load_tokenizer(folder: str | os.PathLike[str]) -> PreTrainedTokenizerFast:
    """Read the tokenizer of a policy folder alone; raises what `load_policy` raises."""
    path = Path(folder)
    _check_files(path)
    return _read_tokenizer(path)


def _read_tokenizer(path: Path) -> PreTrainedTokenizerFast:
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise PolicyError(f"the tokenizer in {path} cannot be read ({_summary(error)}); save it again, or use another folder") from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise PolicyError(f"the tokenizer in {path} is a {type(tokenizer).__name__}; one with a tokenizer.json is needed")
    return tokenizer


def _check_files(path: Path) -> None:
    if not path.is_dir():
        previous = _previous(path)
        hint = f"an interrupted save left the older one at {previous}: rename it" if previous.is_dir() else "check the path"
        raise PolicyError(f"there is no policy folder {path}; {hint}")
    if not (path / "config.json").is_file():
        raise PolicyError(f"{path} has no config.json, so it is not a policy folder; name one that save_policy or save_pretrained wrote")
    try:
        json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise PolicyError(f"{path / 'config.json'} cannot be read: {_summary(error)}") from error
    if not (path / "tokenizer.json").is_file():
        raise PolicyError(f"{path} holds a model without a tokenizer; put the tokenizer.json it was trained with into the folder")
    if not any((path / name).is_file() for name in _WEIGHT_FILES):
        raise PolicyError(f"{path} has no model.safetensors; other weight formats are not read, save the model as safetensors")


def _load_model(path: Path, dtype: torch.dtype) -> PreTrainedModel:
    options = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True, "dtype": dtype}
    try:
        with _no_progress_bars():
            loaded = AutoModelForCausalLM.from_pretrained(path, **options, output_loading_info=True)
            model, report = cast(tuple[PreTrainedModel, dict[str, Any]], loaded)
    except Exception as error:
        raise PolicyError(f"the model in {path} cannot be loaded, its files are damaged or do not fit: {_summary(error)}") from error
    strange = sorted(str(key) for kind in ("missing_keys", "mismatched_keys", "unexpected_keys") for key in report[kind])
    if strange:
        raise PolicyError(f"the weights in {path} do not fit its config.json: {len(strange)} tensors differ, such as {strange[0]}")
    return model.eval()


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Loading bars would tear the live display apart; a small policy is written in less than a blink."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _summary(error: BaseException) -> str:
    """The first two lines of what a library said, as one line (some put a mere heading on the first)."""
    return " ".join(line.strip() for line in str(error).strip().splitlines()[:2]) or type(error).__name__
