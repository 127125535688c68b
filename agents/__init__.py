"""The policy's side: token-faithful contexts, action parsing, tokenizers and policy folders, and engines that sample turns.

Names are imported on first use: torch and transformers take seconds to load, and much of this package needs neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.action_parser import MAX_ACTION_LENGTH, ParsedAction, parse_action
    from agents.context import Context, TurnTemplate
    from agents.engine import Engine, Sample, SampleRequest
    from agents.errors import AgentError, ContextError, ContextLengthError, EngineError, HandleError, PolicyError, TokenizerError
    from agents.policy_folder import build_policy, load_policy, save_policy
    from agents.scripted_engine import ScriptedEngine
    from agents.tokenizer import train_tokenizer
    from agents.transformers_engine import TransformersEngine

_MODULES = {
    "MAX_ACTION_LENGTH": "agents.action_parser",
    "ParsedAction": "agents.action_parser",
    "parse_action": "agents.action_parser",
    "Context": "agents.context",
    "TurnTemplate": "agents.context",
    "Engine": "agents.engine",
    "Sample": "agents.engine",
    "SampleRequest": "agents.engine",
    "AgentError": "agents.errors",
    "ContextError": "agents.errors",
    "ContextLengthError": "agents.errors",
    "EngineError": "agents.errors",
    "HandleError": "agents.errors",
    "PolicyError": "agents.errors",
    "TokenizerError": "agents.errors",
    "build_policy": "agents.policy_folder",
    "load_policy": "agents.policy_folder",
    "save_policy": "agents.policy_folder",
    "ScriptedEngine": "agents.scripted_engine",
    "train_tokenizer": "agents.tokenizer",
    "TransformersEngine": "agents.transformers_engine",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'agents' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


__all__ = [
    "MAX_ACTION_LENGTH",
    "AgentError",
    "Context",
    "ContextError",
    "ContextLengthError",
    "Engine",
    "EngineError",
    "HandleError",
    "ParsedAction",
    "PolicyError",
    "Sample",
    "SampleRequest",
    "ScriptedEngine",
    "TokenizerError",
    "TransformersEngine",
    "TurnTemplate",
    "build_policy",
    "load_policy",
    "parse_action",
    "save_policy",
    "train_tokenizer",
]
