"""A sequence is its ids: every turn sends them all, and vLLM's prefix cache serves what it has seen, in whole blocks, to forks as well.

Log-probabilities are those of the distribution that was drawn from. Entropies are estimated from the most likely tokens, and each has a
bound on its error. Weights change in place, and only between turns.
"""

import dataclasses
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from agents.engine import Sample, SampleRequest
from agents.errors import EngineError
from agents.held_sequences import Ids
from agents.missing_package import imported
from agents.nearest import nearest
from agents.request_seed import seed_number
from agents.topk_entropy import estimate_entropy
from agents.turn_engine import TurnEngine, draws_raw
from agents.vllm_weights import WeightProbe, checkpoint_names, pack_tied_output

if TYPE_CHECKING:
    import torch

_LEAST_TEMPERATURE = 0.01
"""vLLM takes lower ones for this one, without saying so to the caller."""
_OWN = ("model", "tokenizer", "max_model_len", "dtype", "block_size", "max_logprobs", "logprobs_mode", "generation_config")


@dataclass(slots=True)
class PromptCounters:
    """Where prompt tokens came from, over all turns since the engine was made."""

    prompt_tokens: int = 0
    """Tokens of all contexts that turns were sampled after."""
    cached_tokens: int = 0
    """Those that the prefix cache served."""

    @property
    def computed_tokens(self) -> int:
        """Those that were computed."""
        return self.prompt_tokens - self.cached_tokens

    @property
    def cached_share(self) -> float:
        """Share of the prompt tokens that the cache served, 0 to 1; 0 where there were none."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


class VLLMEngine(TurnEngine):
    """An `Engine` that runs vLLM in this process, on a GPU or a CPU."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        stop_ids: Sequence[int],
        *,
        max_length: int,
        dtype: str = "float32",
        top_logprobs: int = 20,
        block_size: int = 32,
        cache_gib: int | None = None,
        **options: Any,
    ) -> None:
        """Serve the policy in `folder`; `stop_ids` end a turn, `max_length` tokens fit into a sequence.

        `top_logprobs` most likely tokens of each position are known to the entropy estimate: more tighten its bound and cost time.
        `block_size` tokens are what the prefix cache keeps or lacks as a whole. `cache_gib` is the memory of the cache; None leaves it
        to vLLM on a GPU, and is 1 on a CPU. `options` are further fields of vLLM's `EngineArgs`; with a `tensor_parallel_size` above 1,
        vLLM starts a process for each part of the model.
        """
        if not stop_ids:
            raise EngineError("stop_ids must name at least one token")
        if top_logprobs < 1:
            raise EngineError(f"top_logprobs {top_logprobs} must be at least 1")
        if not (Path(folder) / "config.json").is_file():
            raise EngineError(
                f"{folder} has no config.json, so it is not a policy folder; name one that save_policy or save_pretrained wrote"
            )
        super().__init__(max_length)
        self.counters = PromptCounters()
        self._stop_ids = sorted(int(stop) for stop in stop_ids)
        self._requests: dict[str, SampleRequest] = {}
        self._full: list[int] = []
        """Turns that have no room for a token."""
        self._vllm = _start_vllm()
        self._next_request = 0
        self._parts = int(options.get("tensor_parallel_size", 1))
        defaults = _defaults(cache_gib, self._parts)
        values = {"dtype": dtype, "block_size": block_size, "max_logprobs": top_logprobs, **defaults, **options}
        self._llm = self._load(Path(folder), values, options)
        config = self._llm.model_config.hf_text_config
        self._vocab = int(config.vocab_size)
        self._top_logprobs = min(top_logprobs, self._vocab)
        self._tied = bool(getattr(config, "tie_word_embeddings", False))
        self._tolerance = 2e-3 if dtype == "float32" else 0.1
        self._try_out()

    def score(self, ids_T: Ids) -> npt.NDArray[np.float32]:
        """Log-probability (nats, temperature 1) of each token after the first given those before it, computed anew, shape (T - 1,)."""
        if not 2 <= len(ids_T) < self.max_length:
            raise EngineError(f"{len(ids_T)} tokens cannot be scored; give at least 2 and less than max_length, {self.max_length}")
        self._check_idle("score a sequence")
        parameters = self._vllm.SamplingParams(max_tokens=1, prompt_logprobs=1, ignore_eos=True, detokenize=False)
        (output,) = self._run(ids_T, parameters)
        columns = zip(output.prompt_logprobs[1:], ids_T[1:], strict=True)
        return np.array([column[int(token)].logprob for column, token in columns], dtype=np.float32)

    def load_weights(
        self, weights: Iterable[tuple[str, "torch.Tensor"]], version: int, probe: WeightProbe, tolerance: float | None = None
    ) -> float:
        """Serve other weights from now on, given under the names of a checkpoint (`model.state_dict().items()` of the learner).

        The prefix cache is emptied, and the engine's log-probabilities of `probe` are compared with the learner's: returns the largest
        difference in nats. A stale tensor whose effect is below `tolerance` (None: 0.002 in float32, 0.1 otherwise) goes unnoticed
        until it adds up. Raises `StaleWeightsError` on a mismatch, and `version` then stays as it was.
        """
        self._check_idle("load weights")
        named = checkpoint_names(weights, self._tied)
        if self._parts > 1:  # They go to other processes, each of which takes its part.
            named = iter([(name, tensor.cpu()) for name, tensor in named])
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": named})
        if self._tied and self._vllm.platforms.current_platform.is_cpu():
            self._llm.apply_model(pack_tied_output)
        self.reset_cache()
        largest = self.verify_weights(probe, tolerance)
        self.version = version
        return largest

    def verify_weights(self, probe: WeightProbe, tolerance: float | None = None) -> float:
        """Compare log-probabilities with the learner's, as `load_weights` does after every update."""
        return probe.check(self.score(probe.ids_T), self._tolerance if tolerance is None else tolerance)

    def reset_cache(self) -> None:
        """Empty the prefix cache, so that what is computed next does not depend on what was computed before."""
        self._check_idle("empty the cache")
        if not self._llm.reset_prefix_cache():
            raise EngineError("vLLM did not empty its prefix cache; make a new engine from a saved policy")

    def sleep(self) -> None:
        """Give the GPU's memory back, where the engine was made with `enable_sleep_mode`: weights go to the machine's memory."""
        self._check_idle("sleep")
        self._llm.sleep(1)

    def wake(self) -> None:
        """Take the memory again; the weights are those from before."""
        self._llm.wake_up()
        self.reset_cache()

    def close(self) -> None:
        """Give up vLLM, and what it takes."""
        self._llm.engine_core.shutdown()
        del self._llm

    def _begin(self, request: SampleRequest, context_T: Ids) -> None:
        if 0 < request.temperature < _LEAST_TEMPERATURE:
            raise EngineError(f"temperature {request.temperature} is below {_LEAST_TEMPERATURE}, the least that vLLM samples at; choose 0")
        if len(request.ids_T) and not 0 <= request.ids_T.min() <= request.ids_T.max() < self._vocab:
            ids = f"{request.ids_T.min()} to {request.ids_T.max()}"
            raise EngineError(f"token ids from {ids} were given; the model knows 0 to {self._vocab - 1}")
        room = self._room(request, context_T)
        if room < 1:
            self._full.append(request.handle)
            return
        self._requests[self._add(context_T, self._parameters(request, room))] = request

    def _go_on(self) -> list[tuple[int, Sample]]:
        ended = [(handle, _nothing()) for handle in self._full]
        self._full.clear()
        if self._requests and not ended:
            _join_threads()
            outputs = self._llm.step()
            ended = [self._read(self._requests[output.request_id], output) for output in outputs]
            for output in outputs:
                del self._requests[output.request_id]
        return ended

    def _give_up(self, handle: int) -> None:
        if handle in self._full:
            self._full.remove(handle)
            return
        name = next(name for name, request in self._requests.items() if request.handle == handle)
        del self._requests[name]
        self._llm.abort_request([name])

    def _parameters(self, request: SampleRequest, room: int) -> Any:
        return self._vllm.SamplingParams(
            max_tokens=room,
            seed=seed_number(request.seed, bits=63),
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k,
            stop=list(request.stop_texts),
            stop_token_ids=self._stop_ids,
            ignore_eos=True,
            logprobs=self._top_logprobs,
            flat_logprobs=True,
            detokenize=bool(request.stop_texts),
            skip_special_tokens=False,
            output_kind=self._vllm.sampling_params.RequestOutputKind.FINAL_ONLY,
        )

    def _add(self, ids_T: Ids, parameters: Any) -> str:
        """Hand a prompt over; returns the name under which its output comes."""
        self._next_request += 1
        prompt = self._vllm.inputs.TokensPrompt(prompt_token_ids=ids_T.tolist())
        self._llm.add_request(str(self._next_request), self._llm.renderer.render_cmpl([prompt])[0], parameters)
        return str(self._next_request)

    def _read(self, request: SampleRequest, output: Any) -> tuple[int, Sample]:
        said = output.outputs[0]
        self.counters.prompt_tokens += len(output.prompt_token_ids)
        self.counters.cached_tokens += output.num_cached_tokens or 0
        ids_T = np.array(said.token_ids, dtype=np.int32)
        # Each position has the drawn token first, then the most likely ones, which may hold it once more.
        logprobs_TC = np.array(said.logprobs.logprobs, dtype=np.float32).reshape(len(ids_T), 1 + self._top_logprobs)
        if not np.isfinite(logprobs_TC[:, 0]).all():
            raise EngineError(
                "vLLM's log-probabilities are not finite, so the weights are damaged or diverged; make a new engine from a good policy"
            )
        cut = {"top_p": request.top_p, "top_k": request.top_k} if request.temperature else {}
        entropies_T, errors_T = estimate_entropy(logprobs_TC[:, 1:], self._vocab, **cut)
        return request.handle, Sample(
            ids_T,
            logprobs_TC[:, 0].copy(),
            entropies_T,
            stopped=said.finish_reason == "stop" and not isinstance(said.stop_reason, str),
            raw_logprobs_T=None if draws_raw(request) else np.full(len(ids_T), np.nan, dtype=np.float32),
            stop_text=said.stop_reason if isinstance(said.stop_reason, str) else None,
            entropy_errors_T=errors_T,
        )

    def _run(self, ids_T: Ids, parameters: Any) -> list[Any]:
        """All outputs of one prompt while nothing else is under way."""
        parameters.output_kind = self._vllm.sampling_params.RequestOutputKind.FINAL_ONLY
        self._add(ids_T, parameters)
        outputs: list[Any] = []
        while self._llm.has_unfinished_requests():
            outputs += self._llm.step()
        return outputs

    def _check_idle(self, what: str) -> None:
        if self._requests:
            raise EngineError(f"{len(self._requests)} turns are under way; let them end or cancel them, then {what}")

    def _load(self, folder: Path, values: dict[str, Any], options: dict[str, Any]) -> Any:
        arguments = self._vllm.EngineArgs
        known = [field.name for field in dataclasses.fields(arguments) if field.name not in _OWN]
        for option in options:
            if option not in known:
                raise EngineError(f"vLLM has no option {option!r} to set here; {nearest(option, known)}")
        try:
            return self._vllm.LLMEngine.from_engine_args(
                arguments(
                    model=str(folder),
                    max_model_len=self.max_length,
                    logprobs_mode="processed_logprobs",
                    # The defaults of the folder would change what a request asks for.
                    generation_config="vllm",
                    **values,
                )
            )
        except Exception as error:  # vLLM raises what its many parts raise
            raise EngineError(f"vLLM cannot serve {folder}: {_summary(error)}") from error

    def _try_out(self) -> None:
        """Some models load, and fail at their first token."""
        try:
            self._run(np.zeros(1, dtype=np.int32), self._vllm.SamplingParams(max_tokens=1, detokenize=False))
        except Exception as error:
            raise EngineError(f"vLLM loaded the model and cannot compute with it: {_summary(error)}") from error


