"""What engines are held against: `generate` of transformers, whose batch is padded on the left and runs until its longest turn ends."""

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from transformers import GenerationConfig

from benchmarks.rollouts.policies import Policy


def plain_generate(
    policy: Policy, prompts: Sequence[npt.NDArray[np.int32]], limits: Sequence[int], slots: int, seed: int = 0
) -> tuple[int, float]:
    """Sample a turn after each prompt, in batches of `slots`; (tokens within the limits, CPU seconds).

    Temperature 1, the whole vocabulary, key-value cache, attention of torch; no scores are asked for, which an engine also computes.
    `RuntimeError` where a batch does not run until its longest turn ends.
    """
    torch.manual_seed(seed)
    started = time.process_time()
    for first in range(0, len(prompts), slots):
        _batch(policy, prompts[first : first + slots], max(limits[first : first + slots]))
    return sum(limits), time.process_time() - started


def _batch(policy: Policy, prompts: Sequence[npt.NDArray[np.int32]], limit: int) -> None:
    stop = policy.agent.stop_ids[0]
    width = max(map(len, prompts))
    ids_BT = torch.full((len(prompts), width), stop)
    mask_BT = torch.zeros_like(ids_BT)
    for row, ids_T in enumerate(prompts):
        ids_BT[row, width - len(ids_T) :] = torch.from_numpy(ids_T.astype(np.int64))
        mask_BT[row, width - len(ids_T) :] = 1
    config = GenerationConfig(
        do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=limit, use_cache=True, eos_token_id=stop, pad_token_id=stop
    )
    model = policy.model
    with torch.inference_mode():
        said_BT = model.generate(input_ids=ids_BT, attention_mask=mask_BT, generation_config=config)  # pyright: ignore[reportCallIssue]
    if said_BT.shape[1] != width + limit:
        raise RuntimeError(f"generate sampled {said_BT.shape[1] - width} tokens instead of {limit}; a stop token was drawn")
