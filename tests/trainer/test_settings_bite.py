"""Every setting changes what it says it changes, and nothing that was computed before it comes into play."""

from typing import Any

import numpy as np
import pytest
from words_world import metrics, run, weights

from trainer.checkpoint import CheckpointSeries
from trainer.run_folder import RunFolder
from trainer.settings import settings
from tree_rollout.trace import Trace

pytestmark = pytest.mark.usefixtures("no_curves")
SHORT = {
    "run.iterations": 1,
    "run.shards": 1,
    "rollout.tasks": 2,
    "optimizer.lr": 0.05,
    "optimizer.warmup_iterations": 0,
    "evaluation.tasks": 1,
    "evaluation.every": 10,
}
MORE = {"rollout.tasks": 6}
FORKING = ("first_token", "uniform_depth", "arpo", "appo", "hybrid", "signal_per_token")
WIDE = {**MORE, "rollout.forks": 5}
LONG = {"run.iterations": 2}
WINDOW = {**MORE, "env.max_turns": 6, "agent.memory": "sliding_window", "agent.memory_settings.turns": 8}
POOL = {"rollout.task_pool": 12, **MORE}
BUDGET = {**MORE, "rollout.roots": 5, "rollout.forks": 2}
DECAY = {**LONG, "optimizer.decay_iterations": 2}
CONSTANT = {"loss.aggregation": "constant", "loss.constant": 20.0}
KL = {"loss.kl_coefficient": 1.0}
HEAD = {"credit.method": "gae", "credit.settings": "{lam: 1.0}", "critic.kind": "head"}
MASKED = {**MORE, "loss.correction": "double_sided", "loss.correction_low": 0.5}
ELSEWHERE = {
    "env.id": "each test here names its own",
    "policy.path": "test_an_existing_model_trains",
    "policy.device": "test_another_device_computes_the_same",
    "rollout.engine": "test_a_run_samples_with_vllm_what_its_learner_would",
    "rollout.device": "test_the_engine_gets_its_device",
    "rollout.vllm.gpu_memory_utilization": "test_each_setting_reaches_vllm",
    "rollout.vllm.cache_gib": "test_each_setting_reaches_vllm",
    "rollout.vllm.tensor_parallel": "test_each_setting_reaches_vllm",
    "rollout.vllm.dtype": "test_each_setting_reaches_vllm",
    "rollout.vllm.enforce_eager": "test_each_setting_reaches_vllm",
    "rollout.vllm.top_logprobs": "test_each_setting_reaches_vllm",
    "rollout.vllm.sleep": "test_vllm_sleeps_while_the_run_learns",
    "policy.lora.rank": "test_adapters_begin_without_an_effect_and_alone_are_trained",
    "policy.lora.alpha": "test_each_setting_has_its_effect",
    "policy.lora.targets": "test_each_setting_has_its_effect",
    "policy.lora.last_blocks": "test_the_blocks_before_the_last_ones_are_left_alone",
    "agent.chat_template": "test_an_agent_talks_as_it_is_configured",
    "agent.stop_tokens": "test_an_agent_talks_as_it_is_configured",
    "agent.system": "test_an_agent_talks_as_it_is_configured",
    "agent.follow_rewrites": "test_an_agent_talks_as_it_is_configured",
    "agent.memory": "agent.memory_settings",
    "loss.decoupled": "test_stale_samples_are_clipped_against_the_proximal_policy_where_it_is_asked_for",
    "rollout.schedule": "test_trees_do_not_depend_on_who_finishes_first, test_while_one_environment_is_busy_the_engine_serves_the_others",
    "rollout.env_threads": "test_environments_that_take_long_work_at_the_same_time",
    "rollout.env_processes": "test_trees_are_the_same_as_with_environments_in_this_process",
    "rollout.deadline_s": "test_a_rollout_beyond_its_time_is_recorded_and_ends_alone",
    "ray.address": "test_a_run_on_ray_is_the_same_run",
    "ray.strategy": "test_both_nodes_work",
    "ray.engine_cpus": "test_a_request_that_cannot_be_met_is_one_sentence",
    "ray.engine_gpus": "test_every_request_is_named",
    "ray.env_workers": "test_both_nodes_work",
    "ray.env_cpus": "test_every_request_is_named",
    "ray.learners": "test_both_nodes_work",
    "ray.learner_cpus": "test_every_request_is_named",
    "ray.learner_gpus": "test_every_request_is_named",
    "ray.restarts": "test_more_deaths_than_allowed_end_the_run",
    "ray.start_deadline_s": "test_a_request_that_cannot_be_met_is_one_sentence",
    "ray.object_store_bytes": "test_a_full_object_store_is_one_sentence",
    **{f"sft.{name}": "test_a_setting_of_sft_bites" for name in ("keep", "epochs", "steps", "tokens_per_step", "held_out_share")},
    "sft.trace": "test_a_run_says_what_it_did",
    "run.backend": "test_a_run_on_ray_is_the_same_run",
    "run.mode": "test_trees_are_carried_over_updates",
    "run.max_staleness": "test_more_staleness_lets_more_trees_be_on_their_way",
    "run.straggler_wait_s": "test_what_is_too_slow_is_dropped_and_counted",
    "run.grace_s": "test_a_grace_period_ends_the_wait_for_the_iteration",
    "run.out": "each test here names its own",
    "run.workers": "test_two_processes_do_what_one_does",
    "optimizer.sharding": "test_a_run_with_two_ranks_learns_what_one_process_learns_and_goes_on_without_them, test_a_rank_holds_about_half",
    "optimizer.gradient_checkpointing": "test_layers_that_are_computed_again_take_less_memory_and_have_the_same_gradient",
    "run.keep_best": "test_the_best_policy_is_kept",
    "run.loggers": "test_loggers_are_free_to_change_on_resume_and_get_what_was_before",
    "run.max_failed_share": "test_one_failed_rollout_is_data, test_too_many_failures_stop_the_run_with_the_reason",
}
BITES: list[tuple[str, Any, str, dict[str, Any]]] = [
    ("env.kwargs.start", 1, "start", {}),
    ("env.train_split", "valid_unseen", "start", {}),
    ("env.eval_split", "train", "evaluations", {"evaluation.tasks": 4}),
    ("env.max_turns", 2, "trees", {}),
    ("policy.layers", 2, "start", {}),
    ("policy.hidden", 32, "start", {}),
    ("policy.heads", 1, "start", {"policy.kv_heads": 1}),
    ("policy.kv_heads", 1, "start", {}),
    ("policy.intermediate", 32, "start", {}),
    ("policy.max_length", 20, "trees", {}),
    ("policy.rope_theta", 10.0, "start", {}),
    ("policy.vocab_size", 280, "start", {}),
    ("policy.dtype", "bfloat16", "start", {}),
    ("agent.action_format", "tagged", "start", {}),
    ("agent.action_settings.max_length", 1, "trees", {}),
    ("agent.memory_settings.turns", 1, "trees", WINDOW),
    ("agent.memory_settings.share", 0.0, "trees", {**WINDOW, "agent.memory_settings.turns": 2}),
    ("warmstart.seed", 1, "start", {}),
    ("warmstart.tokenizer_episodes", 1, "start", {}),
    ("warmstart.episodes", 1, "start", {}),
    ("warmstart.steps", 2, "start", {}),
    ("warmstart.tokens_per_step", 16, "start", {}),
    ("warmstart.lr_muon", 0.5, "start", {}),
    ("warmstart.lr_adamw", 0.5, "start", {}),
    ("warmstart.observation_weight", 0.9, "start", {}),
    ("warmstart.habits.lazy", 1.0, "start", {}),
    ("warmstart.noise", 0.9, "start", {}),
    ("rollout.tasks", 3, "trees", {}),
    ("rollout.roots", 3, "trees", {}),
    ("rollout.forks", 2, "trees", {}),
    ("rollout.branching.rule", "random", "trees", {}),
    ("rollout.branching.options.sibling_penalty", 0.0, "trees", WIDE),
    *[("rollout.branching.rule", rule, "trees", WIDE) for rule in FORKING],
    ("rollout.branching.options.chance_per_nat", 0.01, "trees", {**WIDE, "rollout.branching.rule": "first_token"}),
    ("rollout.branching.options.base_probability", 0.1, "trees", {**WIDE, "rollout.branching.rule": "arpo"}),
    ("rollout.branching.options.discount", 0.0, "trees", {**WIDE, "rollout.branching.rule": "appo"}),
    ("rollout.branching.options.max_width", 2, "trees", {**WIDE, "rollout.branching.rule": "hybrid"}),
    ("rollout.branching.options.prior_rollouts", 50.0, "trees", {**WIDE, "rollout.branching.rule": "signal_per_token"}),
    ("rollout.max_new_tokens", 2, "trees", {}),
    ("rollout.temperature", 3.0, "trees", {}),
    ("rollout.token_budget", 1, "trees", {}),
    ("rollout.step_budget", 1, "trees", {}),
    ("rollout.task_pool", 2, "trees", {}),
    ("rollout.task_choice.rule", "thompson", "trees", POOL),
    ("rollout.task_choice.options.discount", 0.01, "weights", {**POOL, "run.iterations": 4, "rollout.task_choice.rule": "thompson"}),
    ("rollout.dynamic_sampling.most", 4.0, "trees", {}),
    ("rollout.dynamic_sampling.fill_up", True, "weights", {"rollout.dynamic_sampling.most": 1.0, **MORE}),
    *[("rollout.allocation.rule", rule, "trees", BUDGET) for rule in ("pilot_commit", "dars")],
    ("rollout.allocation.rule", "vigor", "weights", {**BUDGET, "rollout.task_pool": 6, "run.iterations": 2}),
    ("rollout.allocation.options.pilot_share", 0.9, "trees", {**BUDGET, "rollout.allocation.rule": "pilot_commit"}),
    ("rollout.stopping", [{"rule": "length_limit", "options": {"turns": 1}}], "trees", {}),
    ("credit.method", "grpo", "weights", {}),
    ("credit.weighting", "leaf", "weights", {}),
    ("credit.settings.gamma", 0.5, "weights", {}),
    ("credit.signature", "actions", "weights", {}),
    ("credit.signature_settings.of", "actions", "weights", {"credit.signature": "window"}),
    ("critic.kind", "model", "weights", HEAD),
    ("critic.level", "token", "weights", HEAD),
    ("critic.lr", 0.1, "weights", HEAD),
    ("critic.coefficient", 0.0, "weights", HEAD),
    ("critic.clip", 1e-6, "weights", {**HEAD, **MORE}),
    ("critic.warmup_iterations", 1, "weights", HEAD),
    ("reward.invalid_penalty", 0.0, "weights", {}),
    ("reward.weights.length", 0.5, "weights", {}),
    ("reward.overlong_limit", 30, "weights", {"reward.overlong_limit": 6, "reward.overlong_buffer": 5, "rollout.tasks": 6}),
    ("reward.overlong_buffer", 1, "weights", {"reward.overlong_limit": 6, "reward.overlong_buffer": 6, "rollout.tasks": 6}),
    ("loss.kind", "gspo", "weights", MORE),
    ("loss.kind", "cispo", "weights", MORE),
    ("loss.ratio", "turn", "weights", {**MORE, "loss.kind": "gspo"}),
    ("loss.clip_low", 0.9, "weights", {}),
    ("loss.clip_high", 0.001, "weights", MORE),
    ("loss.dual_clip", 1.002, "weights", {**MORE, "loss.clip_high": 0.001}),
    ("loss.correction", "double_sided", "weights", {**MORE, "optimizer.lr": 0.5}),
    ("loss.correction_high", 1.001, "weights", MASKED),
    ("loss.correction_low", 0.999, "weights", MASKED),
    ("loss.aggregation", "sequence", "weights", {}),
    ("loss.aggregation", "turn", "weights", {}),
    ("loss.constant", 2000.0, "weights", CONSTANT),
    ("loss.kl_coefficient", 1.0, "weights", {}),
    ("loss.kl_estimator", "k2", "weights", KL),
    ("loss.kl_in", "reward", "weights", KL),
    ("loss.entropy_coefficient", 0.5, "weights", {}),
    ("loss.ess_learning_rate", True, "weights", {}),
    ("optimizer.lr", 0.02, "weights", {}),
    ("optimizer.betas", [0.5, 0.5], "weights", {}),
    ("optimizer.weight_decay", 0.5, "weights", {}),
    ("optimizer.no_decay", ["*_proj.weight"], "weights", {"optimizer.weight_decay": 0.5}),
    ("optimizer.max_grad_norm", 0.01, "weights", {}),
    ("optimizer.warmup_iterations", 4, "weights", {}),
    ("optimizer.decay_iterations", 1, "weights", LONG),
    ("optimizer.decay", "cosine", "weights", {"run.iterations": 2, "optimizer.decay_iterations": 4}),
    ("optimizer.final_lr_share", 0.9, "weights", DECAY),
    ("optimizer.mini_batches", 1, "weights", {}),
    ("optimizer.micro_batch_tokens", 1, "nothing", {}),
    ("optimizer.attention", "sdpa", "nothing", {}),
    ("evaluation.tasks", 2, "evaluations", {}),
    ("evaluation.every", 1, "evaluations", LONG),
    ("evaluation.seed", 7, "evaluations", {"evaluation.tasks": 4}),
    ("run.seed", 1, "trees", {}),
    ("run.iterations", 2, "iterations", {}),
    ("run.shards", 2, "start", {}),
    ("run.checkpoint_every", 2, "checkpoints", LONG),
    ("run.keep_checkpoints", 1, "checkpoints", LONG),
]
ORDER = ["start", "trees", "weights", "evaluations", "iterations", "checkpoints"]
"""What comes before what: a setting must leave all that is named before its own effect as it is."""