def _start_vllm() -> Any:
    """vLLM, with its engine in this process: weights are changed in place."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    # Threads that are bound to cores would all fight for the same ones where several engines share a machine.
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    for module in ("vllm.inputs", "vllm.platforms", "vllm.sampling_params"):
        imported(module, "vllm", "the engine 'vllm'")
    return imported("vllm", "vllm", "the engine 'vllm'")


def computes_on_cpu() -> bool:
    """Whether the vLLM that is installed here computes on the CPU; there is one for each kind of device."""
    return _start_vllm().platforms.current_platform.is_cpu()


def _defaults(cache_gib: int | None, parts: int) -> dict[str, Any]:
    """Options that suit one process or `parts` of them; on a CPU, there are no graphs to capture and the cache has no size of its own."""
    executor = "uni" if parts == 1 else "mp"
    values: dict[str, Any] = {"enable_prefix_caching": True, "distributed_executor_backend": executor, "disable_log_stats": True}
    cpu = computes_on_cpu()
    if cpu:
        values["enforce_eager"] = True
    if cache_gib is not None or cpu:
        values["kv_cache_memory_bytes"] = (1 if cache_gib is None else cache_gib) * 2**30
    return values


def _nothing() -> Sample:
    """The turn of a sequence that is full."""
    nothing = np.zeros(0, dtype=np.float32)
    return Sample(np.zeros(0, dtype=np.int32), nothing, nothing, stopped=False, entropy_errors_T=nothing)


def _summary(error: BaseException) -> str:
    """The first two lines of what a library said, as one line."""
    return " ".join(line.strip() for line in str(error).strip().splitlines()[:2]) or type(error).__name__


def _join_threads() -> None:
    """Have the calling thread use torch's number of threads, which it takes over when it first asks; vLLM counts threads without asking."""
    import torch

    torch.get_num_threads()
