"""The leaderboard's conversations: gold replay passes everywhere, verdicts are those of the package's own checker, and states are exact."""

import json

import numpy as np
import pytest
from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

import envs
from envs import EnvironmentArgumentError, NoEpisodeError
from envs.tools.bfcl.apis import run
from envs.tools.bfcl.calls import MOST_CALLS, Call, MessageError, read_message, write_message
from envs.tools.bfcl.conversation import Conversation
from envs.tools.bfcl.env import BfclEnv
from envs.tools.bfcl.state_text import state_text
from envs.tools.bfcl.tasks import CATEGORIES, SPLITS, _rows, numbers, task


def begun(category: str, number: int, **arguments) -> BfclEnv:
    """An environment at the start of one task."""
    env = BfclEnv(category=category, **arguments)
    env.reset(seed=0)
    chosen = task(category, number)
    env._conversation = Conversation(chosen, chosen.apis)
    return env


def replayed(env: BfclEnv) -> tuple[float, int]:
    """The expert's return, and its messages."""
    total, messages, ended = 0.0, 0, False
    while not ended:
        _, reward, terminated, truncated, info = env.step(env.expert_action())
        assert info["valid"]
        total, messages, ended = total + reward, messages + 1, terminated or truncated
    return total, messages


@pytest.mark.slow
@pytest.mark.parametrize("category", CATEGORIES)
def test_gold_passes_every_conversation(category):
    outcomes = [replayed(begun(category, number))[0] for number in range(200)]
    assert sum(outcomes) == len(outcomes) == 200


@pytest.mark.parametrize("form", ["json", "python"])
def test_the_expert_writes_either_form_and_the_turns_share_the_reward(form):
    for number in range(0, 200, 20):
        assert replayed(begun("base", number, calls=form))[0] == 1
        assert replayed(begun("base", number, calls=form, reward="turns"))[0] == pytest.approx(1)


@pytest.mark.slow
def test_what_is_declared_holds():
    report = envs.check_env("branchwise/Bfcl-v0", seeds=1, steps=10, category=["miss_func", "long_context"])
    assert report.passed, str(report)


# Verdicts


def damaged(gold: list[list[str]], rng: np.random.Generator) -> list[list[str]]:
    """Gold calls with one left out, made twice, moved to another turn, or left as they are."""
    turns = [list(turn) for turn in gold]
    full = [number for number, turn in enumerate(turns) if turn]
    turn = turns[full[int(rng.integers(len(full)))]]
    place, kind = int(rng.integers(len(turn))), int(rng.integers(4))
    if kind == 0:
        turn.pop(place)
    elif kind == 1:
        turn.insert(place, turn[place])
    elif kind == 2:
        turns[int(rng.integers(len(turns)))].append(turn.pop(place))
    return turns


@pytest.mark.parametrize("category", CATEGORIES)
def test_verdicts_are_those_of_the_package(category):
    rng, passed, failed = np.random.default_rng(0), 0, 0
    for number in rng.permutation(200)[:30].tolist():
        row, gold = (_rows(f"{folder}BFCL_v4_multi_turn_{category}.json")[number] for folder in ("", "possible_answer/"))
        turns = damaged(gold["ground_truth"], rng)
        name = f"model{number}"
        verdict = multi_turn_checker([[turn] if turn else [] for turn in turns], gold["ground_truth"], row, category, name)
        for left in [left for left in vars(multi_turn_utils) if left.startswith(name)]:
            delattr(multi_turn_utils, left)  # The package keeps the APIs of every conversation.
        env, info, ended = begun(category, number, calls="python"), {}, False
        for turn in turns:
            for call in turn:
                if not ended:
                    _, _, ended, _, info = env.step(call)
            if not ended:
                _, _, ended, _, info = env.step("end_turn()")
        assert ended and info["success"] is verdict["valid"], (category, number, turns, verdict.get("error_message"))
        passed, failed = passed + verdict["valid"], failed + (not verdict["valid"])
    assert passed > 3 and failed > 3


def test_a_turn_without_calls_or_with_another_state_ends_the_conversation():
    observation, reward, terminated, truncated, info = begun("base", 0).step('{"name": "end_turn", "arguments": {}}')
    assert (observation, reward, terminated, truncated) == ("The conversation ends: nothing was called.", 0.0, True, False)
    assert info["turns_passed"] == 0 and info["success"] is False
    assert begun("base", 0).step("[cd(folder='document'), end_turn()]")[0].endswith("The conversation ends: the state differs.")
    env = begun("base", 1)
    assert env.step("[pwd(), end_turn()]")[0].endswith("The conversation ends: an answer is missing.")
    assert env.step("ls()")[2:] == (True, False, {"valid": False, "success": False, "task_type": "base", "turns_passed": 0})