@pytest.fixture(scope="module")
def plain() -> dict[str, RunFolder]:
    """The runs with unchanged settings, by these settings."""
    return {}


def tokens_of_first(folder: RunFolder) -> bytes:
    """All tokens of the first iteration's trees."""
    with Trace.open(folder.trace, readonly=True) as trace:
        return b"|".join(turn.ids_T.tobytes() for summary in trace.trees(1) for turn in trace.tree(summary.id).turns)


def of_first(folder: RunFolder) -> dict[str, Any]:
    """What the first iteration made of a run, by the names of `ORDER`."""
    checkpoint = CheckpointSeries(folder.checkpoints).newest()
    assert checkpoint is not None
    evaluations = [{k: v for k, v in entry.items() if k != "generated_tokens"} for entry in checkpoint.state["evaluations"]]
    return {
        "start": (folder.policy(0) / "model.safetensors").read_bytes(),
        "trees": tokens_of_first(folder),
        "weights": weights(folder),
        "evaluations": evaluations,
        "iterations": len(metrics(folder)),
        "checkpoints": CheckpointSeries(folder.checkpoints).numbers(),
    }


@pytest.mark.parametrize(("name", "value", "effect", "base"), BITES, ids=[f"{name}={value}" for name, value, _, _ in BITES])
def test_a_setting_bites(
    name: str, value: Any, effect: str, base: dict[str, Any], plain: dict[str, RunFolder], tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings_before = {**SHORT, **base}
    if str(base) not in plain:
        plain[str(base)] = run(tmp_path_factory.mktemp("plain") / "run", settings_before)
    changed = run(tmp_path_factory.mktemp("changed") / "run", {**settings_before, name: value})
    before, after = of_first(plain[str(base)]), of_first(changed)
    if effect == "nothing":
        assert {**before, "weights": 0} == {**after, "weights": 0}
        np.testing.assert_allclose(
            np.frombuffer(after["weights"], np.float32), np.frombuffer(before["weights"], np.float32), rtol=1e-5, atol=1e-5
        )
        return
    assert before[effect] != after[effect]
    for earlier in ORDER[: ORDER.index(effect)]:
        if effect != "iterations" or earlier in ("start", "trees"):
            assert before[earlier] == after[earlier], f"{name} came into play too early"


def test_no_setting_is_left_out() -> None:
    covered = {name for known in settings() for name, *_ in BITES if name == known or name.startswith(f"{known}.")}
    tested = {known for known in settings() if any(name == known or name.startswith(f"{known}.") for name in covered)}
    assert tested | set(ELSEWHERE) == set(settings())
