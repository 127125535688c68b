"""The policy's side: token-faithful contexts, action parsing, tokenizers and policy folders, and engines that sample turns.

Names are imported on first use: torch and transformers take seconds to load, and much of this package needs neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.action_formats import ActionFormat, action_format
    from agents.action_parser import MAX_ACTION_LENGTH, ParsedAction, ToolCall, parse_action
    from agents.agent import Agent
    from agents.chat_templates import ChatTemplate, chat_template
    from agents.context import Context, ContextDelta
    from agents.engine import Engine, Sample, SampleRequest
    from agents.engines import make_engine
    from agents.errors import (
        ActionTextError,
        AgentError,
        ContextError,
        ContextLengthError,
        EngineError,
        HandleError,
        MissingPackageError,
        PolicyError,
        SettingError,
        StaleWeightsError,
        TokenizerError,
        TurnError,
        UnknownEngineError,
    )
    from agents.human_engine import HumanEngine
    from agents.memory import Memory, SlidingWindow, WholeHistory, make_memory
    from agents.openai_engine import OpenAIEngine
    from agents.policy_folder import build_policy, load_policy, save_policy
    from agents.pretrained import smollm2
    from agents.random_engine import RandomEngine
    from agents.scripted_engine import ScriptedEngine
    from agents.template_report import Agreement, Probe, TemplateReport, check_template
    from agents.tokenizer import train_tokenizer
    from agents.transformers_engine import TransformersEngine
    from agents.turn_template import TurnTemplate
    from agents.vllm_engine import VLLMEngine
    from agents.vllm_weights import WeightProbe

_MODULES = {
    "Agent": "agents.agent",
    "ActionFormat": "agents.action_formats",
    "action_format": "agents.action_formats",
    "MAX_ACTION_LENGTH": "agents.action_parser",
    "ParsedAction": "agents.action_parser",
    "ToolCall": "agents.action_parser",
    "parse_action": "agents.action_parser",
    "ChatTemplate": "agents.chat_templates",
    "chat_template": "agents.chat_templates",
    "Context": "agents.context",
    "ContextDelta": "agents.context",
    "Engine": "agents.engine",
    "Sample": "agents.engine",
    "SampleRequest": "agents.engine",
    "make_engine": "agents.engines",
    "ActionTextError": "agents.errors",
    "AgentError": "agents.errors",
    "ContextError": "agents.errors",
    "ContextLengthError": "agents.errors",
    "EngineError": "agents.errors",
    "HandleError": "agents.errors",
    "MissingPackageError": "agents.errors",
    "PolicyError": "agents.errors",
    "SettingError": "agents.errors",
    "StaleWeightsError": "agents.errors",
    "TokenizerError": "agents.errors",
    "TurnError": "agents.errors",
    "UnknownEngineError": "agents.errors",
    "HumanEngine": "agents.human_engine",
    "Memory": "agents.memory",
    "SlidingWindow": "agents.memory",
    "WholeHistory": "agents.memory",
    "make_memory": "agents.memory",
    "OpenAIEngine": "agents.openai_engine",
    "build_policy": "agents.policy_folder",
    "load_policy": "agents.policy_folder",
    "save_policy": "agents.policy_folder",
    "smollm2": "agents.pretrained",
    "RandomEngine": "agents.random_engine",
    "ScriptedEngine": "agents.scripted_engine",
    "Agreement": "agents.template_report",
    "Probe": "agents.template_report",
    "TemplateReport": "agents.template_report",
    "check_template": "agents.template_report",
    "train_tokenizer": "agents.tokenizer",
    "TransformersEngine": "agents.transformers_engine",
    "TurnTemplate": "agents.turn_template",
    "VLLMEngine": "agents.vllm_engine",
    "WeightProbe": "agents.vllm_weights",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'agents' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


__all__ = [
    "MAX_ACTION_LENGTH",
    "ActionFormat",
    "ActionTextError",
    "Agent",
    "AgentError",
    "Agreement",
    "ChatTemplate",
    "Context",
    "ContextDelta",
    "ContextError",
    "ContextLengthError",
    "Engine",
    "EngineError",
    "HandleError",
    "HumanEngine",
    "Memory",
    "MissingPackageError",
    "OpenAIEngine",
    "ParsedAction",
    "PolicyError",
    "Probe",
    "RandomEngine",
    "Sample",
    "SampleRequest",
    "ScriptedEngine",
    "SettingError",
    "SlidingWindow",
    "StaleWeightsError",
    "TemplateReport",
    "TokenizerError",
    "ToolCall",
    "TransformersEngine",
    "TurnError",
    "TurnTemplate",
    "UnknownEngineError",
    "VLLMEngine",
    "WeightProbe",
    "WholeHistory",
    "action_format",
    "build_policy",
    "chat_template",
    "check_template",
    "load_policy",
    "make_engine",
    "make_memory",
    "parse_action",
    "save_policy",
    "smollm2",
    "train_tokenizer",
]
