"""Settings of vLLM as the engine of a run."""

from typing import Annotated, Literal

from pydantic import Field

from trainer.config.section import Section

VLLM_LEAST_TEMPERATURE = 0.01
"""It takes lower ones for this one."""
VLLM_LEAST_WIDTH = 32
"""Numbers of an attention head."""


class VllmConfig(Section):
    """vLLM, one in each process that samples; it holds weights of its own, which every optimizer step renews."""

    gpu_memory_utilization: float = Field(default=0.4, gt=0, le=1)
    """Share of its GPU's memory that vLLM takes for weights and cache; what it leaves is for a learner on the same GPU."""
    cache_gib: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """GiB of the cache itself, whatever `gpu_memory_utilization` would leave for it; null follows that share, and is 1 on a CPU."""
    tensor_parallel: int = Field(default=1, ge=1, le=64)
    """GPUs over which each vLLM spreads the model, from its own on; for a model that one GPU cannot hold."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Numbers that vLLM computes with. float32 are the learner's: what is sampled has the probabilities that are trained. bfloat16 halves
    weights and cache and is faster; its probabilities differ by some hundredths of a nat, which `loss.correction` is there for."""
    enforce_eager: bool = False
    """Whether to do without CUDA graphs: a faster start and less memory, and slower tokens. On a CPU there are none."""
    top_logprobs: int = Field(default=20, ge=1, le=1000)
    """Most likely tokens of each position that entropies are estimated from; more tighten the bound on their error and cost time."""
    sleep: bool = False
    """Whether vLLM gives up its GPU memory while the run learns: the weights wait in the machine's memory, the cache is made anew."""
