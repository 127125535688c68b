"""A played episode is recorded whole, as the texts that were seen and typed, once it has an outcome; one that is left is not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tree_rollout.stop_reason import StopReason
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin, Turn


def open_record(path: Path) -> Trace:
    """The trace to add episodes to; a new one where there is none. Raises `TraceError` for a file that is no trace."""
    return Trace.open(path) if path.exists() else Trace.create(path, {"recorded by": "branchwise play"})


class PlayedEpisode:
    """One episode, turn by turn; it has no tokens, since nobody sampled any."""

    def __init__(self, env_id: str, seed: int, env_kwargs: Mapping[str, object], player: str) -> None:
        self.tree = TrajectoryTree(env_id, seed, dict(env_kwargs))
        self._player = player

    def add(self, before: tuple[str, str], action: str, answer: tuple[float, bool, bool, Mapping[str, Any]], state: str) -> None:
        """Add a turn: observation and state `before` it, the environment's answer (reward, ended, cut, info), and the state after."""
        reward, terminated, truncated, info = answer
        reason = StopReason.TERMINATED if terminated else StopReason.TRUNCATED if truncated else None
        self.tree.add(
            Turn(
                parent=len(self.tree.turns) - 1,
                observation=before[0],
                action=action,
                ids_T=np.zeros(0, np.int32),
                mask_T=np.zeros(0, np.bool_),
                logprobs_T=np.zeros(0, np.float32),
                entropies_T=np.zeros(0, np.float32),
                policy_version=-1,
                reward=float(reward),
                terminated=terminated,
                truncated=truncated,
                valid=bool(info.get("valid", True)),
                state=before[1],
                next_state=state,
                success=bool(info.get("success", False)),
                stop_reason=reason,
                origin=None if self.tree.turns else Origin("root", self._player),
            )
        )

    def append_to(self, trace: Trace) -> int | None:
        """Record the episode and return its number in the trace; None for one without an outcome, which is not recorded."""
        if not self.tree.turns or self.tree.turns[-1].stop_reason is None:
            return None
        position = max((summary.position for summary in trace.trees(0)), default=-1) + 1
        return trace.append([self.tree], 0, position=position)[0]
