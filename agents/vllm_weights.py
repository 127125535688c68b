"""New weights are served only after log-probabilities of the engine were compared with the learner's: nothing else shows a stale tensor.

vLLM keeps packed copies of weights for its CPU kernels. Where the output layer is the embedding (tied), reloading renews the embedding
and leaves the packed copy of the output layer as it was, without a word.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from agents.errors import EngineError, StaleWeightsError

if TYPE_CHECKING:
    import torch

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class WeightProbe:
    """What the learner's weights say about one sequence of T tokens."""

    ids_T: Ids
    """At least 2 tokens; tokens that the policy meets in its work tell most."""
    logprobs_T: npt.NDArray[np.float32]
    """Log-probability (nats, temperature 1) of each token after the first given those before it, shape (T - 1,)."""

    def __post_init__(self) -> None:
        if len(self.ids_T) < 2 or len(self.logprobs_T) != len(self.ids_T) - 1:
            raise EngineError(
                f"a probe of {len(self.ids_T)} tokens with {len(self.logprobs_T)} log-probabilities: give 2 tokens or more, "
                "and one log-probability for each token after the first"
            )

    @classmethod
    def of_model(cls, model: Any, ids_T: Ids) -> "WeightProbe":
        """The probe of a transformers model, from one forward pass."""
        import torch

        ids = torch.from_numpy(np.asarray(ids_T, dtype=np.int64)).to(model.device)
        with torch.inference_mode():
            logprobs_TV = torch.log_softmax(model(input_ids=ids[None]).logits[0, :-1].float(), dim=-1)
        return cls(np.asarray(ids_T, dtype=np.int32), logprobs_TV.gather(1, ids[1:, None])[:, 0].cpu().numpy())

    def check(self, logprobs_T: npt.NDArray[np.floating], tolerance: float) -> float:
        """The largest difference (nats) from the engine's `logprobs_T`; raises `StaleWeightsError` where it is above `tolerance`."""
        differences_T = np.abs(np.asarray(logprobs_T, dtype=np.float64) - self.logprobs_T)
        worst = int(np.argmax(np.where(np.isnan(differences_T), np.inf, differences_T)))
        largest = float(differences_T[worst])
        if not largest <= tolerance:
            raise StaleWeightsError(
                f"the engine serves other weights than the learner's: for token {worst + 1} of the probe its log-probability is "
                f"{logprobs_T[worst]:.4f} nats, the learner's {self.logprobs_T[worst]:.4f}, more than {tolerance:g} apart; "
                "make a new engine from a saved policy"
            )
        return largest


def checkpoint_names(weights: Iterable[tuple[str, "torch.Tensor"]], tied: bool) -> Iterator[tuple[str, "torch.Tensor"]]:
    """Weights under the names that a saved checkpoint has: an output layer that is the embedding is not there a second time."""
    return ((name, tensor.detach()) for name, tensor in weights if not (tied and name == "lm_head.weight"))


def pack_tied_output(model: Any) -> None:
    """Renew the packed copy that vLLM's CPU kernels keep of an output layer which is the embedding."""
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm  # pyright: ignore[reportMissingImports]

    dispatch_cpu_unquantized_gemm(model.lm_head, remove_weight=False)