def test_a_withheld_tool_is_listed_when_its_turn_comes():
    chosen = task("miss_func", 0)
    assert chosen.withheld == {"sort": 3} and "sort" not in chosen.added(0) and set(chosen.added(3)) == {"sort"}
    env = begun("miss_func", 0, tools="short")
    for _ in range(2):
        env.step(env.expert_action())
        env.step(env.expert_action())
    assert json.loads(env.expert_action())["name"] == "end_turn", "nothing can be done in this turn"
    observation = env.step(env.expert_action())[0]
    assert observation.startswith("You can call these tools as well:\nsort(file_name: string) ") and "What about now?" in observation


# States


def test_a_state_is_the_same_by_another_path_and_other_places_differ():
    states = {}
    for calls in (
        "pwd()",
        "cd(folder='document')",
        "[ls(), cd(folder='document'), pwd()]",
        "cd(folder='archive')",
        "[mkdir(dir_name='new'), cd(folder='document')]",
    ):
        env = begun("base", 0)
        env.step(calls)
        states[calls] = env.state_signature()
    stayed, there, looked, elsewhere, made = states.values()
    assert there == looked
    assert len({stayed, there, elsewhere, made, begun("base", 0).state_signature()}) == 5, "a turn without calls is a state of its own"


def test_an_answer_that_is_asked_for_later_is_part_of_the_state_and_others_are_not():
    looked, not_looked, counted = begun("base", 1), begun("base", 1), begun("base", 1)
    looked.step("[pwd(), pwd()]")
    not_looked.step("pwd()")
    counted.step("[ls(a=True), pwd()]")
    assert looked.state_signature() == not_looked.state_signature() != counted.state_signature()
    gold = task("base", 1).gold[0].answers
    assert gold and gold[0] in counted._now().answers


def test_equal_directories_in_different_places_have_different_texts():
    apis = task("base", 0).apis
    files = apis["GorillaFileSystem"]
    texts = {state_text([files.root, files.root.contents[name]]) for name in files.root.contents}
    assert len(texts) == len(files.root.contents)
    undone, _ = run(apis, read_message("[mkdir(dir_name='new'), rmdir(dir_name='new'), cd(folder='archive'), cd(folder='..')]"))
    assert undone["GorillaFileSystem"] is not files and state_text(undone) == state_text(apis)
    assert state_text({"a": 1, "b": 2}) != state_text({"b": 2, "a": 1}), "listings show the order"


def test_a_message_changes_nothing_that_a_snapshot_holds():
    env = begun("base", 0)
    before, signature, text = env.snapshot(), env.state_signature(), state_text(task("base", 0).apis)
    env.step("[mkdir(dir_name='new'), cd(folder='document'), rm(file_name='final_report.pdf')]")
    assert env.state_signature() != signature
    env.restore(before)
    assert env.state_signature() == signature and state_text(task("base", 0).apis) == text


# Messages


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "neither JSON calls nor Python calls"),
        ("hello there", "neither JSON calls nor Python calls"),
        ("x", "every part of the message must be a call"),
        ("a.b()", "every part of the message must be a call"),
        ("[]", "the message has no call"),
        ("f(**{})", r"without \*\*"),
        ("f(x)", "must be plain values"),
        ("f(1 + x)", "must be plain values"),
        ("f(a=__import__('os'))", "must be plain values"),
        ("f({[]: 1})", "must be plain values"),
        ("f('\0')", "neither JSON calls nor Python calls"),
        ("(" * 5000, "neither JSON|nested too deeply"),
        ("{", "the message is not JSON"),
        ('{"name": "f"}', "must be an object with the keys name and arguments"),
        ('{"name": "f", "arguments": {}, "x": 1}', "must be an object with the keys name and arguments"),
        ('{"name": 1, "arguments": {}}', "name must be text"),
        ('{"name": "f", "arguments": []}', "its arguments an object"),
        ('{"name": "f", "arguments": {"a": NaN}}', "NaN is no number"),
        ('{"name": ' + "[" * 15_000, "nested too deeply"),
        ('[{"name": "f", "arguments": {}}, 3]', "must be an object"),
        ("x" * 20_001, "a message may have 20000 characters"),
        (f"[{', '.join(['f()'] * (MOST_CALLS + 1))}]", f"a message may have {MOST_CALLS} calls"),
    ],
)
def test_what_is_not_understood_is_answered_with_the_reason_and_changes_nothing(text, said):
    with pytest.raises(MessageError, match=said):
        read_message(text)
    env = begun("base", 0)
    before = env.state_signature()
    observation, reward, terminated, truncated, info = env.step(text)
    assert observation.startswith("Not understood: ") and (reward, terminated, truncated, info["valid"]) == (0.0, False, False, False)
    assert env.state_signature() == before


