import hashlib
import json
from pathlib import Path

import pytest
import yaml
from words_world import config_of

import credit
import envs
from trainer.config import Config, EnvConfig, OptimizerConfig, RunConfig, config_hash
from trainer.errors import ConfigError, UnknownBenchmarkError, UnknownModelError, UnknownSettingError, UsageError
from trainer.load_config import benchmarks, load_config, models, restore_config
from trainer.overrides import lay_over, nest, split_arguments
from trainer.settings import settings
from trainer.tree_credit import RECORDED
from tree_rollout.branching import branching_rule
from tree_rollout.errors import BranchingError


def load(tmp_path: Path, text: str, overrides: dict[str, str] | None = None) -> Config:
    file = tmp_path / "my.yaml"
    file.write_text(text)
    return load_config("household", file, overrides)


def test_every_packaged_configuration_is_valid() -> None:
    assert "household" in benchmarks()
    for name in benchmarks():
        assert load_config(name).benchmark == name


def test_every_packaged_model_goes_with_every_benchmark() -> None:
    assert "smollm2" in models()
    for benchmark in benchmarks():
        for model in models():
            config = load_config(benchmark, None, {"policy.lora.rank": "3"}, model=model)
            assert config.policy.path is not None and config.policy.lora.rank == 3, "the command line has the last word"
    with pytest.raises(UnknownModelError, match="no model is packaged as 'smolm2'; did you mean smollm2"):
        load_config("household", model="smolm2")


def test_every_setting_has_a_description_and_a_default_that_it_allows() -> None:
    assert len(settings()) > 50
    for setting in settings().values():
        assert setting.description.endswith("."), setting.name
        assert setting.allowed, setting.name
        section, _, key = setting.name.partition(".")
        json.dumps({section: {key: setting.default}})


