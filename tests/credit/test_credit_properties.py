"""What holds for every group: order and names do not matter, nothing leaks, offsets and copies cancel, nothing is NaN."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from full_turns import filled
from hypothesis import given, settings
from hypothesis import strategies as st

from credit import Batch, Turn, Weighting, estimate, methods, resolve
from credit import advantages as advantages_of
from credit.reader import OPTIONAL, Rollouts

# Fixed examples, so that the same tree of tests runs everywhere; the machine may be slow, so no deadline.
quick = settings(max_examples=40, deadline=None, derandomize=True)
few = settings(max_examples=15, deadline=None, derandomize=True)

Entry = tuple[str, dict[str, Any]]
NORMALISING = {"reinforce_pp", "gdpo", "empg", "tree_graph"}
"""The methods that look at all tasks of a batch."""

ALL: list[Entry] = [(method, {}) for method in methods()]
ALL += [("grpo", {"ddof": 0}), ("rtmc", {"normalise": True}), ("rtmc", {"n_p": 0}), ("salt", {"history": 2}), ("salt", {"base": "rloo"})]
ALL += [("gigpo", {"mode": "mean_std"}), ("gigpo", {"count_turns": True}), ("gigpo", {"similarity": 0.6})]
ALL += [("gigpo", {"mode": "mean_std", "count_turns": True}), ("tree_mc", {"group_weight": 1.0, "gamma": 0.9})]
ALL += [(method, {"base": base}) for method in ("agent_opsd", "empg", "self_credit") for base in ("rtmc", "gae", "tree_mc")]
ALL += [
    ("mt_grpo", {"per_turn_index": True}),
    ("mt_grpo", {"ddof": 0}),
    ("igpo", {"mode": "separate"}),
    ("igpo", {"gamma": 0.5, "ddof": 1}),
]
ALL += [("empg", {"base": {"method": "agent_opsd", "base": "dr_grpo"}, "zeta": 2.0}), ("gae", {"gamma": 0.9, "lam": 0.5})]
ALL += [
    ("hgpo", {"history": 3, "alpha": 0.5, "mode": "mean_std"}),
    ("graft_graph", {"gamma": 1.0}),
    ("graphgpo", {"omega": 0.5, "success": 1.0}),
]
ALL += [
    ("treerl", {"divide": False}),
    ("tree_grpo", {"ddof": 0}),
    ("depthwise", {"ddof": 0, "least_std": 0.0}),
    ("at2po", {"entropy": False}),
]
ALL += [("reinforce_pp", {"count_turns": True}), ("mc_grpo", {"drop_pivot": False}), ("gapo", {"share": 0.3, "normalise": False})]
ALL += [("gdpo", {"ddof": 0}), ("mix", {"terms": {"grpo": 1.0, "gae": 0.5, "gdpo": -1.0}})]

sizes = st.sampled_from([0.0, 1.0, -1.0, 0.1, 1e-12, -1e-12, 1e12, -1e12, 1e12 + 1, 3e5]) | st.floats(-1e12, 1e12, allow_subnormal=False)
plain = st.sampled_from([0.0, 0.0, 1.0, -0.5])


@st.composite
def groups(draw, rewards=plain, least=2, shared=False, linked=None):
    """Up to six rollouts over few states, so that merges and cycles are common.

    `shared` forks some of them off others' prefixes; `linked` (in half of the groups where None) leads each turn to where the next stands.
    """
    turn = st.builds(Turn, st.sampled_from("pqr"), st.sampled_from("ab"), st.sampled_from("pqr"), rewards)
    rollouts = draw(st.lists(st.lists(turn, min_size=1, max_size=5), min_size=least, max_size=6))
    counter = iter(range(10_000))
    tree = [[replace(turn, node=next(counter) if shared else None) for turn in rollout] for rollout in rollouts]
    for index in range(1, len(tree) if shared else 0):
        source = tree[draw(st.integers(0, index - 1))]
        cut = draw(st.integers(0, len(source) - 1))
        tree[index] = source[:cut] + tree[index]
    if draw(st.booleans()) if linked is None else linked:
        tree = [rollout[:1] + [replace(turn, state=before.next_state) for before, turn in pairwise(rollout)] for rollout in tree]
    return filled(tree)


def flat(advantages: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(advantages)


COPIED: list[Entry] = [
    ("grpo", {"ddof": 0}),
    ("dr_grpo", {}),
    ("salt", {"ddof": 0}),
    ("salt", {"ddof": 0, "history": 1}),
    ("gigpo", {"omega": 0}),
]
COPIED += [("rtmc", {"n_p": 0}), ("rtmc", {"n_p": 0, "normalise": True}), ("tree_mc", {}), ("tree_mc", {"group_weight": 1.0})]
COPIED += [(method, {"base": {"method": "grpo", "ddof": 0}}) for method in ("agent_opsd", "empg", "self_credit")]
COPIED += [
    ("gae", {}),
    ("igpo", {}),
    ("igpo", {"mode": "separate"}),
    ("mt_grpo", {"ddof": 0}),
    ("mt_grpo", {"ddof": 0, "per_turn_index": True}),
]
COPIED += [
    ("hgpo", {}),
    ("hgpo", {"mode": "mean_std"}),
    ("graft_graph", {}),
    ("graft_graph", {"gamma": 1.0}),
    ("treerl", {}),
    ("at2po", {}),
]
COPIED += [("tree_grpo", {"ddof": 0}), ("depthwise", {"ddof": 0})]
COPIED += [("reinforce_pp", {"ddof": 0}), ("mc_grpo", {"drop_pivot": False}), ("gapo", {"ddof": 0}), ("pvpo", {}), ("gdpo", {"ddof": 0})]
COPIED += [("mix", {"terms": [{"method": "dr_grpo"}, {"method": "rtmc", "n_p": 0, "weight": 2}]})]

MOVED: list[Entry] = [
    ("gdpo", {}),
    ("grpo", {}),
    ("grpo", {"ddof": 0}),
    ("dr_grpo", {}),
    ("rloo", {}),
    ("salt", {}),
    ("tree_mc", {}),
    ("rtmc", {"gamma": 1.0}),
]
MOVED += [("gigpo", {"gamma": 1.0}), ("gigpo", {"gamma": 1.0, "mode": "mean_std"}), ("gigpo", {"gamma": 1.0, "count_turns": True})]
MOVED += [("agent_opsd", {}), ("empg", {}), ("self_credit", {}), ("mt_grpo", {}), ("igpo", {"mode": "separate"})]
MOVED += [
    ("hgpo", {"gamma": 1.0}),
    ("graft_graph", {"gamma": 1.0}),
    ("graphgpo", {}),
    ("treerl", {}),
    ("tree_grpo", {}),
    ("depthwise", {}),
    ("at2po", {}),
]
MOVED += [("reinforce_pp", {}), ("reinforce_pp", {"count_turns": True}), ("mc_grpo", {}), ("gapo", {}), ("gapo", {"normalise": False})]
MOVED += [("mix", {"terms": [{"method": "dr_grpo"}, {"method": "rtmc", "gamma": 1.0, "weight": 2}]})]


def given_by(entries: list[Entry], tasks: list[Rollouts], weighting: Weighting = "path") -> Iterator[tuple[Entry, list[list[np.ndarray]]]]:
    """What each method gives on the tasks, which are read only once, with all fields."""
    batch = Batch.read(tasks, weighting, needs=OPTIONAL | {"rewards"})
    for entry in entries:
        yield entry, batch.split(advantages_of(batch, resolve(entry[0], entry[1])))


@quick
@given(rollouts=groups(shared=True), seed=st.integers(0, 99))
def test_order_of_rollouts_does_not_matter(rollouts, seed):
    order = np.random.default_rng(seed).permutation(len(rollouts))
    both = zip(given_by(ALL, [rollouts]), given_by(ALL, [[rollouts[i] for i in order]]), strict=True)
    for (entry, [straight]), (_, [mixed]) in both:
        np.testing.assert_allclose(flat(mixed), flat([straight[i] for i in order]), atol=1e-9, err_msg=str(entry))


@pytest.mark.parametrize("weighting", ["path", "leaf"])
@quick
@given(rollouts=groups(rewards=sizes, shared=True))
def test_no_finite_input_gives_nan_or_two_numbers_for_a_node(weighting, rollouts):
    for entry, [given_] in given_by(ALL, [rollouts], weighting):
        seen: dict[int | None, float] = {}
        for rollout, advantages in zip(rollouts, given_, strict=True):
            assert np.isfinite(advantages).all() and len(advantages) == len(rollout), entry
            for turn, advantage in zip(rollout, advantages.tolist(), strict=True):
                assert seen.setdefault(turn.node, advantage) == advantage, entry


@pytest.mark.parametrize("weighting", ["path", "leaf"])
@few
@given(tasks=st.lists(groups(shared=True), min_size=2, max_size=4))
def test_a_task_in_a_batch_gets_what_it_gets_alone(weighting, tasks):
    """All tasks have the same states, actions and nodes, and some have no rollout, or none with turns."""
    entries = [entry for entry in ALL if entry[0] not in NORMALISING and not NORMALISING & set(entry[1].get("terms", ()))]
    entries.append(("tree_graph", {"pooled": False}))
    places = {0: 1, 1: 3, 2: 4, 3: 5}
    batch: list[Rollouts] = [[], [], [[], []], [], [], []][: places[len(tasks) - 1] + 1]
    for task, rollouts in enumerate(tasks):
        batch[places[task]] = rollouts
    alone = [dict(enumerate(given_[0] for _, given_ in given_by(entries, [rollouts], weighting))) for rollouts in tasks]
    for number, (entry, together) in enumerate(given_by(entries, batch, weighting)):
        for task, own in enumerate(alone):
            np.testing.assert_allclose(flat(together[places[task]]), flat(own[number]), atol=1e-9, err_msg=str(entry))


@few
@given(rollouts=groups(shared=True), places=st.lists(st.integers(0, 6), max_size=4))
def test_rollouts_without_turns_change_nothing(rollouts, places):
    thinned = list(rollouts)
    for place in places:
        thinned.insert(place, [])
    for (entry, [straight]), (_, [given_]) in zip(given_by(ALL, [rollouts]), given_by(ALL, [thinned]), strict=True):
        assert [len(advantages) for advantages in given_] == [len(rollout) for rollout in thinned]
        np.testing.assert_array_equal(flat(given_), flat(straight), err_msg=str(entry))


@few
@given(rollouts=groups(shared=True))
def test_names_of_states_and_actions_do_not_matter(rollouts):
    """The new names are told apart by more than their text, and come in another order."""
    names = {"p": "1", "q": 1, "r": (1,), "a": 0, "b": "0"}
    renamed = [
        [replace(t, state=names[t.state], action=names[t.action], next_state=names[t.next_state]) for t in rollout] for rollout in rollouts
    ]
    entries = [entry for entry in ALL if "similarity" not in entry[1]]
    for (entry, [straight]), (_, [given_]) in zip(given_by(entries, [rollouts]), given_by(entries, [renamed]), strict=True):
        np.testing.assert_array_equal(flat(given_), flat(straight), err_msg=str(entry))


@quick
@given(rollouts=groups())
def test_a_second_copy_of_the_group_changes_nothing(rollouts):
    for (entry, [once]), (_, [twice]) in zip(given_by(COPIED, [rollouts]), given_by(COPIED, [rollouts + rollouts]), strict=True):
        np.testing.assert_allclose(flat(twice), np.tile(flat(once), 2), atol=1e-9, err_msg=str(entry))


@quick
@given(rollouts=groups())
def test_a_second_copy_shrinks_rloo_and_sample_deviations_as_it_should(rollouts):
    n = len(rollouts)
    factor = (2 * n / (2 * n - 1)) / (n / (n - 1))
    np.testing.assert_allclose(
        flat(estimate(rollouts + rollouts, "rloo")), factor * np.tile(flat(estimate(rollouts, "rloo")), 2), atol=1e-9
    )


@quick
@given(rollouts=groups(), constant=st.sampled_from([1.0, -2.5, 1e3, 1e9]))
def test_a_constant_on_every_outcome_changes_nothing(rollouts, constant):
    moved = filled([[*rollout[:-1], replace(rollout[-1], reward=rollout[-1].reward + constant)] for rollout in rollouts])
    for (entry, [expected]), (_, [given_]) in zip(given_by(MOVED, [rollouts]), given_by(MOVED, [moved]), strict=True):
        np.testing.assert_allclose(flat(given_), flat(expected), atol=1e-5, err_msg=str(entry))


def last_steps(history: int) -> Callable[[list[Turn], int], object]:
    return lambda rollout, t: tuple((turn.state, turn.action, turn.next_state) for turn in rollout[max(0, t - history) : t + 1])


@pytest.mark.parametrize(
    ("entry", "edge"),
    [
        *((("salt", {"history": history}), last_steps(history)) for history in range(4)),
        (("salt", {"base": "rloo"}), last_steps(0)),
        (("rtmc", {}), lambda rollout, t: (rollout[t].state, rollout[t].action)),
        (("graft_graph", {}), lambda rollout, t: (rollout[t].state, rollout[t].next_state, rollout[t].reward, t == len(rollout) - 1)),
    ],
)
@quick
@given(rollouts=groups(shared=True, linked=True))
def test_an_edge_has_one_value(entry, edge, rollouts):
    seen: dict[object, float] = {}
    for rollout, advantages in zip(rollouts, estimate(rollouts, entry[0], **entry[1]), strict=True):
        for t, advantage in enumerate(advantages):
            assert seen.setdefault(edge(rollout, t), advantage) == pytest.approx(advantage, abs=1e-12)


@quick
@given(rollouts=groups())
def test_salt_with_endless_history_is_grpo_where_no_two_rollouts_begin_alike(rollouts):
    apart = [[replace(turn, state=(i, turn.state)) for turn in rollout] for i, rollout in enumerate(rollouts)]
    np.testing.assert_allclose(flat(estimate(apart, "salt", history=5)), flat(estimate(apart, "grpo")), atol=1e-12)


@quick
@given(rollouts=groups())
def test_rtmc_with_an_endless_prior_tends_to_the_centred_outcome(rollouts):
    """With only the last turn paid and no state shared between rollouts, Q is the outcome and V' the group's mean."""
    apart = [
        [replace(turn, state=(i, t), reward=turn.reward * (t == len(r) - 1)) for t, turn in enumerate(r)] for i, r in enumerate(rollouts)
    ]
    np.testing.assert_allclose(flat(estimate(apart, "rtmc", gamma=1.0, n_p=1e9)), flat(estimate(apart, "dr_grpo")), atol=1e-6)


@quick
@given(rollouts=groups(rewards=sizes, shared=True))
def test_tree_mc_of_siblings_adds_up_to_zero_and_only_children_get_zero(rollouts):
    siblings: dict[int | None, dict[int | None, float]] = {}
    for rollout, advantages in zip(rollouts, estimate(rollouts, "tree_mc"), strict=True):
        for before, turn, advantage in zip([None, *(t.node for t in rollout)], rollout, advantages.tolist(), strict=False):
            siblings.setdefault(before, {})[turn.node] = advantage
    for family in siblings.values():
        assert abs(sum(family.values())) <= 1e-9 * max(1.0, *map(abs, family.values()))
        assert len(family) > 1 or set(family.values()) == {0.0}
