"""What an iteration asks of its workers besides gradients: only what the loss needs, and from the weights that it needs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flat_loss import trees_near
from test_iteration import ScriptedLearner, ScriptedPool, backend_of, named
from token_trees import random_advantages, random_tree, tiny_model
from words_world import config_of, metrics, run

from trainer.iteration import Trainer
from trainer.learn_report import LearnReport
from trainer.loss_stats import LossStats
from trainer.mini_batch import Share
from trainer.policy_gradient import PolicyGradient
from trainer.run_state import RunState
from trainer.token_columns import Floats
from tree_rollout.trace import Trace

pytestmark = pytest.mark.usefixtures("no_curves")


class ScoringPool(ScriptedPool):
    """Says of every token that it is one nat less likely than it was when it was sampled, and keeps the order of calls."""

    def __init__(self) -> None:
        super().__init__(named)
        self.calls: list[str] = []
        self.ess = 1.0

    def call(self, method: str, arguments_S: Any) -> list[Any]:
        self.calls.append(method)
        return super().call(method, arguments_S)

    def logprobs(self, share: Share) -> list[Floats]:
        return [np.concatenate([turn.logprobs_T - 1.0 for turn in tree.turns]).astype(np.float64) for tree in share.trees]

    def reference_logprobs(self, share: Share) -> list[Floats]:
        """Turn n of a tree: n nats less likely."""
        turns = [[turn.logprobs_T - float(number) for number, turn in enumerate(tree.turns)] for tree in share.trees]
        return [np.concatenate(one).astype(np.float64) for one in turns]

    def learn(self, share: Share) -> LearnReport:
        self.learned.append(share)
        count = float(len(share.trees))
        return LearnReport(LossStats(coefficient=count, weight=count, squared_weight=count / self.ess))


class RatedLearner(ScriptedLearner):
    """Keeps the rate of each step, too."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []

    def step(self, iteration: int, scale: float, rate: float = 1.0) -> float:
        self.rates.append(rate)
        return super().step(iteration, scale, rate)


def advanced(path: Path, pool: ScoringPool, changes: dict[str, Any]) -> tuple[dict[str, Any], RatedLearner]:
    learner = RatedLearner()
    with Trace.create(path / "trace.sqlite", {}) as trace:
        return Trainer(config_of(path, changes), backend_of(pool, learner), trace, RunState()).advance(), learner


def test_by_default_nothing_is_scored(tmp_path: Path) -> None:
    pool = ScoringPool()
    record, learner = advanced(tmp_path, pool, {})
    assert pool.calls == ["sample", "learn", "learn"] and "reward_kl" not in record
    assert not any(share.proximal for share in pool.learned)
    assert learner.rates == [1.0, 1.0]


def test_the_proximal_policy_is_the_one_before_the_first_step(tmp_path: Path) -> None:
    pool = ScoringPool()
    advanced(tmp_path, pool, {"loss.decoupled": True})
    assert pool.calls == ["sample", "logprobs", "logprobs", "learn", "learn"]
    for share in pool.learned:
        assert [len(column) for column in share.proximal] == [sum(len(turn.ids_T) for turn in tree.turns) for tree in share.trees]


def test_a_divergence_in_the_reward_is_charged_before_credit_is_assigned(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "charged").mkdir()
    plain, charged = ScoringPool(), ScoringPool()
    before, _ = advanced(tmp_path / "plain", plain, {"credit.method": "dr_grpo"})
    after, _ = advanced(tmp_path / "charged", charged, {"credit.method": "dr_grpo", "loss.kl_coefficient": 0.5, "loss.kl_in": "reward"})
    assert charged.calls[:3] == ["sample", "reference_logprobs", "learn"]
    tokens = [len(turn.ids_T) for turn in named(charged.sampled[0][0]).turns]
    assert after["reward_kl"] == pytest.approx(np.mean([number * count for number, count in enumerate(tokens)]))
    assert after["advantage_std"] != before["advantage_std"]
    assert after["train_success"] == before["train_success"]


def test_stale_samples_make_small_steps(tmp_path: Path) -> None:
    pool = ScoringPool()
    pool.ess = 0.25
    _, learner = advanced(tmp_path, pool, {"loss.ess_learning_rate": True})
    assert learner.rates == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("budget", [1, 60, 10_000])
def test_columns_are_the_log_probabilities_whatever_the_packs(budget: int, tmp_path: Path) -> None:
    config = config_of(tmp_path, {"optimizer.micro_batch_tokens": budget})
    model, rng = tiny_model("qwen2"), np.random.default_rng(0)
    trees = [random_tree(rng) for _ in range(3)]
    weights = [tree.path_weights() for tree in trees]
    weights[1][:] = 0.0
    share = Share(trees, random_advantages(rng, trees), weights)
    columns = PolicyGradient(config, model, tmp_path).logprobs(share)
    assert [len(column) for column in columns] == [sum(len(turn.ids_T) for turn in tree.turns) for tree in trees]
    assert np.isnan(columns[1]).all()
    ids_T, start = torch.from_numpy(trees[2].ids(trees[2].leaves()[0]).astype(np.int64)), 0
    with torch.no_grad():
        alone_T = model(input_ids=ids_T[None]).logits[0].log_softmax(-1)[:-1].gather(1, ids_T[1:, None]).squeeze(1).numpy()
    path = trees[2].path(trees[2].leaves()[0])
    starts_N = np.cumsum([0, *(len(turn.ids_T) for turn in trees[2].turns)])
    for index in path:
        one = trees[2].turns[index]
        mine_T = columns[2][starts_N[index] : starts_N[index + 1]]
        for place in np.flatnonzero(one.mask_T):
            if start + place:
                assert mine_T[place] == pytest.approx(alone_T[start + place - 1], abs=1e-5)
        start += len(one.ids_T)


@pytest.mark.parametrize("decoupled", [False, True])
def test_stale_samples_are_clipped_against_the_proximal_policy_where_it_is_asked_for(decoupled: bool, tmp_path: Path) -> None:
    """`loss.decoupled` bites: the sampler's weights are others than those that learn, as with an asynchronous sampler."""
    config = config_of(tmp_path, {"loss.decoupled": decoupled})
    model = tiny_model("qwen2")
    trees, advantages, weights = trees_near(model, 0, count=2)
    share = Share(trees, advantages, weights)
    learner = PolicyGradient(config, model, tmp_path)
    share.proximal = learner.logprobs(share) if decoupled else []
    stats = learner.add(share).stats
    assert (stats.proximal_kl > 0) == decoupled
    assert (stats.clipped_low + stats.clipped_high == 0) == decoupled, "against its own weights nothing is clipped"
    assert (stats.max_ratio == pytest.approx(1.0, abs=1e-5)) == decoupled
    assert stats.ess < 1


def test_a_run_says_how_far_it_is_off_policy(tmp_path: Path) -> None:
    changes = {"run.iterations": 1, "loss.decoupled": True, "loss.entropy_coefficient": 0.01}
    record = metrics(run(tmp_path / "decoupled", changes))[-1]
    assert 0 <= record["loss_proximal_kl"] < 1e-6, "the sampler's weights are the proximal ones in a synchronous run"
    assert record["loss_behaviour_kl"] > record["loss_proximal_kl"], "the second step is off both"
    changes = {"run.iterations": 1, "loss.correction": "mis", "loss.correction_high": 1.001}
    record = metrics(run(tmp_path / "masked", changes))[-1]
    assert 0 < record["loss_rejected"] < 1 and 0 < record["loss_ess"] < 1