def test_layers_override_each_other_in_order(tmp_path: Path) -> None:
    config = load(tmp_path, "run: {seed: 5, iterations: 7}\noptimizer: {lr: 1e-3}\n", {"run.seed": "6"})
    assert (config.run.seed, config.run.iterations, config.optimizer.lr) == (6, 7, 0.001)
    assert config.optimizer.betas == OptimizerConfig().betas


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("optimizer.lr", "5e-4", 5e-4),
        ("optimizer.lr", "1", 1.0),
        ("optimizer.betas", "[0.8, .9]", (0.8, 0.9)),
        ("rollout.token_budget", "2000", 2000),
        ("rollout.token_budget", "null", None),
        ("loss.dual_clip", "3", 3.0),
        ("run.workers", "auto", "auto"),
        ("run.workers", "1", 1),
        ("run.out", "2024", "2024"),
        ("run.out", "yes: [", "yes: ["),
        ("run.out", "null", None),
        ("env.kwargs.task_types", "[pick_and_place_simple]", {"task_types": ["pick_and_place_simple"]}),
        ("credit.settings.gamma", "0.9", {"gamma": 0.9}),
        ("credit.settings", "{gamma: 0.9, omega: 2}", {"gamma": 0.9, "omega": 2}),
        ("rollout.branching.options.sibling_penalty", "0.2", {"sibling_penalty": 0.2}),
        ("rollout.branching.options", "{sibling_penalty: 1}", {"sibling_penalty": 1}),
    ],
)
def test_override_is_read_as_its_setting_wants_it(name: str, text: str, value: object) -> None:
    found: object = load_config("household", None, {name: text})
    for key in name.split("."):
        if isinstance(found, dict):
            break
        found = getattr(found, key)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("rollout.tasks", "0", "setting rollout.tasks on the command line must be an integer from 1 to 1000000, but is 0"),
        ("rollout.tasks", "1.5", "must be an integer from 1 to 1000000, but is 1.5"),
        ("rollout.tasks", "true", "must be an integer from 1 to 1000000, but is true"),
        ("rollout.tasks", "007", 'must be an integer from 1 to 1000000, but is "007"'),
        ("optimizer.lr", "fast", 'must be a number above 0 and of at most 1, but is "fast"'),
        ("optimizer.lr", ".nan", "setting optimizer.lr on the command line must be"),
        ("loss.dual_clip", "1", "must be a number above 1 or null, but is 1"),
        ("loss.aggregation", "tokens", 'must be one of token, sequence, turn, constant, but is "tokens"'),
        ("run.workers", "many", 'must be auto or an integer from 1 to 1024, but is "many"'),
        ("optimizer.betas", "[.9]", "must be a list of 2 values, each a number of at least 0 and below 1, but is [0.9]"),
        ("credit.settings", "[1]", "setting credit.settings on the command line must be a table, but is [1]"),
        ("optimizer.lr", "[", "the value '[' of setting optimizer.lr is not valid"),
        ("policy.hidden", "130", "policy.hidden must be an even multiple of policy.heads, but is 130 with 4 heads"),
        ("policy.kv_heads", "3", "policy.kv_heads must divide policy.heads"),
        ("rollout.branching.rule", "none", "rollout.forks must be 0 with rollout.branching.rule none"),
        ("rollout.forks", "0", "rollout.branching.rule topk_entropy has no effect with rollout.forks 0"),
        ("run.shards", "25", "run.shards must be at most rollout.tasks"),
        ("run.workers", "3", "run.workers must be at most run.shards"),
        ("optimizer.mini_batches", "99", "optimizer.mini_batches must be at most rollout.tasks"),
        ("policy.device", "gpu", 'must be text such as cpu, cuda, cuda:1, auto, but is "gpu"'),
        ("rollout.engine", "openai", 'must be one of transformers, vllm, but is "openai"'),
        ("rollout.vllm.sleep", "true", "rollout.vllm.sleep has no effect with rollout.engine transformers; set that to vllm"),
        ("rollout.device", "cuda", "rollout.device cuda is not policy.device cpu, but the engine transformers samples from the learner's"),
        ("env.eval_split", "valid", "has no split 'valid'; did you mean"),
    ],
)
def test_bad_value_names_setting_given_and_allowed(name: str, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("household", None, {name: text})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rollout.taks", "did you mean rollout.tasks"),
        ("rolout.tasks", "did you mean rollout.tasks"),
        ("run.lr", "did you mean critic.lr or optimizer.lr?"),
        ("lr.value", "the sections are env, policy,"),
        ("reward.zzz", "the section reward has invalid_penalty"),
        ("run.seed.x", "did you mean run.seed"),
        ("benchmark.x", "no setting is called benchmark.x"),
    ],
)
def test_unknown_override_names_the_nearest(name: str, words: str) -> None:
    with pytest.raises(UnknownSettingError) as caught:
        load_config("household", None, {name: "1"})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("rollout: {taks: 3}", UnknownSettingError, "no setting is called rollout.taks (in {file}); did you mean rollout.tasks"),
        ("rolout: {tasks: 3}", UnknownSettingError, "no setting is called rolout (in {file}); did you mean rollout"),
        ("benchmark: household", UnknownSettingError, "no setting is called benchmark (in {file})"),
        ("rollout: 3", ConfigError, "section rollout in {file} must be a table of settings, but is 3"),
        ("rollout: {branching: random}", ConfigError, "section rollout.branching in {file} must be a table"),
        ("rollout: {tasks: -1}", ConfigError, "setting rollout.tasks in {file} must be an integer from 1 to 1000000, but is -1"),
        ("run: {seed: 1, seed: 2}", ConfigError, "is not valid at line 1, column 16: the key seed stands twice in the same table"),
        ("run: {seed: 1}\nrun: {out: a}", ConfigError, "at line 2, column 1: the key run stands twice"),
        ("run: {1: 2}", ConfigError, "the key 1 is not text"),
        ("run: [", ConfigError, "configuration {file} is not valid at line 1"),
        ("- run", ConfigError, "holds list where a table of sections belongs"),
        ("run: !!python/object:os.system {}", ConfigError, "is not valid at line 1"),
    ],
)
def test_bad_file_is_one_sentence(tmp_path: Path, text: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        load(tmp_path, text)
    assert words.format(file=tmp_path / "my.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_config("household", tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"run: {out: \xe9}")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load_config("household", tmp_path / "latin.yaml")


def test_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert load(tmp_path, "# nothing\n") == load_config("household")


def test_unknown_names_are_the_owners_errors() -> None:
    with pytest.raises(UnknownBenchmarkError, match="did you mean household"):
        load_config("houshold")
    with pytest.raises(envs.UnknownEnvironmentError, match="did you mean branchwise/Household-v0"):
        load_config("household", None, {"env.id": "branchwise/Houshold-v0"})
    with pytest.raises(credit.UnknownMethodError, match="grpo"):
        load_config("household", None, {"credit.method": "gppo"})
    with pytest.raises(credit.SettingError, match="gamma"):
        load_config("household", None, {"credit.settings.gama": "1"})
    with pytest.raises(credit.SettingError, match="allowed is"):
        load_config("household", None, {"credit.settings.gamma": "7"})


@pytest.mark.parametrize(
    ("method", "field"),
    [("agent_opsd", "teacher_logprob_gap"), ("self_credit", "cited"), ("igpo", "information_gain")],
)
def test_a_method_that_needs_what_training_does_not_record_is_refused(method: str, field: str) -> None:
    with pytest.raises(ConfigError, match=f"credit.method {method} needs {field} of every turn, which training does not record"):
        load_config("household", None, {"credit.method": method})


def test_a_method_that_asks_for_another_part_of_the_reward_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"credit\.method mt_grpo does not fit what training records: .*process"):
        load_config("household", None, {"credit.method": "mt_grpo"})


def test_parts_of_the_reward_that_do_not_exist_or_have_no_weight_are_refused() -> None:
    with pytest.raises(ConfigError, match="no part 'fromat' of the reward; did you mean format"):
        load_config("household", None, {"reward.weights.fromat": "1"})
    with pytest.raises(credit.SettingError, match="ascending"):
        load_config("household", None, {"reward.weights.format": "[[5, 1], [1, 0]]"})
    with pytest.raises(credit.SettingError, match="the weight of reward 'length' is 'much'"):
        load_config("household", None, {"reward.weights.length": "much"})


def test_every_method_that_training_can_feed_is_accepted() -> None:
    accepted = [name for name in credit.methods() if not credit.needs(name) - RECORDED and name != "mt_grpo"]
    assert len(accepted) > 15
    for name in accepted:
        assert load_config("household", None, {"credit.method": name, "reward.weights.length": "0.1"}).credit.method == name


@pytest.mark.parametrize(
    ("rule", "option", "value"),
    [
        ("topk_entropy", "sibling_penalty", 0.1),
        ("first_token", "chance_per_nat", 0.5),
        ("arpo", "base_probability", 0.3),
        ("arpo", "entropy_weight", 1),
        ("appo", "discount", 0.9),
        ("appo", "clip", 0.3),
        ("hybrid", "entropy_weight", 1.5),
        ("hybrid", "confidence_weight", 0),
        ("hybrid", "max_width", 3),
        ("hybrid", "window", 2),
        ("signal_per_token", "prior_rollouts", 5),
    ],
)
def test_every_branching_option_works_from_a_file_and_from_the_command_line(tmp_path: Path, rule: str, option: str, value: float) -> None:
    name = f"rollout.branching.options.{option}"
    from_file = load(tmp_path, f"rollout: {{branching: {{rule: {rule}, options: {{{option}: {value}}}}}}}\n")
    from_words = load_config("household", None, {"rollout.branching.rule": rule, name: str(value)})
    assert from_file == from_words
    made = branching_rule(from_words.rollout.branching.rule, from_words.rollout.branching.options)
    assert made.name == rule and getattr(made, option) == value and getattr(branching_rule(rule), option) != value
    with pytest.raises(BranchingError, match=f"{option} is -1; give"):
        load_config("household", None, {"rollout.branching.rule": rule, name: "-1"})


def test_a_branching_rule_of_ones_own_works_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rulesofconfig.py").write_text("def first(tree, budget, rng, word='go'):\n    return []\n")
    monkeypatch.syspath_prepend(tmp_path)
    chosen = {"rollout.branching.rule": "rulesofconfig:first"}
    config = load_config("household", None, {**chosen, "rollout.branching.options.word": "stay"})
    assert config.rollout.branching.options == {"word": "stay"}
    with pytest.raises(BranchingError, match="has no option 'wort'; did you mean word"):
        load_config("household", None, {**chosen, "rollout.branching.options.wort": "stay"})


def test_another_method_drops_the_settings_of_the_old_one(tmp_path: Path) -> None:
    text = "credit: {method: rtmc, settings: {n_p: 3}}\n"
    assert load(tmp_path, text, {"credit.settings.gamma": "0.9"}).credit.settings == {"n_p": 3, "gamma": 0.9}
    assert load(tmp_path, text, {"credit.method": "rtmc"}).credit.settings == {"n_p": 3}
    changed = load(tmp_path, text, {"credit.method": "gigpo", "credit.settings.gamma": "0.9"})
    assert (changed.credit.method, changed.credit.settings) == ("gigpo", {"gamma": 0.9})


@pytest.mark.parametrize(
    ("chooser", "companion"),
    [
        ("rollout.allocation.rule", "rollout.allocation.options"),
        ("rollout.task_choice.rule", "rollout.task_choice.options"),
        ("agent.memory", "agent.memory_settings"),
        ("agent.action_format", "agent.action_settings"),
    ],
)
def test_another_choice_drops_the_options_of_the_old_one(chooser: str, companion: str) -> None:
    base = nest({chooser: "old", companion: {"size": 3}})
    assert lay_over(base, nest({chooser: "new"})) == nest({chooser: "new"})
    assert lay_over(base, nest({chooser: "old"})) == base


def test_another_environment_drops_the_habits_of_the_old_one_s_demonstrator() -> None:
    base = {"env": {"id": "a/A-v0", "kwargs": {"size": 3}}, "warmstart": {"steps": 5, "habits": {"forget": 0.5}}}
    assert lay_over(base, {"env": {"id": "b/B-v0"}}) == {"env": {"id": "b/B-v0"}, "warmstart": {"steps": 5}}
    assert lay_over(base, {"env": {"id": "a/A-v0"}}) == base


def test_lay_over_leaves_its_arguments_alone() -> None:
    base = {"credit": {"method": "rtmc", "settings": {"n_p": 3}}, "policy": {"layers": 2}}
    merged = lay_over(base, {"credit": {"method": "grpo"}, "policy": {"path": "x"}})
    assert merged == {"credit": {"method": "grpo"}, "policy": {"path": "x"}}
    assert base == {"credit": {"method": "rtmc", "settings": {"n_p": 3}}, "policy": {"layers": 2}}


def test_sizes_have_no_effect_on_an_existing_model(tmp_path: Path) -> None:
    assert load(tmp_path, "policy: {path: /models/x}").policy.path == "/models/x"
    with pytest.raises(ConfigError, match=r"policy.layers has no effect on the model in policy.path"):
        load(tmp_path, "policy: {path: /models/x, layers: 2}")


def test_split_arguments_keeps_the_rest_in_order() -> None:
    words = ["household", "--run.seed", "-1", "--resume", "--env.kwargs.a-b=c=d", "--out", "x", "--run.seed=2", "--", "--a.b"]
    assert split_arguments(words) == (
        ["household", "--resume", "--out", "x", "--", "--a.b"],
        {"run.seed": "2", "env.kwargs.a-b": "c=d"},
    )


@pytest.mark.parametrize("words", [["--run.seed"], ["--run.seed", "--run.out", "x"]])
def test_override_without_value_is_an_error(words: list[str]) -> None:
    with pytest.raises(UsageError, match=r"setting run.seed has no value"):
        split_arguments(words)


@pytest.mark.parametrize("names", [("a.b", "a.b.c"), ("a.b.c", "a.b")])
def test_a_name_cannot_be_a_table_and_a_value(names: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="both given"):
        nest(dict.fromkeys(names, 1))


def test_configuration_survives_json(tmp_path: Path) -> None:
    config = load_config("household", None, {"optimizer.betas": "[0.8, 0.9]", "credit.settings.gamma": "0.9", "run.out": str(tmp_path)})
    assert restore_config(config.model_dump_json(), "config.json") == config
    with pytest.raises(ConfigError, match=r"config.json is not valid JSON"):
        restore_config("{", "config.json")
    with pytest.raises(ConfigError, match="holds no configuration"):
        restore_config("[]", "config.json")
    other = json.loads(config.model_dump_json())
    other["run"]["sed"] = 1
    with pytest.raises(UnknownSettingError, match=r"run.sed \(in config.json\)"):
        restore_config(json.dumps(other), "config.json")


def test_configuration_is_frozen_and_names_its_folder() -> None:
    config = load_config("household", None, {"run.seed": "3"})
    assert config.folder == Path("runs/household-seed3")
    assert load_config("household", None, {"run.out": "a/b"}).folder == Path("a/b")
    with pytest.raises(ValueError, match="frozen"):
        config.run.seed = 4  # pyright: ignore


def test_hash_depends_on_contents_alone() -> None:
    assert config_hash({"a": 1, "b": [2, 3]}) == config_hash({"b": [2, 3], "a": 1})
    assert config_hash(EnvConfig(), RunConfig()) == config_hash(EnvConfig(), RunConfig(seed=0))
    assert config_hash(EnvConfig(), RunConfig()) != config_hash(EnvConfig(), RunConfig(seed=1))
    assert config_hash(EnvConfig(), RunConfig()) != config_hash(RunConfig(), EnvConfig())
    assert config_hash({"lr": 5e-4, "a": None}, "x") == hashlib.sha256(b'[{"a":null,"lr":0.0005},"x"]').hexdigest()


@pytest.mark.parametrize("text", ["1e-3", "1.0e-3", "0.001", ".001"])
def test_yaml_numbers_are_numbers(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, f"optimizer: {{lr: {text}}}").optimizer.lr == pytest.approx(0.001)


def test_yaml_words_are_words(tmp_path: Path) -> None:
    assert isinstance(yaml.safe_load("no"), bool), "what the loader guards against"
    assert load(tmp_path, "run: {out: no}").run.out == "no"
    assert load(tmp_path, "run: {out: 1:30}").run.out == "1:30"


def test_a_rule_that_compares_tasks_needs_several_in_every_shard(tmp_path: Path) -> None:
    few = {"rollout.allocation.rule": "vigor", "rollout.tasks": 3, "run.shards": 2}
    with pytest.raises(ConfigError, match=r"set rollout\.tasks to 4 or more"):
        config_of(tmp_path, few)
    assert config_of(tmp_path, {**few, "rollout.tasks": 4}).rollout.tasks == 4
