"""vLLM is measured in a process of its own, in the environment that `make test-vllm` makes; where that is missing, it is left out.

The process reads a job as JSON from standard input and writes its answer as JSON to the file that the job names: vLLM writes to standard
output itself.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from benchmarks.rollouts.engine_drive import flood, forked_turns

if TYPE_CHECKING:
    from benchmarks.rollouts.policies import Policy

ROOT = Path(__file__).parents[2]
INTERPRETER = ROOT / ".venv-vllm" / "bin" / "python"
BLOCK = 32
"""Tokens that vLLM's prefix cache keeps or lacks as a whole."""
_LIMIT_S = 300
Ids = npt.NDArray[np.int32]


class VLLMError(RuntimeError):
    """The process with vLLM failed, or is not there."""


def ask_vllm(policy: "Policy", max_length: int, job: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a process that serves the policy; raises `VLLMError` with what to do, or with the process's last line."""
    if not INTERPRETER.exists():
        raise VLLMError("there is no .venv-vllm; type: make test-vllm")
    with tempfile.TemporaryDirectory() as scratch:
        from agents import save_policy

        save_policy(policy.model, policy.tokenizer, Path(scratch) / "policy")
        answer = Path(scratch) / "answer.json"
        served = {"folder": str(Path(scratch) / "policy"), "stop_ids": list(policy.agent.stop_ids), "max_length": max_length}
        text = json.dumps({**job, **served, "answer": str(answer)})
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        command = [str(INTERPRETER), "-m", "benchmarks.rollouts.vllm_process"]
        try:
            ended = subprocess.run(command, input=text, text=True, capture_output=True, cwd=ROOT, env=environment, timeout=_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise VLLMError(f"the process with vLLM did not end within {_LIMIT_S} s") from error
        if ended.returncode or not answer.exists():
            lines = [line for line in ended.stderr.splitlines() if line.strip()]
            raise VLLMError(f"the process with vLLM ended with status {ended.returncode}: {lines[-1] if lines else 'no message'}")
        return json.loads(answer.read_text(encoding="utf-8"))


def as_lists(arrays: Sequence[Ids]) -> list[list[int]]:
    """Ids for a job."""
    return [ids_T.tolist() for ids_T in arrays]


def _as_arrays(lists: Sequence[Sequence[int]]) -> list[Ids]:
    return [np.array(ids, dtype=np.int32) for ids in lists]


def _serve(job: Mapping[str, Any]) -> dict[str, Any]:
    from agents.vllm_engine import VLLMEngine

    engine = VLLMEngine(job["folder"], job["stop_ids"], max_length=job["max_length"], block_size=BLOCK)
    answer: dict[str, Any] = {}
    if "forks" in job:
        asked = job["forks"]
        counters = engine.counters
        answer["forks"] = forked_turns(engine, _as_arrays(asked["deltas"]), asked["each"], lambda: counters.computed_tokens)
    answer["floods"] = []
    for asked in job.get("floods", ()):
        # Rolled prompts share no block with those before, which the prefix cache would serve; the first round warms up.
        rounds = [[np.roll(ids_T, shift) for ids_T in _as_arrays(asked["prompts"])] for shift in range(asked["repeats"] + 1)]
        taken = [flood(engine, prompts, asked["limits"], asked["slots"]) for prompts in rounds]
        answer["floods"].append(taken[1:])
    return answer


def main() -> int:
    """Do the job on standard input."""
    job = json.load(sys.stdin)
    import torch

    torch.set_num_threads(1)
    Path(job["answer"]).write_text(json.dumps(_serve(job)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