@pytest.mark.parametrize("text", ["steal()", "_load_scenario(scenario={})", "[ls(), steal()]", "end_turn(now=True)", "[end_turn(), ls()]"])
def test_what_cannot_be_called_makes_the_whole_message_invalid(text):
    env = begun("base", 0)
    before = env.state_signature()
    assert env.step(text)[4]["valid"] is False and env.state_signature() == before


def test_messages_survive_both_forms():
    calls = (Call("f", {"a": "it's", "b": [1, -2.5, True, None]}), Call("g", {}))
    for form in ("json", "python"):
        assert read_message(write_message(calls, form)) == calls
        assert read_message(write_message(calls[:1], form)) == calls[:1]


def test_the_tools_answer_what_the_package_answers_errors_included():
    env = begun("base", 0)
    observation = env.step("[pwd(), cd(folder='nowhere'), cd(wrong=1), cd()]")[0].splitlines()
    row = _rows("BFCL_v4_multi_turn_base.json")[0]
    said, _ = multi_turn_utils.execute_multi_turn_func_call(
        ["pwd()", "cd(folder='nowhere')", "cd(wrong=1)", "cd()"], row["initial_config"], row["involved_classes"], "answers", "t0"
    )
    assert observation == said and "Error during execution" in observation[2]


# The environment


def test_the_task_depends_on_the_seed_alone_and_splits_share_no_scenario():
    assert not set(numbers("train")) & set(numbers("test"))
    assert len(numbers("train")) == 160 and len(numbers("test")) == 40
    seen = {}
    for split in SPLITS:
        env = BfclEnv(split, category=list(CATEGORIES), tools="short")
        first = [env.reset(seed=seed)[0] for seed in range(40)]
        assert [BfclEnv(split, category=list(CATEGORIES), tools="short").reset(seed=seed)[0] for seed in range(40)] == first
        seen[split] = set()
        for seed in range(120):
            _, info = env.reset(seed=seed)
            assert info["task_type"] == env._now().task.category
            seen[split].add(int(env._now().task.id.rpartition("_")[2]))
    assert not seen["train"] & seen["test"] and len(seen["test"]) > 30


def test_the_first_observation_lists_the_tools_and_the_request():
    full, short = (BfclEnv(tools=detail, calls="python").reset(seed=0)[0] for detail in ("full", "short"))
    assert len(short) < len(full) / 2 and short.rpartition("\n\n")[2] == full.rpartition("\n\n")[2]
    assert short.rpartition("\n\n")[2].startswith("User: ") and "end_turn()" in short
    assert '{"name": "end_turn", "arguments": {}}' in BfclEnv().reset(seed=0)[0]


def test_an_episode_is_cut_after_max_turns():
    env = BfclEnv(max_turns=2)
    env.reset(seed=0)
    assert env.step("nothing")[2:4] == (False, False) and env.step("nothing")[2:4] == (False, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"split": "tset"}, "did you mean test?"),
        ({"category": "bse"}, "category 'bse' is unknown; did you mean base?"),
        ({"category": []}, r"category is \[\]; it must be a name, or a list of names"),
        ({"category": ["base", "base"]}, "category 'base' is named twice"),
        ({"category": 3}, "category is 3"),
        ({"calls": "xml"}, "calls is 'xml'; choose one of json, python"),
        ({"tools": "ful"}, "did you mean full?"),
        ({"reward": "turn"}, "did you mean turns?"),
        ({"max_turns": True}, "max_turns is True"),
    ],
)
def test_arguments_are_judged_with_one_sentence(arguments, said):
    with pytest.raises(EnvironmentArgumentError, match=said):
        BfclEnv(**arguments)


@pytest.mark.parametrize("ask", ["step", "snapshot", "state_signature", "expert_action"])
def test_before_the_first_reset_there_is_no_conversation(ask):
    with pytest.raises(NoEpisodeError, match=r"no conversation yet; call reset\(seed=...\) first"):
        getattr(BfclEnv(), ask)(*(["ls()"] if ask == "step" else []))
