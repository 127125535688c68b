"""What several ranks compute beside what one process computes: some mini-batches of random trees, learned from in a few steps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from token_trees import random_advantages, random_tree, tiny_model
from torch.distributed import FileStore  # pyright: ignore[reportPrivateImportUsage]
from torch.multiprocessing.spawn import spawn
from transformers import PreTrainedModel
from words_world import config_of

from trainer.config import Config
from trainer.dealt_shares import DealtShares
from trainer.learn_report import LearnReport
from trainer.learner import Learner
from trainer.mini_batch import Share
from trainer.policy_gradient import PolicyGradient
from trainer.shared_parameters import SharedParameters
from trainer.trained_model import load_trained

STEPS = 3
SCALE = 0.1
PLAIN: dict[str, Any] = {"optimizer.warmup_iterations": 0, "optimizer.lr": 0.01, "optimizer.micro_batch_tokens": 60}
SIZES = dict.fromkeys(("layers", "hidden", "heads", "kv_heads", "intermediate", "vocab_size"))
FOLDER = {f"policy.{name}": None for name in SIZES}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "tied": ("qwen3", {"optimizer.weight_decay": 0.5}),
    "biases": ("qwen2", {"optimizer.max_grad_norm": 0.01}),
    "output layer": ("llama", {"loss.entropy_coefficient": 0.1}),
    "windows": ("gemma3", {"loss.kind": "gspo"}),
    "layers again": ("qwen3", {"optimizer.gradient_checkpointing": "true"}),
    "reference": ("", {"loss.kl_coefficient": 0.5}),
    "bfloat16": ("", {"policy.dtype": "bfloat16"}),
    "adapters": ("", {**FOLDER, "policy.lora.rank": 2, "loss.kl_coefficient": 0.5}),
    "adapters on bfloat16": ("", {**FOLDER, "policy.lora.rank": 2, "policy.dtype": "bfloat16"}),
}
"""By name: the architecture of a tiny model, or nothing for the start policy of the tiny run; and settings."""


def of_case(name: str, policy: Path) -> tuple[Config, PreTrainedModel]:
    family, changes = CASES[name]
    if "policy.lora.rank" in changes:
        changes = {**changes, "policy.path": policy}
    config = config_of(policy, {**PLAIN, **changes})
    return config, tiny_model(family).eval() if family else load_trained(config.policy, policy, 0)[0]


def shares(step: int) -> list[Share]:
    """What two shards learn from in a step; in the first, there is one tree alone, so that a rank has none."""
    rng = np.random.default_rng(step)
    dealt = [Share(), Share()]
    for number in range(1 if step == 0 else 5):
        trees = [random_tree(rng, turns=6 + 4 * number)]
        share = dealt[number % 2]
        share.trees += trees
        share.advantages += random_advantages(rng, trees)
        share.weights += [tree.path_weights() for tree in trees]
    return dealt


def alone(name: str, policy: Path, scratch: Path, tensors: Mapping[str, torch.Tensor] | None = None, first: int = 0) -> dict[str, Any]:
    """What one process makes of a case, from its beginning or from a checkpoint's tensors after `first` steps."""
    config, model = of_case(name, policy)
    shared = SharedParameters.of(model, scratch / name, 2)
    shared.publish(model)
    shared.attach(model)
    learner = Learner(model, shared, config.optimizer)
    if tensors is not None:
        learner.restore(tensors, first)
    parts = []
    for shard in range(2):
        _, own = of_case(name, policy)
        shared.attach(own, shard)
        parts.append(PolicyGradient(config, own, policy))
    kept: dict[str, Any] = {"norms": [], "coefficients": []}
    for step in range(first, STEPS):
        reports = [gradient.add(share) for gradient, share in zip(parts, shares(step), strict=True)]
        kept["coefficients"].append(sum(reports, LearnReport()).stats.coefficient)
        kept["norms"].append(learner.step(1, SCALE))
        kept[f"after {step}"] = {key: tensor.clone() for key, tensor in learner.tensors().items()}
    kept["logprobs"] = [part.logprobs(share) for part, share in zip(parts, shares(1), strict=True)]
    return kept


def together(policy: Path, scratch: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """What two ranks make of all cases; `given` are the tensors of one process after each case's first step, which they also go on from."""
    torch.save(dict(given), scratch / "given")
    spawn(_rank, (policy, scratch), nprocs=2)
    return torch.load(scratch / "kept", weights_only=False)


def _rank(number: int, policy: Path, scratch: Path) -> None:
    from trainer.ranks import Ranks
    from trainer.sharded_policy import ShardedPolicy

    torch.set_num_threads(1)
    given: Mapping[str, Any] = torch.load(scratch / "given", weights_only=False)
    ranks = Ranks.joined(number, 2, FileStore(str(scratch / "store"), 2), "cpu")
    kept: dict[str, Any] = {}
    for name in CASES:
        config, model = of_case(name, policy)
        kept[name] = _learned(ShardedPolicy(config, model, policy, ranks), ranks, 0)
        config, model = of_case(name, policy)
        resumed = ShardedPolicy(config, model, policy, ranks)
        resumed.restore(given[name])
        kept[name]["resumed"] = _learned(resumed, ranks, 1)
    if number == 0:
        torch.save(kept, scratch / "kept")
    torch.distributed.destroy_process_group()


def _learned(policy: Any, ranks: Any, first: int) -> dict[str, Any]:
    kept: dict[str, Any] = {"norms": [], "coefficients": [], "parts": sum(p.to_local().numel() for p in policy._parameters.values())}
    for step in range(first, STEPS):
        report = policy.learn(_part(shares(step), ranks))
        kept["coefficients"].append(ranks.total(torch.tensor(report.stats.coefficient)))
        kept["norms"].append(policy.step(1, SCALE, 1.0))
        kept[f"after {step}"] = {key: tensor.clone() for key, tensor in policy.tensors().items()}
    dealt = DealtShares(shares(1), ranks.count)
    gathered: list[Any] = [None] * ranks.count
    torch.distributed.all_gather_object(gathered, policy.logprobs(dealt.parts[ranks.number]))
    return kept | {"logprobs": dealt.collected(gathered)}


def _part(of_shards: Sequence[Share], ranks: Any) -> Share:
    return DealtShares(of_shards, ranks.count).parts[ranks.number]
