"""The parts of the rollout benchmark count what they say they count, and the command writes what it measured, whole."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import envs
from agents import Agent, RandomEngine, train_tokenizer
from agents.engine import SampleRequest
from benchmarks import rollout
from benchmarks.report import Row
from benchmarks.rollouts import engine_speed, fork_cache, sampler_load, turn_work, vllm_process
from benchmarks.rollouts.engine_drive import flood, forked_turns
from benchmarks.rollouts.engine_speed import Load, Speed, Work
from benchmarks.rollouts.household_talk import HOUSEHOLD, conversation, entities, expert_texts
from benchmarks.rollouts.noisy_expert import NoisyExpert
from benchmarks.rollouts.paced_env import Paced
from benchmarks.rollouts.part import PartResult
from benchmarks.rollouts.plain_generate import plain_generate
from benchmarks.rollouts.policies import never_stopping, tiny_policy
from benchmarks.rollouts.sampler_load import Cell
from benchmarks.rollouts.tree_cost import COSTS, WORLDS, Comparison, Spending, distinct_leaves, grown, independent, spent
from benchmarks.rollouts.vllm_process import VLLMError, ask_vllm
from tree_rollout import SamplerReport


@pytest.fixture(scope="module")
def talker():
    texts = expert_texts(10)
    tokenizer = train_tokenizer(texts, entities(texts), 1536)
    return tokenizer, Agent.of(tokenizer)


def test_a_conversation_is_what_the_engine_would_hold():
    agent = tiny_policy().agent
    deltas = conversation(agent, 3, 6)
    env = envs.make(HOUSEHOLD)
    first, _ = env.reset(seed=3)
    assert len(deltas) == 6 and agent.text(deltas[0].tolist()) == f"<|obs|>{first}<|act|>"
    assert all(agent.text(delta.tolist()).count("<|end|><|obs|>") == 1 for delta in deltas[1:])


def test_a_fork_computes_one_token_and_without_sharing_all_of_them():
    extent = fork_cache.Extent(tokens=120, last_turns=0, vllm=False, forks=3)
    shares = fork_cache.of_transformers(tiny_policy(), extent, whole=True)
    assert shares.computed_K == (3,) * len(shares.prompt_K) and shares.alone_K == list(shares.asked_K)
    assert shares.asked_K == tuple(3 * prompt for prompt in shares.prompt_K) and shares.prompt_K[-1] >= 120
    row = shares.row("note")
    assert row.value == pytest.approx(100 * (1 - len(shares.prompt_K) * 3 / sum(shares.asked_K))) and row.baseline == 0
    assert row.ratio == pytest.approx(sum(shares.asked_K) / (3 * len(shares.prompt_K)))


def test_the_last_turns_of_a_conversation_are_the_same_conversation():
    deltas = fork_cache.talk(tiny_policy(), 200)
    shorter = fork_cache.last_turns(deltas, 2)
    assert len(shorter) == 2 and np.array_equal(np.concatenate(shorter), np.concatenate(deltas))


def test_forks_sample_after_the_prompt_of_their_turn():
    engine = RandomEngine([0], vocab_size=20)
    seen: list[list[int]] = []
    generate = engine.generate

    def watched(requests):
        seen.append([engine.length(request.handle) + len(request.ids_T) for request in requests])
        return generate(requests)

    engine.generate = watched  # pyright: ignore[reportAttributeAccessIssue]
    found = forked_turns(engine, [np.arange(1, 6, dtype=np.int32), np.arange(1, 4, dtype=np.int32)], 2, lambda: 7)
    assert seen == [[5], [5, 5], [8], [8, 8]] and found == [[10, 0], [16, 0]] and engine.held == 0


def test_a_backlog_keeps_every_slot_busy():
    engine = RandomEngine([0], vocab_size=2000)
    most: list[int] = []
    step = engine.step

    def watched():
        most.append(engine.pending)
        return step()

    engine.step = watched  # pyright: ignore[reportAttributeAccessIssue]
    tokens, seconds = flood(engine, [np.array([1], dtype=np.int32)] * 7, [3] * 7, 3)
    assert most == [3, 3, 1] and 7 <= tokens <= 21 and seconds > 0 and engine.held == engine.pending == 0


def test_no_stop_token_is_drawn_and_both_sample_the_limits():
    policy = tiny_policy()
    each = engine_speed.work(policy, Load({2: 1}, prompt=6, equal=5, median=6, longest=12), "uneven", 2)
    assert len(each.limits) == 8 and min(each.limits) >= 4 and max(each.limits) <= 12 and len(set(each.limits)) > 1
    assert {len(prompt) for prompt in each.prompts} <= set(range(3, 10))
    with never_stopping(policy):
        engine = policy.engine(2, 40)
        assert flood(engine, each.prompts, each.limits, 2)[0] == sum(each.limits) == engine.counters.decoded_tokens
        assert plain_generate(policy, each.prompts, each.limits, 2)[0] == sum(each.limits)
    stop = policy.agent.stop_ids[0]
    output = policy.model.get_output_embeddings()
    assert output is not None and not output._forward_hooks and stop >= 0


def test_a_batch_that_ends_early_is_noticed():
    policy = tiny_policy()
    everything = replace(policy, agent=replace(policy.agent, template=replace(policy.agent.template, stop_ids=(5,))))
    output = policy.model.get_output_embeddings()
    assert output is not None
    bias = output.register_forward_hook(lambda module, given, logits: logits.index_fill(-1, torch.tensor([5]), 50.0))
    try:
        with pytest.raises(RuntimeError, match="a stop token was drawn"):
            plain_generate(everything, [np.array([1, 2], dtype=np.int32)], [4], 1)
    finally:
        bias.remove()


def test_speeds_have_their_rows_and_what_was_asked():
    work = Work("uneven", 8, [], [4, 20])
    ours, vllm = Speed("m", work, [30.0, 90.0, 8.0], [10.0, 20.0, 4.0], [5.0]).rows()
    assert (ours.value, ours.baseline, ours.ratio) == (30, 10, 3) and "asked: 1.5x" in ours.note and "20 at most" in ours.note
    assert "ratio: median of 3, 95 % interval [2, 4.5]" in ours.note
    assert vllm.ratio == 0.5 and vllm.name == "vLLM: uneven turns, 8 at once, m"
    (alone,) = Speed("m", replace(work, slots=1), [30.0], [10.0]).rows()
    assert "asked: 1x, since with one turn at a time" in alone.note
    (equal,) = Speed("m", replace(work, slots=1, shape="equal"), [30.0], [10.0]).rows()
    assert "asked: 1x;" in equal.note


def test_engines_are_measured_in_both_shapes(monkeypatch):
    monkeypatch.setattr(vllm_process, "INTERPRETER", vllm_process.ROOT / "nowhere")
    result = engine_speed.measure({"tiny": Load({1: 1, 2: 1}, prompt=4, equal=3, median=3, longest=6, backlog=2)})
    assert [row.name for row in result.rows] == [
        f"transformers: {shape} turns, {slots} at once, tiny" for shape in ("equal", "uneven") for slots in (1, 2)
    ]
    assert "SmolLM2" in result.left_out[0] and "make test-vllm" in result.left_out[1] and len(result.left_out) == 2
    assert isinstance(result.picture(), Figure)


def test_the_noisy_expert_says_what_it_should_as_often_as_it_should(talker):
    tokenizer, agent = talker
    expert, noisy = NoisyExpert(tokenizer, agent, 0.0), NoisyExpert(tokenizer, agent, 0.5)
    chances = noisy.chances(4, ())
    env = envs.make(HOUSEHOLD)
    first, _ = env.reset(seed=4)
    best = (*agent.template.encode_text(env.expert_action()).tolist(), agent.template.stop_id)
    assert sum(chances.values()) == pytest.approx(1) and len(chances) == len(env.admissible_actions())
    assert chances[best] == pytest.approx(0.5 + 0.5 / len(chances)) and expert.chances(4, ()) == {best: 1.0}
    said: Counter[tuple[int, ...]] = Counter()
    for draw in range(400):
        request = SampleRequest(noisy.start(), agent.context().extend(first).ids_T, (0, 0, 4, 0, draw), 32)
        (sample,) = noisy.generate([request])
        ids = tuple(sample.ids_T.tolist())
        assert float(sample.logprobs_T.sum()) == pytest.approx(np.log(chances[ids]), abs=1e-5) and sample.stopped
        said[ids] += 1
    assert said[best] / 400 == pytest.approx(chances[best], abs=0.08)


def test_the_expert_alone_solves_its_tasks(talker):
    tokenizer, agent = talker
    (report,) = grown(NoisyExpert(tokenizer, agent, 0.0), agent, 7, 2, 0, "none")
    (tree,) = report.trees
    assert tree.turns[tree.leaves()[0]].success and len(tree.leaves()) == 2 and len(distinct_leaves(tree)) == 1


def test_every_world_has_room_for_its_experts_actions():
    for world in WORLDS:
        texts = expert_texts(20, world.id)
        tokenizer = train_tokenizer(texts, entities(texts), 1536)
        agent = Agent.of(tokenizer)
        for seed in range(5000, 5006):
            (report,) = grown(NoisyExpert(tokenizer, agent, 0.0, world=world.id), agent, seed, 1, 0, "none", world=world)
            (tree,) = report.trees
            assert tree.turns[tree.leaves()[0]].success and not any(turn.truncated for turn in tree.turns)


def test_costs_are_those_of_the_trees(talker):
    tokenizer, agent = talker
    engine = NoisyExpert(tokenizer, agent, 0.4)
    reports = [grown(engine, agent, seed, 2, 3, "uniform_depth") for seed in (1, 2)]
    costs = spent(reports)
    for place, (report,) in enumerate(reports):
        (tree,) = report.trees
        firsts = [turn for turn in tree.turns if turn.origin is not None]
        shared = sum(int((~turn.mask_T).sum()) for turn in firsts[1:])  # a prompt that another rollout had computed
        assert costs.costs_KC[place].tolist() == [
            sum(len(turn.ids_T) for turn in tree.turns) - shared,
            sum(int(turn.mask_T.sum()) for turn in tree.turns),
            len(tree.turns),
        ]
        assert 2 <= costs.leaves_K[place] <= 5 == len(tree.leaves())
    singles = independent(engine, agent, [1], 3)
    assert [len(report.trees[0].leaves()) for report in singles[0]] == [1, 1, 1]
    assert spent([singles[0]]).costs_KC[0, 0] == sum(len(turn.ids_T) for report in singles[0] for turn in report.trees[0].turns)


def test_a_comparison_is_per_distinct_leaf():
    tree, alone = (Spending(np.array([[a, a, a], [a, a, a]], float), np.array([4.0, 4.0])) for a in (6, 20))
    found = Comparison("shop", "expert, noisy", "random", 1, 3, tree, alone)
    assert found.saved_C == pytest.approx([0.7] * 3) and found.interval_C2() == pytest.approx(np.full((3, 2), 0.7))
    row = found.rows()[0]
    assert (row.value, row.baseline, row.ratio) == (1.5, 5.0, pytest.approx(10 / 3)) and "70.0 % fewer" in row.note
    assert [row.unit for row in found.rows()] == ["tokens", "tokens", "calls"] and len(COSTS) == 3


def test_steps_take_what_they_should():
    env = Paced("heavy tail", turns=2)
    env.reset(seed=3)
    times = [env.seconds(str(action)) for action in range(4000)]
    assert np.mean(times) == pytest.approx(0.02, rel=0.15) and max(times) > 0.15 and env.seconds("a") == env.seconds("a")
    assert Paced("10 ms").seconds("a") == 0.01
    kept = env.snapshot()
    assert env.step("a")[2] is False and env.step("a")[2] is True
    env.restore(kept)
    assert env.state_signature() == "3/0"


@pytest.mark.parametrize("schedule", sampler_load.SCHEDULES)
def test_a_call_grows_so_many_rollouts(schedule):
    report = sampler_load.call(tiny_policy(), schedule, 8, "0 ms", turns=2, tokens=2)
    assert report.rollouts == 8 and report.env_steps == 16 and len(report.trees) == 2 and not report.failures


def test_a_cell_tells_shares_of_the_call():
    report = SamplerReport(rollouts=8, wall_s=2.0, engine_s=1.0, env_wait_s=0.8, env_busy_s=0.5, lags_s=[0.003] * 10)
    cell = Cell("lockstep", 8, "10 ms")
    cell.add(report)
    row = cell.row()
    assert row.value == pytest.approx(10) and row.baseline == 5 and row.ratio == pytest.approx(0.5)
    assert "engine idle 50 %, environments idle 75 %, lag p99 3 ms, 4 rollouts/s" in row.note


def test_a_turn_late_costs_the_tokens_of_one_early():
    extent = turn_work.Extent(turns=12, early=(2, 5), late=(8, 11), repeats=1, rollouts=2, probes=1)
    result = turn_work.measure(extent)
    rows = {row.name: row for row in result.rows}
    given, prefilled = rows["tokens given to the engine of a turn"], rows["tokens prefilled of a turn"]
    assert given.ratio == prefilled.ratio == rows["tokens encoded of a turn"].ratio == 1.0
    assert prefilled.value == given.value + 1 and given.value > rows["tokens encoded of a turn"].value > 5
    again = rows["tokens encoded, against encoding all again"]
    assert again.baseline is not None and again.baseline > 8 * again.value
    assert rows["sampler time of a turn"].value > 0 and 0.2 < rows["engine time of a turn, net of length"].value < 5
    assert isinstance(result.picture(), Figure)


def test_every_turn_but_the_last_is_seen_whole():
    extent = turn_work.Extent(turns=6, early=(1, 3), late=(3, 5), repeats=1, rollouts=2, probes=1)
    found = turn_work.run(tiny_policy(), extent, 0)
    assert len(found.costs_K) == 5 and all(cost.sampler_s > 0 and cost.engine_s > 0 and cost.encoded > 0 for cost in found.costs_K)
    assert found.costs_K[0].length == 0 and found.costs_K[0].given > found.costs_K[1].given
    assert len(found.net[0]) == len(found.net[1]) == 1


def test_vllm_is_left_out_with_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(vllm_process, "INTERPRETER", tmp_path / "python")
    with pytest.raises(VLLMError, match="make test-vllm"):
        ask_vllm(tiny_policy(), 64, {})
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho it broke >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(VLLMError, match="status 3: it broke"):
        ask_vllm(tiny_policy(), 64, {})


@pytest.fixture
def parts(monkeypatch):
    asked: list[tuple[str, bool]] = []

    def part(name: str):
        def measure(quick: bool) -> PartResult:
            asked.append((name, quick))
            return PartResult([Row(f"{name} row", 1.0, "x")], Figure, {"each": [1]}, [f"half of {name}"])

        return measure

    monkeypatch.setattr(rollout, "PARTS", {name: part(name) for name in rollout.PARTS})
    return asked


def test_only_what_was_asked_for_is_measured_and_written_whole(parts, tmp_path, capsys):
    out, figures = tmp_path / "new" / "rollout.json", tmp_path / "figures"
    given = ["--quick", "--only", "turn_work", "fork_cache", "--out", str(out), "--figures", str(figures)]
    assert rollout.main(given) == 0
    assert parts == [("fork_cache", True), ("turn_work", True)]
    written = json.loads(out.read_text())
    assert [row["name"] for row in written["rows"]] == ["fork_cache row", "turn_work row"] and written["quick"]
    assert written["details"] == {
        "left_out": ["half of fork_cache", "half of turn_work"], "fork_cache": {"each": [1]}, "turn_work": {"each": [1]}
    }  # fmt: skip
    assert sorted(path.name for path in figures.iterdir()) == ["fork_cache.png", "turn_work.png"]
    assert [path.name for path in out.parent.iterdir()] == ["rollout.json"]
    assert "left out: half of turn_work" in capsys.readouterr().out


def test_all_parts_are_measured_in_order(parts):
    assert rollout.main([]) == 0
    assert parts == [(name, False) for name in ("fork_cache", "tree_cost", "engine_speed", "sampler_load", "turn_work", "branching_rules")]


@pytest.mark.parametrize("given", [["--only", "speed"], ["--only"], ["--figures", __file__], ["--out", "/dev/null/x"], ["--fast"]])
def test_bad_arguments_exit_2(given, parts):
    with pytest.raises(SystemExit) as ended:
        rollout.main(given)
    assert ended.value.code == 2 and not parts
