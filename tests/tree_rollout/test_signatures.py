import pickle
import random
from pathlib import Path

import numpy as np
import pytest
from counter_world import CounterEnv, grow, make_turn, tree_of
from hypothesis import given, settings
from hypothesis import strategies as st
from signature_trees import done, extend, seen, told

from tree_rollout.errors import SignatureError, SignatureFunctionError, TreeRolloutError, UnknownSignatureError
from tree_rollout.signatures import (
    Operation,
    Signed,
    by_observation,
    make_signature,
    normalise,
    register_signature,
    sign_tree,
    sign_trees,
    signatures,
    table,
)
from tree_rollout.signatures.similar import clusters
from tree_rollout.state_graph import StateGraph
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree

ALL = [
    ("env", {}),
    ("observation", {}),
    ("normalised", {"mask": "numbers"}),
    ("actions", {}),
    ("actions", {"categorise": "code", "edits": True, "refused": True}),
    ("similar", {"threshold": 0.8}),
    ("window", {"of": "similar", "history": 2, "settings": {"threshold": 0.7}}),
]
each = pytest.mark.parametrize(("name", "options"), ALL, ids=lambda value: str(value))


@pytest.fixture
def own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(table, "_TABLE", dict(table._TABLE))


def befores(name: str, tree: TrajectoryTree, **options: object) -> list[str]:
    return [states.before for states in sign_tree(make_signature(name, options), tree)]


def partition(states: list[str]) -> list[int]:
    """For each state the place of the first that is equal: what merges with what, whatever the texts are."""
    return [states.index(state) for state in states]


# ---------------------------------------------------------------------- what holds for all


@each
def test_what_comes_after_a_turn_is_what_comes_before_the_next(name: str, options: dict[str, object]) -> None:
    tree = grow(CounterEnv(), 3, np.random.default_rng(0), roots=3, forks=6)
    signed = sign_tree(make_signature(name, options), tree)
    for turn, states in zip(tree.turns, signed, strict=True):
        assert turn.parent < 0 or signed[turn.parent].after == states.before


@each
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_the_rollouts_does_not_matter(name: str, options: dict[str, object], seed: int) -> None:
    tree = grow(CounterEnv(), 1, np.random.default_rng(seed), roots=4, forks=0)
    paths = list(tree.rollouts())
    random.Random(seed).shuffle(paths)
    shuffled, place = TrajectoryTree(tree.env_id, tree.seed, tree.env_kwargs), {-1: -1}
    for path in paths:
        for index in path:
            turn = tree.turns[index]
            fields = {field: getattr(turn, field) for field in turn.__dataclass_fields__}
            place[index] = shuffled.add(type(turn)(**{**fields, "parent": place[turn.parent]}))
    signature = make_signature(name, options)
    before, after = sign_tree(signature, tree), sign_tree(signature, shuffled)
    assert all(before[index] == after[place[index]] for index in range(len(tree.turns)))


@each
def test_forks_see_their_own_way_alone(name: str, options: dict[str, object]) -> None:
    tree = told([("in the hall", "go"), ("a door", "open"), ("a room", "look")])
    extend(tree, 0, [("a door", "knock"), ("a voice", "open"), ("a room", "look")])
    flat = told(
        [("in the hall", "go"), ("a door", "open"), ("a room", "look")],
        [("in the hall", "go"), ("a door", "knock"), ("a voice", "open"), ("a room", "look")],
    )
    if name == "env":
        return  # What was recorded is what was recorded.
    signature = make_signature(name, options)
    forked, alone = sign_tree(signature, tree), sign_tree(signature, flat)
    assert forked[1:3] == alone[1:3] and forked[3:] == alone[4:]


@pytest.mark.parametrize(("name", "options"), [entry for entry in ALL if "similar" not in str(entry)])
def test_a_rollout_may_be_long(name: str, options: dict[str, object]) -> None:
    tree = told([(f"number {index % 7}", f"cat f{index % 5}") for index in range(6_000)])
    assert len(sign_tree(make_signature(name, options), tree)) == 6_000


@each
def test_nothing_and_strange_text_can_be_signed(name: str, options: dict[str, object]) -> None:
    signature = make_signature(name, options)
    assert sign_tree(signature, TrajectoryTree("test/Told-v0", 0)) == []
    strange = ["", " ", "\x00", "ß ǅ ﬁ 😀 e\u0301", "\ud800", "'\"`$(", "a,b: and or", "\n\n", "- ", "{", '{"command": ["x"]}', "9" * 5000]
    tree = told([(text, text) for text in strange])
    signed = sign_tree(signature, tree)
    assert len(signed) == len(strange) and all(isinstance(states.after, str) for states in signed)


