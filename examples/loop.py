"""The whole loop in one file and one process: what `branchwise train household` does, for a reader.

    .venv/bin/python examples/loop.py --policy runs/household-seed0/policies/000000     from the start that `make demo` made
    .venv/bin/python examples/loop.py --iterations 20 --seed 0                          from nothing, with a short warm start

In the order of `train`: a household, demonstrations of it, a small transformer that imitates them, then iterations of
trees -> advantages -> gradient -> weights, with the share of held-out tasks that it solves before and after.

What was simplified, and where the full version is:
- The warm start is short, a few minutes on one core, and leaves a weak policy: copying names out of the context is learned late. More
  `--steps` make it stronger; `--policy` leaves it out (trainer/warm_start.py does it in several processes and keeps the result).
- One kind of task out of six, in rooms of layouts that the policy knows (`branchwise train` measures on unknown ones).
- One process and one model object. The run cuts its work into shards over processes that share the weights (trainer/shard.py).
- Trees are forgotten after they were learned from. The run puts them on disk first, so that they can be replayed (tree_rollout/trace.py).
- No checkpoints, no resume, no metrics files (trainer/run.py). No rollout can fail here (trainer/tree_credit.py leaves failed ones out).
- Settings are constants below instead of a checked configuration (trainer/config.py).
- A mini-batch is one pack (trainer/shard.py cuts it into micro-batches), and every step counts in full, however few trees it learns from.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import credit
import envs
from agents import Agent, TransformersEngine, build_policy, load_policy, train_tokenizer
from trainer.demonstrations import DemonstratedTurn, Demonstration, DemonstrationEncoder, batches, demonstrate
from trainer.loss import batch_coefficients, loss_denominator, policy_loss
from trainer.muon import Muon
from trainer.prefix_tree import pack
from trainer.statistics import Proportion
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import tree_attention
from tree_rollout.sampler import Sampler
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.state_graph import count_merges
from tree_rollout.task import Task
from tree_rollout.tree import TrajectoryTree

ENV = "branchwise/Household-v0"
TASK_TYPES = ["pick_and_place_simple"]
ENTITY = re.compile(r"\b[a-z]+ [0-9]+\b")
"""What the household calls a thing, such as "drawer 2"; each becomes one token, which is easy to copy."""
MAX_TURNS = 20
HABITS = {"unlikely_search": 0.3, "give_up": 0.2}
"""The demonstrator errs systematically, so that imitating it leaves something to learn: in these shares of its episodes it first looks
where such a thing seldom is, and gives up the search after eight places."""

MAX_LENGTH = 768
MAX_NEW_TOKENS = 12
IMITATION_TOKENS = 1024
"""Tokens in one step of the warm start."""

ROOTS, FORKS = 4, 4
"""Rollouts of a task that start afresh, and those that fork off at the turns where the policy was least certain."""
INVALID_PENALTY = 0.2
"""Taken off a turn's advantage where the household answered "Nothing happens."; as part of the outcome it would teach a policy that fails
anyway to do nothing rather than to try."""
METHOD = "gigpo"
"""Estimator of advantages; `credit.methods()` lists them."""
LEARNING_RATE, RISE = 5e-4, 3
"""Of AdamW, and the iterations over which it rises to that."""
MINI_BATCHES = 2


@dataclass(frozen=True)
class Policy:
    """A model with everything that is needed to sample from it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    engine: TransformersEngine
    agent: Agent
    """How it converses: what it is shown, and what of its words is the action."""


def record_demonstrations(count: int, seed: int) -> list[list[DemonstratedTurn]]:
    """Episodes of the household's own expert, with its habits."""
    world = envs.make(ENV, split="train", max_turns=MAX_TURNS, task_types=TASK_TYPES)
    return [demonstrate(world, episode, np.random.default_rng([seed, 1, episode]), HABITS, noise=0.05) for episode in range(count)]


def build(episodes: Sequence[Sequence[DemonstratedTurn]], seed: int) -> Policy:
    """A fresh transformer whose tokenizer was trained on the demonstrations; "drawer 2" is one token."""
    texts = [text for turns in episodes for turn in turns for text in (turn.observation, turn.action)]
    entities = {match.group() for text in texts for match in ENTITY.finditer(text)}
    tokenizer = train_tokenizer(texts, sorted(entities), vocab_size=1536)
    sizes = {"layers": 3, "hidden": 128, "heads": 2, "kv_heads": 2, "intermediate": 256}
    return ready(build_policy(tokenizer, **sizes, max_length=MAX_LENGTH, rope_theta=10_000.0, seed=seed), tokenizer)


