"""Tree estimators give the numbers worked out by hand and those of a slow recursion, and their flat versions where nothing forks."""

from dataclasses import replace
from math import exp, sqrt

import numpy as np
import pytest
from random_trees import random_tree

from credit import GroupError, Turn, estimate

TREE = ("treerl", "tree_grpo", "depthwise", "at2po")
WEIGHTINGS = ("path", "leaf")


def flat(advantages) -> np.ndarray:
    return np.concatenate(advantages)


def fork_of(*forks: tuple[float, ...], entropy: float | None = 1.0) -> list[list[Turn]]:
    """One first turn per tuple, with a leaf for each of its outcomes."""
    rollouts, count = [], 0
    for root, outcomes in enumerate(forks):
        first = Turn("s", f"a{root}", f"m{root}", 0.0, node=1000 + root, entropy=entropy)
        for outcome in outcomes:
            rollouts.append([first, Turn(f"m{root}", f"b{count}", "e", outcome, node=count, entropy=entropy)])
            count += 1
    return rollouts


REFERENCE = ((1.0, 0.0), (1.0, 1.0))
"""Root -> A (leaves 1, 0), root -> B (leaves 1, 1)."""


@pytest.mark.parametrize(
    ("method", "settings", "expected"),
    [
        ("treerl", {}, [[-0.353553, 0.75], [-0.353553, -1.25], [0.353553, 0.25], [0.353553, 0.25]]),
        ("treerl", {"divide": False}, [[-0.5, 0.75], [-0.5, -1.25], [0.5, 0.25], [0.5, 0.25]]),
        # Depth 2: mean .75, sample deviation .5 of four leaves that weigh alike.
        ("depthwise", {}, [[-0.707107, 0.5], [-0.707107, -1.5], [0.707107, 0.5], [0.707107, 0.5]]),
        ("depthwise", {"ddof": 0}, [[-1, 0.577350], [-1, -1.732051], [1, 0.577350], [1, 0.577350]]),
        ("depthwise", {"least_std": 0.4}, [[0, 0.5], [0, -1.5], [0, 0.5], [0, 0.5]]),
        # z of the leaves, and the mean over two equally certain children.
        ("at2po", {}, [[-0.577349, 0.577349], [-0.577349, -1.732047], [0.577349, 0.577349], [0.577349, 0.577349]]),
    ],
)
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_reference_tree(method, settings, expected, weighting):
    np.testing.assert_allclose(estimate(fork_of(*REFERENCE), method, weighting=weighting, **settings), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_tree_grpo_on_two_trees(weighting):
    """Leaves 1 0 in each of two trees: .866024 over the task plus .707106 over the own tree; the forked turns get the mean, 0."""
    advantages = estimate(fork_of((1.0, 0.0), (1.0, 0.0)), "tree_grpo", weighting=weighting)
    np.testing.assert_allclose(advantages, [[0, 1.573130], [0, -1.573130]] * 2, atol=1e-6)
    own = estimate(fork_of((1.0, 0.0), (1.0, 0.0)), "tree_grpo", weighting=weighting, own_weight=0.5, ddof=0)
    np.testing.assert_allclose([a[1] for a in own], [1.5, -1.5, 1.5, -1.5], atol=1e-5)


def test_tree_grpo_of_equal_leaves_adds_nothing():
    """Tree A deviates by .7071 around .5, tree B not at all: over the task 1 0 1 1 are .5 -1.5 .5 .5 (deviation .5)."""
    advantages = estimate(fork_of(*REFERENCE), "tree_grpo")
    np.testing.assert_allclose([a[1] for a in advantages], [1.207105, -2.207101, 0.499999, 0.499999], atol=2e-6)
    np.testing.assert_allclose([a[0] for a in advantages], [-0.499998, -0.499998, 0.499999, 0.499999], atol=2e-6)


UNEVEN = ((1.0, 0.0, 0.0), (1.0,))
"""Root -> A (leaves 1, 0, 0), root -> B (leaf 1): path weights 1/3 1/3 1/3 1."""


@pytest.mark.parametrize(
    ("method", "weighting", "expected"),
    [
        # V_A = 1/3, V_B = 1; V_root = 2/3 over children, 1/2 over leaves. A has three leaves.
        ("treerl", "path", [-2 / 3 / sqrt(3), 1 / 3 + 2 / 3, -2 / 3 - 1 / 3, -2 / 3 - 1 / 3, 2 / 3, 1 / 3]),
        ("treerl", "leaf", [-1 / 3 / sqrt(3), 1 / 2 + 2 / 3, -1 / 2 - 1 / 3, -1 / 2 - 1 / 3, 1, 1 / 2]),
        # Depth 1, path: 1/3 and 1 weigh alike, deviation sqrt(2)/3. Depth 2, path: mean 2/3, sum w d^2 = 4/9, and
        # W - sum w^2 / W = 2 - 2/3, so the deviation is sqrt(1/3).
        ("depthwise", "path", [-1 / sqrt(2), 1 / sqrt(3), -2 / sqrt(3), -2 / sqrt(3), 1 / sqrt(2), 1 / sqrt(3)]),
        # Depth 1, leaf: weights 3 and 1, mean 1/2, sum w d^2 = 1/3, W - sum w^2 / W = 3/2: sqrt(2)/3. Depth 2: sqrt(1/3).
        ("depthwise", "leaf", [-1 / 2 / sqrt(2), sqrt(3) / 2, -sqrt(3) / 2, -sqrt(3) / 2, 3 / 2 / sqrt(2), sqrt(3) / 2]),
        # Population deviations: sqrt(2)/3 around 2/3 over paths, 1/2 around 1/2 over leaves; A is the mean over its children.
        ("at2po", "path", [-1 / sqrt(2), 1 / sqrt(2), -2 / sqrt(2), -2 / sqrt(2), 1 / sqrt(2), 1 / sqrt(2)]),
        ("at2po", "leaf", [-1 / 3, 1, -1, -1, 1, 1]),
    ],
)
def test_path_weights_average_children_and_leaf_weights_leaves(method, weighting, expected):
    advantages = estimate(fork_of(*UNEVEN), method, weighting=weighting)
    np.testing.assert_allclose([advantages[0][0], *(a[1] for a in advantages[:3]), *advantages[3]], expected, atol=3e-6)


def test_at2po_favours_uncertain_children():
    """Children with entropies ln 3 and 0 count 3/4 and 1/4; the flag makes them count alike, without entropies."""
    rollouts = fork_of((1.0, 0.0), (0.0, 0.0), entropy=0.0)
    rollouts[0][1] = replace(rollouts[0][1], entropy=float(np.log(3)))
    # z of 1 0 0 0: mean 1/4, deviation .433013: 1.732047 and -.577349.
    assert estimate(rollouts, "at2po")[0][0] == pytest.approx(0.75 * 1.732047 - 0.25 * 0.577349, abs=1e-6)
    assert estimate(rollouts, "at2po", entropy=False)[0][0] == pytest.approx(0.577349, abs=1e-6)
    bare = fork_of((1.0, 0.0), (0.0, 0.0), entropy=None)
    assert estimate(bare, "at2po", entropy=False)[0][0] == pytest.approx(0.577349, abs=1e-6)
    with pytest.raises(GroupError, match="has no entropy"):
        estimate(bare, "at2po")
    rollouts[0][1] = replace(rollouts[0][1], entropy=1e4)
    assert estimate(rollouts, "at2po")[0][0] == pytest.approx(1.732047, abs=1e-6)


# --- Flat groups


def star(outcomes, lengths, shared: bool) -> list[list[Turn]]:
    rng, rollouts = np.random.default_rng(0), []
    for i, (outcome, length) in enumerate(zip(outcomes, lengths, strict=True)):
        turns = [Turn(f"s{t}", f"a{rng.integers(3)}", f"s{t + 1}", 0.0, entropy=float(rng.random())) for t in range(length)]
        turns[-1] = replace(turns[-1], reward=outcome)
        rollouts.append([replace(turn, node=100 * i + t) for t, turn in enumerate(turns)] if shared else turns)
    return rollouts


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("shared", [False, True])
def test_flat_groups_get_the_flat_versions(shared, weighting):
    rollouts = star((1.0, 0.0, 0.25, 1.0, 0.0), (3, 1, 4, 2, 2), shared)
    dr_grpo, grpo, population = estimate(rollouts, "dr_grpo"), estimate(rollouts, "grpo"), estimate(rollouts, "grpo", ddof=0)
    treerl = estimate(rollouts, "treerl", weighting=weighting)
    for given, centred in zip(treerl, dr_grpo, strict=True):
        np.testing.assert_allclose(given, centred * np.where(np.arange(len(centred)) == 0, 2, 1), atol=1e-12)
    np.testing.assert_allclose(flat(estimate(rollouts, "tree_grpo", weighting=weighting)), flat(grpo), atol=1e-12)
    np.testing.assert_allclose(flat(estimate(rollouts, "at2po", weighting=weighting)), flat(population), atol=1e-12)
    # At each depth the outcomes of the rollouts that have as many turns, standardised.
    depthwise = estimate(rollouts, "depthwise", weighting=weighting)
    for depth in range(4):
        reach = [i for i, rollout in enumerate(rollouts) if len(rollout) > depth]
        outcomes = np.array([(1.0, 0.0, 0.25, 1.0, 0.0)[i] for i in reach])
        expected = (outcomes - outcomes.mean()) / outcomes.std(ddof=1) if len(reach) > 1 else [0.0]
        np.testing.assert_allclose([depthwise[i][depth] for i in reach], expected, atol=1e-12)


def test_one_turn_rollouts_under_tree_mc_are_dr_grpo():
    rollouts = star((1.0, 0.0, 0.25), (1, 1, 1), True)
    np.testing.assert_allclose(flat(estimate(rollouts, "tree_mc")), flat(estimate(rollouts, "dr_grpo")), atol=1e-12)


def test_at2po_reads_entropies_only_where_something_forks():
    rollouts = star((1.0, 0.0), (2, 3), True)
    flipped = [[replace(turn, entropy=5.0 - (turn.entropy or 0.0)) for turn in rollout] for rollout in rollouts]
    np.testing.assert_array_equal(flat(estimate(flipped, "at2po")), flat(estimate(rollouts, "at2po")))


# --- A slow recursion


class Node:
    def __init__(self, turn: Turn | None):
        self.turn, self.children, self.outcomes, self.weight = turn, {}, [], 1.0


def grown(rollouts) -> Node:
    """The tree below one root; `outcomes` of the leaves below each node, `weight` the product of 1 / children on the way to it."""
    root = Node(None)
    for rollout in rollouts:
        outcome, node = sum(turn.reward for turn in rollout), root
        node.outcomes.append(outcome)
        for turn in rollout:
            node = node.children.setdefault(turn.node, Node(turn))
            node.outcomes.append(outcome)
    weigh(root, 1.0)
    return root


def weigh(node: Node, weight: float) -> None:
    node.weight = weight
    for child in node.children.values():
        weigh(child, 1.0 if node.turn is None else weight / len(node.children))


def leaves(node: Node) -> list[Node]:
    return [leaf for child in node.children.values() for leaf in leaves(child)] or [node]


def value(node: Node, weighting: str) -> float:
    if weighting == "leaf" or not node.children:
        return float(np.mean(node.outcomes))
    return float(np.mean([value(child, weighting) for child in node.children.values()]))


def standardised(values, weights, ddof: int, eps: float) -> np.ndarray:
    values, weights = np.array(values), np.array(weights)
    centred = values - np.average(values, weights=weights)
    total = weights.sum()
    freedom = total - ddof * (weights**2).sum() / total
    if len(values) == 1 or np.abs(centred).max() < 1e-12:
        return np.zeros(len(values))
    return centred / (np.sqrt((weights * centred**2).sum() / freedom) + eps)


def slow_treerl(root: Node, weighting: str) -> dict[Node, float]:
    numbers: dict[Node, float] = {}

    def visit(node: Node) -> None:
        for child in node.children.values():
            own = value(child, weighting)
            parts = own - value(root, weighting) + own - value(node, weighting)
            numbers[child] = parts / sqrt(len(leaves(child)))
            visit(child)

    visit(root)
    return numbers


def slow_depthwise(root: Node, weighting: str) -> dict[Node, float]:
    numbers, level = {}, list(root.children.values())
    while level:
        weights = [node.weight if weighting == "path" else float(len(leaves(node))) for node in level]
        values = standardised([value(node, weighting) for node in level], weights, 1, 0.0)
        numbers |= dict(zip(level, values.tolist(), strict=True))
        level = [child for node in level for child in node.children.values()]
    return numbers


def leaf_scores(node: Node, weighting: str, ddof: int) -> dict[Node, float]:
    ends = leaves(node)
    weights = [leaf.weight if weighting == "path" else 1.0 for leaf in ends]
    return dict(zip(ends, standardised([leaf.outcomes[0] for leaf in ends], weights, ddof, 1e-6).tolist(), strict=True))


def slow_tree_grpo(root: Node, weighting: str) -> dict[Node, float]:
    scores = leaf_scores(root, weighting, 1)
    for first in root.children.values():
        for leaf, number in leaf_scores(first, weighting, 1).items():
            scores[leaf] += number
    numbers: dict[Node, float] = {}

    def visit(node: Node) -> None:
        ends = leaves(node)
        numbers[node] = float(np.average([scores[e] for e in ends], weights=[e.weight if weighting == "path" else 1.0 for e in ends]))
        for child in node.children.values():
            visit(child)

    visit(root)
    return numbers


def slow_at2po(root: Node, weighting: str) -> dict[Node, float]:
    scores = leaf_scores(root, weighting, 0)
    numbers: dict[Node, float] = {}

    def visit(node: Node) -> float:
        if not node.children:
            numbers[node] = scores[node]
        else:
            odds = [exp(child.turn.entropy) for child in node.children.values()]
            below = [visit(child) for child in node.children.values()]
            numbers[node] = float(np.average(below, weights=odds))
        return numbers[node]

    visit(root)
    return numbers


SLOW = {"treerl": slow_treerl, "tree_grpo": slow_tree_grpo, "depthwise": slow_depthwise, "at2po": slow_at2po}


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("method", TREE)
def test_trees_are_the_slow_recursion(method, weighting):
    for seed in range(8):
        rollouts = random_tree(seed, roots=1 + seed % 4, depth=6)
        # Entropies of siblings differ, as they would not where they depend on the state alone.
        rollouts = [[replace(turn, entropy=(turn.node or 0) * 0.37 % 2.0) for turn in rollout] for rollout in rollouts]
        if len({sum(turn.reward for turn in rollout) for rollout in rollouts}) == 1:
            continue
        root = grown(rollouts)
        numbers = SLOW[method](root, weighting)
        for rollout, given in zip(rollouts, estimate(rollouts, method, weighting=weighting), strict=True):
            node, expected = root, []
            for turn in rollout:
                node = node.children[turn.node]
                expected.append(numbers[node])
            np.testing.assert_allclose(given, expected, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("method", TREE)
def test_scale_of_rewards(method, scale):
    """treerl is linear in the rewards; the others are indifferent to scale where it does not sink below eps."""
    rollouts = random_tree(4)
    scaled = [[replace(turn, reward=turn.reward * scale) for turn in rollout] for rollout in rollouts]
    settings = {"least_std": 0} if method == "depthwise" else {}
    plain, given = flat(estimate(rollouts, method)), flat(estimate(scaled, method, **settings))
    if method == "treerl":
        np.testing.assert_allclose(given / scale, plain, atol=1e-12)
    elif method == "depthwise" or scale > 1:
        np.testing.assert_allclose(given, plain, atol=2e-5)
    else:
        assert np.isfinite(given).all() and np.abs(given).max() < 1e-5


def test_depthwise_rounding_of_values_is_no_spread():
    """Two first turns are worth 1.1e12 / 3 each, by sums of different order; depth 1 must not make 1 and -1 of the last bit."""
    parts = [1e11, 3e11, 7e11]
    rollouts = fork_of(tuple(part / 3 for part in parts), tuple(part / 3 for part in parts[::-1]), (sum(parts) / 9,))
    advantages = estimate(rollouts, "depthwise", least_std=0)
    assert [a[0] for a in advantages] == [0.0] * 7 and advantages[0][1] < 0 < advantages[2][1]


def test_a_lone_root_has_no_spread_at_its_depth():
    advantages = estimate(fork_of((1.0, 0.0, 0.0)), "depthwise")
    assert [a[0] for a in advantages] == [0.0] * 3 and advantages[0][1] > 0 > advantages[1][1]


@pytest.mark.parametrize("method", TREE)
def test_a_deep_comb_of_forks(method):
    """400 turns, forked at each: depths and leaves of every kind, weights down to 2 ** -399."""
    spine = [Turn(f"s{t % 7}", "on", f"s{(t + 1) % 7}", 0.0, node=t, entropy=1.0) for t in range(400)]
    rollouts = [[*spine[:t], Turn(f"s{t % 7}", "off", "e", float(t % 3), node=1000 + t, entropy=2.0)] for t in range(1, 400)] + [spine]
    for weighting in WEIGHTINGS:
        assert all(np.isfinite(advantages).all() for advantages in estimate(rollouts, method, weighting=weighting))