# ---------------------------------------------------------------------- each of them


def test_env_is_what_was_recorded() -> None:
    assert sign_tree(make_signature("env"), tree_of("012", "03")) == [("0", "1"), ("1", "2"), ("0", "3")]


def test_observation_is_the_exact_text() -> None:
    tree = told([("A hall.", "go"), ("a hall.", "go"), ("A hall.", "go")], [("A hall.", "go"), ("", "go")], solved=[1])
    assert sign_tree(make_signature("observation"), tree) == [
        ("saw A hall.", "saw a hall."),
        ("saw a hall.", "saw A hall."),
        ("saw A hall.", "ended terminated, not solved"),
        ("saw A hall.", "saw "),
        ("saw ", "ended terminated, solved"),
    ]


def test_each_different_text_is_read_once() -> None:
    read: list[str] = []
    by_observation(seen("a", "b", "a", "a"), lambda text: read.append(text) or text)
    assert read == ["a", "b"]


def test_no_observation_is_the_end_of_a_rollout() -> None:
    tree = seen("start", "ended terminated, not solved")
    signed = sign_tree(make_signature("observation"), tree)
    assert signed[0].after != signed[1].after


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("You SEE it.", "you  see\tit. "),
        ("first\n\n  second  ", "first\nsecond"),
        ("You see a mug 1, an apple 2, and a book 3.", "you see a book 3, a mug 1, and an apple 2."),
        ("On the desk 1, you see a pen 1 and a mug 2.", "On the desk 1, you see a mug 2, a pen 1."),
        ("It is open. In it, you see a pen 1, a cup 1.", "It is open. In it, you see a cup 1, a pen 1."),
        ("You see a mug of the king, and a pen", "You see a pen, and a mug of the king"),
        ("Exits: north, south and east.", "exits: east, north, south."),
        ("Files: a.py, b.py, c.py", "Files: c.py, a.py, b.py"),
        ("Here:\n- a mug\n- a pen\nDone.", "Here:\n- a pen\n- a mug\nDone."),
        ("\ufb01le", "file"),
        ("STRASSE", "straße"),
        ("\U0001d400", "a"),
        ("A pen 1, a mug 2, then the door.", "a mug 2, a pen 1, then the door."),
    ],
)
def test_normalised_leaves_out_what_seldom_matters(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)
    assert partition(befores("normalised", seen(one, other))) == [0, 0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("You see a mug 1, a mug 2.", "You see a mug 1."),
        ("You see a mug 1, a mug 1.", "You see a mug 1."),
        ("You see a mug 1, a pen 2.", "You see a mug 2, a pen 1."),
        ("You see a mug. You see a pen.", "You see a pen. You see a mug."),
        ("On the desk 1, you see a pen 2.", "On the desk 2, you see a pen 1."),
        ("put the mug in the sink", "put the sink in the mug"),
        ("Done.", "Done!"),
        ("- a\n* b", "* b\n- a"),
        ("", "."),
        ("mug 1", "mug 2"),
    ],
)
def test_normalised_keeps_what_may_matter(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


def test_normalised_masks_what_it_is_told_to() -> None:
    commit, uuid = "commit 3f2a9bc1 at 0xDEAD", "id 123e4567-e89b-12d3-a456-426614174000, 12 of 30"
    assert normalise(commit) == "commit 3f2a9bc1 at 0xdead"
    assert normalise(commit, "ids") == "commit # at #"
    assert normalise(uuid, "ids") == "id #, 12 of 30"
    assert normalise(uuid, "numbers") == "id #, # of #"
    assert normalise("defaced accede 1234567", "ids") == "defaced accede 1234567", "words and plain numbers are no ids"
    assert normalise("You see a mug 2, a pen 1.", "numbers") == normalise("You see a pen 9, a mug 4.", "numbers")
    assert partition(befores("normalised", seen("mug 1", "mug 2"), mask="numbers")) == [0, 0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a mug 1", "an apple 2", "some salt", "the lamp 3", "a mug 4"]), min_size=1), st.randoms())
def test_the_order_of_any_listing_is_irrelevant(items: list[str], chance: random.Random) -> None:
    shuffled = chance.sample(items, len(items))
    first, second = (f"It is open. In it you see {', '.join(row)}." for row in (["a box", *items], [*shuffled, "a box"]))
    assert normalise(first) == normalise(second)


def test_actions_are_a_set() -> None:
    tree = done("abx", "bax", "aabx", "bbx", "x")
    assert partition(befores("actions", tree)) == [0, 1, 2, 0, 4, 2, 0, 1, 1, 2, 0, 4, 4, 0]
    signed = sign_tree(make_signature("actions"), tree)
    assert signed[2].after == signed[5].after != signed[-1].after
    assert signed[0].before.startswith("did 0 ") and signed[2].before.startswith("did 2 ")


def test_what_was_refused_or_never_executed_leaves_no_mark() -> None:
    tree = TrajectoryTree("test/Told-v0", 0)
    first = tree.add(make_turn(-1, "s", "s", "fly", valid=False))
    last = tree.add(make_turn(first, "s", "s", "walk"))
    tree.add(make_turn(last, "s", "s", "", mask_T=np.zeros(3, bool), stop_reason=StopReason.CONTEXT_LENGTH))
    assert [states.after[:6] for states in sign_tree(make_signature("actions"), tree)] == ["did 0 ", "did 1 ", "did 1 "]
    assert [states.after[:6] for states in sign_tree(make_signature("actions", {"refused": True}), tree)] == ["did 1 ", "did 2 ", "did 2 "]


def test_actions_on_code_have_blocks_and_the_last_result() -> None:
    code = make_signature("actions", {"categorise": "code"})
    steps = [("", "view a.py 1 40"), ("", "view a.py 60 99"), ("", "pytest -q"), ("1 failed, 2 passed", "view a.py 90 150"), ("", "pytest")]
    signed = sign_tree(code, told([*steps, ("3 passed", "ls")]))
    assert signed[0].after == signed[1].after, "the same block of 100 lines"
    assert signed[2].after == f"{signed[1].after} test=failed"
    assert signed[4].after.endswith(" test=passed") and signed[3].after.startswith("did 2 ")
    assert sign_tree(code, told([("", "pytest")]))[0].after.endswith(" test=unknown"), "no answer is recorded after the last turn"


def test_edits_are_told_apart_if_wanted() -> None:
    tree = told([("", "create f.py\nprint(1)")], [("", "create f.py\nprint(2)")])
    for edits, equal in ((False, True), (True, False)):
        signed = sign_tree(make_signature("actions", {"categorise": "code", "edits": edits}), tree)
        assert (signed[0].after == signed[1].after) == equal


def test_similar_takes_the_first_founder_that_fits() -> None:
    """Ratios: aaaa-aaab 3/4, aaab-aabb 3/4, aaaa-aabb 1/2. So aaab joins aaaa, and aabb is left to itself."""
    assert clusters(["aabb", "aaab", "aaaa"], 0.75) == {"aaaa": "aaaa", "aaab": "aaaa", "aabb": "aabb"}
    assert clusters(["aabb", "aaab"], 0.75) == {"aaab": "aaab", "aabb": "aaab"}
    assert clusters(["aabb", "aaab", "aaaa"], 0.76) == {text: text for text in ("aaaa", "aaab", "aabb")}
    assert befores("similar", seen("aabb", "aaab", "aaaa"), threshold=0.75) == ["saw aabb", "saw aaaa", "saw aaaa"]


def test_window_looks_back_on_the_path() -> None:
    tree = tree_of("0123", "0523", "0124")
    assert partition(befores("env", tree)) == [0, 1, 2, 0, 4, 2, 0, 1, 2]
    assert partition(befores("window", tree)) == [0, 1, 2, 0, 4, 5, 0, 1, 2]
    assert partition(befores("window", tree_of("0123", "4123"), history=2)) == [0, 1, 2, 3, 4, 5]
    assert partition(befores("window", tree_of("90123", "80123"), history=2)) == [0, 1, 2, 3, 4, 5, 6, 3]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_window_makes_the_states_of_a_state_graph(seed: int, history: int) -> None:
    trees = [grow(CounterEnv(), 0, np.random.default_rng([seed, number])) for number in range(2)]
    signed = sign_trees(make_signature("window", {"history": history}), trees)
    graph = StateGraph.from_trees(trees, history)
    turns = [(number, turn) for number in range(2) for turn in range(len(trees[number].turns))]
    nodes = [graph.node(*turn) for turn in turns]
    states = [signed[number][turn] for number, turn in turns]
    befores = [ends.before for ends in states if ends]
    assert partition(befores) == [nodes.index(node) for node in nodes]


# ---------------------------------------------------------------------- trees and tasks


def test_trees_of_one_task_are_clustered_together() -> None:
    trees = [seen("aaab"), seen("aaaa"), seen("aaab", seed=1)]
    signed = sign_trees(make_signature("similar", {"threshold": 0.75}), trees)
    assert [row[0].before for row in signed if row[0]] == ["saw aaaa", "saw aaaa", "saw aaab"]


def test_states_of_two_tasks_never_meet() -> None:
    trees = [seen("hall", "room"), seen("hall", "room", seed=1), seen("hall", "room")]
    signed = sign_trees(make_signature("observation"), trees)
    graph = StateGraph.from_trees(trees, signed=signed)
    report = graph.merge_report()
    assert (report.turns, report.states, report.merged_turns) == (6, 4, 4)
    assert graph.node(0, 0) == graph.node(2, 0) != graph.node(1, 0)


def test_failed_rollouts_are_not_signed_and_change_nothing() -> None:
    tree = told([("aabb", "x"), ("aaab", "y")])
    plain = sign_trees(make_signature("similar", {"threshold": 0.75}), [tree])
    extend(tree, 0, [("aaaa", "z")], stop_reason=StopReason.ENV_ERROR)
    assert sign_trees(make_signature("similar", {"threshold": 0.75}), [tree]) == [[*plain[0], None]]


def test_a_graph_of_signed_trees_has_the_signatures_as_nodes() -> None:
    tree = told([("hall", "a"), ("room", "b")], [("hall", "c"), ("room", "d")])
    graph = StateGraph.from_trees([tree], signed=sign_trees(make_signature("observation"), [tree]))
    node = graph.node(0, 1)
    assert node is not None and node.state == "saw room" and graph.turns_at(node) == [(0, 1), (0, 3)]
    assert graph.graph.number_of_nodes() == 3
    assert StateGraph.from_trees([tree]).graph.number_of_nodes() == 5, "s0 to s4, as recorded"
    ends = [edge[1].state for edge in graph.graph.out_edges(node)]
    assert ends == ["ended terminated, not solved"] * 2


# ---------------------------------------------------------------------- names, settings, functions of one's own


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("obsrvation", {}, "no signature is called 'obsrvation'; did you mean observation"),
        ("", {}, "no signature is called ''"),
        (None, {}, "no signature is called None"),
        ("env", {"mask": "ids"}, "the signature 'env' has no setting 'mask'; it takes none"),
        ("normalised", {"msk": "ids"}, "has no setting 'msk'; did you mean mask?"),
        ("normalised", {"mask": "all"}, "mask is 'all'; give one of none, ids, numbers"),
        ("similar", {"threshold": 0}, "threshold is 0; give a number above 0 and at most 1"),
        ("similar", {"threshold": float("nan")}, "threshold is nan"),
        ("similar", {"threshold": True}, "threshold is True"),
        ("window", {"history": 0}, "history is 0; give a whole number of at least 1"),
        ("window", {"history": 1.5}, "history is 1.5"),
        ("window", {"of": "obsrvation"}, "did you mean observation"),
        ("window", {"of": "similar", "settings": {"treshold": 0.5}}, "did you mean threshold?"),
        ("window", {"settings": 3}, "settings is 3; give a table"),
        ("actions", {"refused": "no"}, "refused is 'no'; give true or false"),
        ("actions", {"edits": True}, "edits has no effect with categorise text"),
        ("actions", {"categorise": "cod"}, "categorise is 'cod'; did you mean code?"),
        ("actions", {"categorise": "nowhere:read"}, "No module named 'nowhere'"),
        ("nowhere:sign", {}, "No module named 'nowhere'; install it, or put its folder on PYTHONPATH"),
        ("json:lods", {}, "json has no lods; did you mean loads"),
        ("json:decoder.JSONDecoder.nothing", {}, "has no decoder.JSONDecoder.nothing"),
        ("os:sep", {}, "os:sep is a str, not a function"),
        (":sign", {}, "':sign' names no function"),
    ],
)
def test_bad_names_and_settings_are_one_sentence(name: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(SignatureError) as caught:
        make_signature(name, options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value) and caught.value.exit_code == 2
    assert isinstance(caught.value, LookupError) == (type(caught.value) is UnknownSignatureError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)


def first_word(tree: TrajectoryTree, length: int = 99) -> list[Signed]:
    return by_observation(tree, lambda text: text.split()[0][:length])


@pytest.mark.usefixtures("own_table")
def test_a_function_of_ones_own_is_a_signature() -> None:
    register_signature("first_word", first_word)
    tree = seen("hall wide", "hall narrow", "room")
    assert befores("first_word", tree) == ["saw hall", "saw hall", "saw room"]
    assert befores("first_word", tree, length=1) == ["saw h", "saw h", "saw r"]
    assert befores("window", tree, of="first_word", settings={"length": 1})[1:] != befores("window", tree)[1:]
    assert signatures()[-1] == "first_word"
    with pytest.raises(SignatureError, match="has no setting 'lenght'; did you mean length"):
        make_signature("first_word", {"lenght": 3})
    with pytest.raises(SignatureError, match="has no setting 'tree'"):
        make_signature("first_word", {"tree": 3})
    with pytest.raises(SignatureError, match="registered already"):
        register_signature("first_word", first_word)
    with pytest.raises(SignatureError, match="is a int; give a function"):
        register_signature("five", 5)  # pyright: ignore
    with pytest.raises(SignatureError, match="cannot be called 'a:b'"):
        register_signature("a:b", first_word)
    with pytest.raises(SignatureError, match="cannot be called 'a,b'"):
        register_signature("a,b", first_word)


@pytest.mark.usefixtures("own_table")
def test_a_class_of_ones_own_is_a_signature() -> None:
    class Constant:
        name = "constant"

        def __init__(self, text: str) -> None:
            self.text = text

        def sign(self, tree: TrajectoryTree) -> list[Signed]:
            return [Signed(self.text, self.text)] * len(tree.turns)

    register_signature("constant", Constant)
    assert befores("constant", seen("a", "b"), text="x") == ["x", "x"]
    with pytest.raises(SignatureError, match="do not fit: missing a required argument: 'text'"):
        make_signature("constant")


def test_a_function_is_found_by_module_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "statesoftests.py").write_text(
        "from tree_rollout.signatures import Operation, by_observation\n"
        "def sign(tree, cut=1):\n    return by_observation(tree, lambda text: text[:cut])\n"
        "def read(action, answer):\n    return [Operation(action[0], action[1:])]\n"
    )
    (tmp_path / "brokenoftests.py").write_text("raise OSError('no\\nluck')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert befores("statesoftests:sign", seen("abc", "abd", "b")) == ["saw a", "saw a", "saw b"]
    assert befores("statesoftests:sign", seen("abc", "abd"), cut=3) == ["saw abc", "saw abd"]
    tree = done("ab")
    assert sign_tree(make_signature("actions", {"categorise": "statesoftests:read"}), tree)[1].after.startswith("did 2 ")
    with pytest.raises(SignatureError, match="importing brokenoftests failed with OSError"):
        make_signature("brokenoftests:sign")


def raises(tree: TrajectoryTree) -> list[Signed]:
    raise KeyError("nothing here")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (raises, "failed on a tree of 2 turns of test/Told-v0, seed 0 with KeyError: 'nothing here'"),
        (lambda tree: None, "with TypeError"),
        (lambda tree: [("a", "b")], "gave 1 pairs for 2 turns"),
        (lambda tree: [("a", "b"), ("a", 3)], "gave ('a', 3) for turn 1; give two texts"),
        (lambda tree: [("a", "b"), ("a", "b", "c")], "for turn 1"),
        (lambda tree: ["ab", "cd"], "gave 'ab' for turn 0"),
        (lambda tree: [None, None], "gave None for turn 0"),
    ],
)
@pytest.mark.usefixtures("own_table")
def test_a_faulty_function_is_one_sentence(function: object, words: str) -> None:
    register_signature("faulty", function)  # pyright: ignore
    for signature in (make_signature("faulty"), make_signature("window", {"of": "faulty"})):
        with pytest.raises(SignatureFunctionError) as caught:
            sign_tree(signature, seen("a", "b"))
        assert words in str(caught.value) and "signature faulty" in str(caught.value)
        assert isinstance(caught.value, TreeRolloutError)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ValueError("odd"), "failed on the action 'go' with ValueError: odd"),
        ("text", "gave 't' for the action 'go'"),
        (None, "with TypeError"),
    ],
)
def test_a_faulty_categoriser_is_one_sentence(answer: object, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(action: str, following: str | None) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(f"{__name__}.categorise", read, raising=False)
    with pytest.raises(SignatureFunctionError) as caught:
        sign_tree(make_signature("actions", {"categorise": f"{__name__}:categorise"}), seen("a"))
    assert words in str(caught.value)


def test_a_categoriser_sees_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[str, str | None]] = []

    def listen(action: str, answer: str | None) -> list[Operation]:
        heard.append((action, answer))
        return []

    monkeypatch.setattr(f"{__name__}.categorise", listen, raising=False)
    sign_tree(make_signature("actions", {"categorise": f"{__name__}:categorise"}), told([("hall", "a"), ("room", "b")]))
    assert heard == [("a", "room"), ("b", None)]


def test_a_window_is_cut_between_states_not_within_them() -> None:
    states = befores("window", tree_of(["ab", "c", "x"], ["a", "bc", "x"]))  # pyright: ignore
    assert states[1] != states[3]
