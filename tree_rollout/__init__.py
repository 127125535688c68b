"""Trajectory trees: their turns, where they fork, how they are sampled, what they share, and how they are kept, replayed and gone on from.

Names are imported on first use: sampling needs transformers, which takes seconds to load, and reading a trace does not.
The functions `fork` and `replay` are in the modules of the same names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tree_rollout.branching import BRANCHING_RULES, branching_rule
    from tree_rollout.fork import PolicyAction
    from tree_rollout.replay import ReplayReport
    from tree_rollout.sampler import Sampler
    from tree_rollout.sampler_report import SamplerReport
    from tree_rollout.sampler_settings import SamplerSettings
    from tree_rollout.state_graph import StateGraph, count_merges
    from tree_rollout.stop_reason import StopReason
    from tree_rollout.task import Task
    from tree_rollout.trace import Trace
    from tree_rollout.tree import TrajectoryTree
    from tree_rollout.turn import Origin, Turn

_MODULES = {
    "BRANCHING_RULES": "tree_rollout.branching",
    "Origin": "tree_rollout.turn",
    "PolicyAction": "tree_rollout.fork",
    "ReplayReport": "tree_rollout.replay",
    "Sampler": "tree_rollout.sampler",
    "SamplerReport": "tree_rollout.sampler_report",
    "SamplerSettings": "tree_rollout.sampler_settings",
    "StateGraph": "tree_rollout.state_graph",
    "StopReason": "tree_rollout.stop_reason",
    "Task": "tree_rollout.task",
    "Trace": "tree_rollout.trace",
    "TrajectoryTree": "tree_rollout.tree",
    "Turn": "tree_rollout.turn",
    "branching_rule": "tree_rollout.branching",
    "count_merges": "tree_rollout.state_graph",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'tree_rollout' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


__all__ = [
    "BRANCHING_RULES",
    "Origin",
    "PolicyAction",
    "ReplayReport",
    "Sampler",
    "SamplerReport",
    "SamplerSettings",
    "StateGraph",
    "StopReason",
    "Task",
    "Trace",
    "TrajectoryTree",
    "Turn",
    "branching_rule",
    "count_merges",
]
