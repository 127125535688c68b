"""What holds for every group: order does not matter, offsets and copies cancel where promised, and no input gives NaN."""

from dataclasses import replace

import numpy as np
import pytest
from full_turns import filled
from hypothesis import given, settings
from hypothesis import strategies as st

from credit import Turn, estimate, methods

# Fixed examples, so that the same tree of tests runs everywhere; the machine may be slow, so no deadline.
quick = settings(max_examples=40, deadline=None, derandomize=True)

ALL = [(method, {}) for method in methods()]
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
def groups(draw, rewards=plain, least=2, shared=False):
    """Up to six rollouts over few states, so that merges and cycles are common; `shared` forks some of them off others' prefixes."""
    turn = st.builds(Turn, st.sampled_from("pqr"), st.sampled_from("ab"), st.sampled_from("pqr"), rewards)
    rollouts = draw(st.lists(st.lists(turn, min_size=1, max_size=5), min_size=least, max_size=6))
    if not shared:
        return filled(rollouts)
    counter = iter(range(10_000))
    tree = [[replace(turn, node=next(counter)) for turn in rollout] for rollout in rollouts]
    for index in range(1, len(tree)):
        source = tree[draw(st.integers(0, index - 1))]
        cut = draw(st.integers(0, len(source) - 1))
        tree[index] = source[:cut] + tree[index]
    return filled(tree)


def flat(advantages: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(advantages)


COPIED = [("grpo", {"ddof": 0}), ("dr_grpo", {}), ("salt", {"ddof": 0}), ("salt", {"ddof": 0, "history": 1}), ("gigpo", {"omega": 0})]
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

MOVED = [("grpo", {}), ("grpo", {"ddof": 0}), ("dr_grpo", {}), ("rloo", {}), ("salt", {}), ("tree_mc", {}), ("rtmc", {"gamma": 1.0})]
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


@quick
@given(rollouts=groups(shared=True), seed=st.integers(0, 99))
def test_order_of_rollouts_does_not_matter(rollouts, seed):
    order = np.random.default_rng(seed).permutation(len(rollouts))
    for method, options in ALL:
        straight, mixed = estimate(rollouts, method, **options), estimate([rollouts[i] for i in order], method, **options)
        np.testing.assert_allclose(flat(mixed), flat([straight[i] for i in order]), atol=1e-9, err_msg=f"{method} {options}")


@pytest.mark.parametrize("weighting", ["path", "leaf"])
@quick
@given(rollouts=groups(rewards=sizes, shared=True))
def test_no_finite_input_gives_nan_or_two_numbers_for_a_node(weighting, rollouts):
    for method, options in ALL:
        seen: dict[int | None, float] = {}
        for rollout, advantages in zip(rollouts, estimate(rollouts, method, weighting=weighting, **options), strict=True):
            assert np.isfinite(advantages).all() and len(advantages) == len(rollout), (method, options)
            for turn, advantage in zip(rollout, advantages.tolist(), strict=True):
                assert seen.setdefault(turn.node, advantage) == advantage, (method, options)


@quick
@given(rollouts=groups())
def test_a_second_copy_of_the_group_changes_nothing(rollouts):
    for method, options in COPIED:
        once, twice = estimate(rollouts, method, **options), estimate(rollouts + rollouts, method, **options)
        np.testing.assert_allclose(flat(twice), np.tile(flat(once), 2), atol=1e-9, err_msg=f"{method} {options}")


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
    moved = [[*rollout[:-1], replace(rollout[-1], reward=rollout[-1].reward + constant)] for rollout in rollouts]
    for method, options in MOVED:
        given_, expected = estimate(moved, method, **options), estimate(rollouts, method, **options)
        np.testing.assert_allclose(flat(given_), flat(expected), atol=1e-5, err_msg=f"{method} {options}")


@quick
@given(rollouts=groups(shared=True), history=st.integers(0, 3))
def test_an_edge_has_one_value_in_salt(rollouts, history):
    seen: dict[object, float] = {}
    for rollout, advantages in zip(rollouts, estimate(rollouts, "salt", history=history), strict=True):
        steps = [(turn.state, turn.action, turn.next_state) for turn in rollout]
        for t, advantage in enumerate(advantages):
            assert seen.setdefault(tuple(steps[max(0, t - history) : t + 1]), advantage) == pytest.approx(advantage, abs=1e-12)


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