def ready(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> Policy:
    """The model with an engine to sample from it; the engine uses the model as it stands, so that training needs no copy."""
    agent = Agent.of(tokenizer)
    return Policy(model, tokenizer, TransformersEngine(model, agent.stop_ids, max_length=MAX_LENGTH, rows=64), agent)


def imitate(policy: Policy, demonstrations: Sequence[Demonstration], steps: int, seed: int) -> None:
    """The warm start: next-token prediction on the demonstrations, actions weighing more than observations.

    Muon trains the matrices and AdamW the rest; that learns to copy names out of the context several times sooner than AdamW alone.
    """
    embedding = policy.model.get_input_embeddings().weight
    matrices = [p for p in policy.model.parameters() if p.ndim == 2 and p is not embedding]
    others = [p for p in policy.model.parameters() if p.ndim != 2 or p is embedding]
    optimizers = [Muon(matrices, lr=0.02), torch.optim.AdamW(others, lr=0.01, betas=(0.9, 0.95), weight_decay=0.0)]
    peaks = [group["lr"] for optimizer in optimizers for group in optimizer.param_groups]
    rng = np.random.default_rng([seed, 2])
    queue: list[list[int]] = []
    for step in range(steps):
        queue = queue or batches([len(episode.ids_T) for episode in demonstrations], IMITATION_TOKENS, rng)
        loss = imitation_loss(policy.model, [demonstrations[index] for index in queue.pop()])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        for group, peak in zip(groups, peaks, strict=True):
            group["lr"] = peak * min(1.0, (step + 1) / 20, (1 - step / steps) / 0.3)  # A short rise; a fall over the last 30 %.
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if (step + 1) % 50 == 0 or step + 1 == steps:
            print(f"warm start {step + 1}/{steps}: loss {loss.item():.3f}", flush=True)


def imitation_loss(model: PreTrainedModel, episodes: Sequence[Demonstration]) -> torch.Tensor:
    """Weighted mean of the tokens' cross-entropies; padding stands at the end and has weight 0."""
    ids_BT = pad_sequence([torch.from_numpy(episode.ids_T).long() for episode in episodes], batch_first=True)
    weights_BT = pad_sequence([torch.from_numpy(episode.weights_T) for episode in episodes], batch_first=True)
    logits_BTV = model(input_ids=ids_BT, use_cache=False).logits[:, :-1]
    losses_BT = functional.cross_entropy(logits_BTV.transpose(1, 2), ids_BT[:, 1:], reduction="none")
    return (losses_BT * weights_BT[:, 1:]).sum() / weights_BT[:, 1:].sum()


def grow_trees(policy: Policy, tasks: Sequence[Task], settings: SamplerSettings, seed: int, iteration: int) -> list[TrajectoryTree]:
    """One tree per task, with the present weights; the same arguments give the same trees."""
    policy.engine.version += 1  # The weights have changed: nothing that the old ones computed may be reused.
    with Sampler(policy.engine, envs.make, policy.agent, settings) as sampler:
        return sampler.sample(tasks, run_seed=seed, iteration=iteration).trees


def advantages(tree: TrajectoryTree) -> npt.NDArray[np.float64]:
    """One number per turn, shape (N,): how much better than its state this turn's action was.

    `node` marks the turns that several rollouts share: they get one number. GiGPO compares a rollout's outcome with the group's, and
    what a turn led to with what other turns in the same state led to, on whatever branch.
    """
    paths = list(tree.rollouts())
    turns = [credit.Turn(turn.state, turn.action, turn.next_state, turn.reward, node=index) for index, turn in enumerate(tree.turns)]
    advantages_N = np.zeros(len(turns))
    for path, numbers in zip(paths, credit.estimate([[turns[index] for index in path] for path in paths], METHOD), strict=True):
        advantages_N[path] = numbers
    return advantages_N - INVALID_PENALTY * np.array([not turn.valid for turn in tree.turns])


def learn(policy: Policy, optimizer: torch.optim.Optimizer, trees: Sequence[TrajectoryTree], rng: np.random.Generator) -> float:
    """One optimizer step per mini-batch of trees; returns how many tokens sharing saved, as a factor.

    A pack lays out each shared token once; a turn's weight is divided among its continuations, so that forks do not count double.
    """
    unique = flattened = 0
    for part in np.array_split(rng.permutation(len(trees)), MINI_BATCHES):
        credited = [(trees[index], advantages(trees[index])) for index in part]
        informative = [(tree, advantages_N) for tree, advantages_N in credited if advantages_N.any()]
        if not informative:
            continue
        chosen = [tree for tree, _ in informative]
        batch = pack(chosen, [numbers for _, numbers in informative], [tree.path_weights() for tree in chosen])
        with tree_attention(policy.model):
            logprobs_S, _ = token_logprobs(policy.model, batch)
            coefficients_S, denominator = batch_coefficients(batch, "token"), loss_denominator([batch], "token")
            loss, _ = policy_loss(logprobs_S, batch.behaviour_S, batch.advantages_S, coefficients_S, denominator)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        unique, flattened = unique + batch.unique_tokens, flattened + batch.flat_tokens
    return flattened / max(1, unique)


def household(seed: int, split: str) -> Task:
    """One task as data."""
    return Task(ENV, seed, {"split": split, "max_turns": MAX_TURNS, "task_types": TASK_TYPES})


def success(policy: Policy, count: int) -> Proportion:
    """The share of fixed held-out tasks that the present policy solves when it samples, always with the same random numbers."""
    tasks = [household(1_000_000 + number, "valid_seen") for number in range(count)]
    trees = grow_trees(policy, tasks, SamplerSettings.plain(MAX_TURNS, MAX_NEW_TOKENS), seed=0, iteration=0)
    return Proportion(sum(tree.turns[-1].success for tree in trees), len(trees))


def train(options: argparse.Namespace) -> tuple[Policy, Proportion, Proportion]:
    """Run the loop; returns the policy, and its success before and after reinforcement learning."""
    if options.policy is None:
        episodes = record_demonstrations(options.episodes, options.seed)
        policy = build(episodes, options.seed)
        encoder = DemonstrationEncoder(policy.agent, observation_weight=0.3)
        imitate(policy, [sequence for turns in episodes for sequence in encoder.encode(turns)], options.steps, options.seed)
    else:
        policy = ready(*load_policy(options.policy))

    before = success(policy, options.held_out)
    print(f"before reinforcement learning: {before} of held-out tasks solved", flush=True)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.0)
    settings = SamplerSettings(ROOTS, FORKS, "topk_entropy", max_turns=MAX_TURNS, max_new_tokens=MAX_NEW_TOKENS)
    for iteration in range(1, options.iterations + 1):
        rng = np.random.default_rng([options.seed, 3, iteration])
        tasks = [household(int(seed), "train") for seed in rng.choice(2**31, options.tasks, replace=False)]
        trees = grow_trees(policy, tasks, settings, options.seed, iteration)
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, iteration / RISE)
        sharing = learn(policy, optimizer, trees, rng)
        solved = np.mean([tree.turns[leaf].success for tree in trees for leaf in tree.leaves()])
        merged = count_merges(trees).merge_rate
        print(f"iteration {iteration}: {solved:.0%} solved, {merged:.0%} of states merged, {sharing:.2f} times fewer tokens", flush=True)
    after = success(policy, options.held_out)
    print(f"after reinforcement learning: {after} of held-out tasks solved (before: {before})")
    return policy, before, after


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description="The whole loop of Branchwise in one process.")
    parser.add_argument("--iterations", type=int, default=20, help="iterations of reinforcement learning (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="decides everything that is drawn (default: %(default)s)")
    parser.add_argument(
        "--policy", metavar="FOLDER", help="start from this policy instead of a warm start; `make demo` leaves some in runs/"
    )
    parser.add_argument("--episodes", type=int, default=2000, help="demonstrations of the warm start (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=600, help="optimizer steps of the warm start (default: %(default)s)")
    parser.add_argument("--tasks", type=int, default=16, help="tasks, hence trees, in one iteration (default: %(default)s)")
    parser.add_argument("--held-out", type=int, default=100, help="held-out tasks that success is measured on (default: %(default)s)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    torch.set_num_threads(1)  # Sums in another order would give other last digits, and soon other trees.
    train(parse())
