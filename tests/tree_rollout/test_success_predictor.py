import json
import math
from typing import Any

import numpy as np
import pytest
from allocation_world import record_of, tree_of
from branching_trees import CRASH, END, turn

from tree_rollout.errors import SuccessPredictorError, TreeRolloutError
from tree_rollout.prefix_features import FEATURES, evidence, prefix_features, start_features
from tree_rollout.success_predictor import SuccessPredictor, _rows
from tree_rollout.task_history import TaskHistory
from tree_rollout.tree import TrajectoryTree

BETA_MEAN = pytest.mark.parametrize(
    ("visits", "solved", "rollouts", "mean"),
    [
        ([], 0, 0, 1 / 2),
        ([], 3, 4, 4 / 6),
        ([[True, True, False]], 0, 0, 3 / 5),
        ([[True, True, False], [False]], 1, 2, (1 + 1 + 1) / (2 + 1.5 + 1 + 2)),
    ],
)


def column(tree: TrajectoryTree, name: str) -> list[float]:
    return prefix_features(tree, None)[:, FEATURES.index(name)].tolist()


def world(seed: int, trees: int = 20) -> list[TrajectoryTree]:
    """Four rollouts a tree; a clue pays .2 at the first turn, after which 9 of 10 solve it, and 2 of 10 without it."""
    rng, grown = np.random.default_rng(seed), []
    for number in range(trees):
        tree = TrajectoryTree("test/World-v0", 1000 * seed + number)
        for _ in range(4):
            clue = rng.random() < 0.5
            first = turn(-1, "start", float(rng.random()))
            first.reward = 0.2 * clue
            last = turn(tree.add(first), "room", float(rng.random()), stop=END, solved=bool(rng.random() < (0.9 if clue else 0.2)))
            tree.add(last)
        grown.append(tree)
    return grown


def taught(iterations: int = 6, **options: Any) -> SuccessPredictor:
    predictor = SuccessPredictor(**options)
    for iteration in range(iterations):
        predictor.observe(world(iteration))
    return predictor


# ---------------------------------------------------------------------- features


def test_features_are_those_of_the_turns_before() -> None:
    tree = TrajectoryTree("test/World-v0", 0)
    a = tree.add(turn(-1, "A", [0.5, 1.5]))
    b = tree.add(turn(a, "B", 2.0))
    tree.turns[a].reward, tree.turns[b].reward, tree.turns[b].valid = 0.5, -2.0, False
    c = tree.add(turn(b, "A", 9.0))
    tree.add(turn(c, "A", [7.0] * 4, stop=END))
    assert column(tree, "turns") == pytest.approx([0, math.log(2), math.log(3), math.log(4)])
    assert column(tree, "tokens") == pytest.approx([0, math.log(3), math.log(4), math.log(5)])
    assert column(tree, "entropy") == pytest.approx([0, 1, 1.5, 4])
    assert column(tree, "valid") == pytest.approx([1, 1, 1 / 2, 2 / 3])
    assert column(tree, "repeats") == pytest.approx([0, 0, 1 / 3, 2 / 4])
    assert column(tree, "reward") == pytest.approx(np.arcsinh([0, 0.5, -1.5, -1.5]))
    assert start_features(None).tolist() == pytest.approx(prefix_features(tree, None)[0].tolist())


def test_repeats_are_counted_along_the_path_alone() -> None:
    tree = TrajectoryTree("test/World-v0", 0)
    root = tree.add(turn(-1, "A"))
    tree.add(turn(root, "B", stop=END))
    other = tree.add(turn(root, "B"))
    tree.add(turn(other, "A", stop=END))
    assert column(tree, "repeats") == pytest.approx([0, 0, 0, 1 / 3])


@BETA_MEAN
def test_evidence_is_the_log_odds_of_a_beta_mean(visits: list, solved: int, rollouts: int, mean: float) -> None:
    assert 1 / (1 + math.exp(-evidence(record_of(*visits), solved, rollouts))) == pytest.approx(mean)


def test_no_rollout_is_evidence_for_itself() -> None:
    tree = tree_of(0, [True, False, True, None])
    forked = tree.add(turn(-1))
    for solved in (True, False):
        tree.add(turn(forked, stop=END, solved=solved))
    # Of 2.5 solved among 4, each root leaves itself out; the failed one has nothing to leave out.
    means = [(1 + 1.5) / 5, (1 + 2.5) / 5, 2.5 / 5, 3.5 / 6, *[3 / 5] * 3]
    assert column(tree, "evidence") == pytest.approx([math.log(mean / (1 - mean)) for mean in means])
    assert SuccessPredictor().chances(tree, None) == pytest.approx(means)
    flipped = tree_of(0, [False, False, True, None])
    assert SuccessPredictor().chances(flipped, None)[0] == pytest.approx(2 / 4)
    assert SuccessPredictor().chances(tree_of(0, [True, False, True]), None)[0] == pytest.approx(2 / 4)


@pytest.mark.parametrize(("name", "value"), [("reward", math.nan), ("reward", math.inf), ("entropy", math.inf)])
def test_numbers_that_are_not_finite_are_refused(name: str, value: float) -> None:
    tree = TrajectoryTree("test/World-v0", 3)
    first = turn(-1, entropy=value if name == "entropy" else 1.0)
    first.reward = value if name == "reward" else 0.0
    tree.add(turn(tree.add(first), stop=END))
    predictor = taught(1)
    before = predictor.to_json()
    with pytest.raises(SuccessPredictorError, match=f"the {name} before turn 1 of test/World-v0, seed 3, is (nan|inf)"):
        predictor.observe([tree])
    assert predictor.to_json() == before


# ---------------------------------------------------------------------- learning


def test_a_rollout_counts_once_however_long_and_forks_share_their_root() -> None:
    tree = tree_of(0, [True, None])
    root = tree.add(turn(-1))
    tree.add(turn(root, stop=END, solved=True))
    longer = tree.add(turn(root))
    tree.add(turn(longer, stop=END))
    features, weights, solved = _rows(tree, None)
    assert features.shape == (6, len(FEATURES))
    # The second root has two continuations of weight 1/2: one of two turns, one of three.
    assert weights == pytest.approx([1, 0, 1 / 4 + 1 / 6, 1 / 4, 1 / 6, 1 / 6])
    assert solved[[0, 2, 3, 4, 5]] == pytest.approx([1, (1 / 4) / (1 / 4 + 1 / 6), 1, 0, 0])
    assert weights.sum() == pytest.approx(2)


def test_until_it_has_seen_enough_it_says_the_beta_mean_and_its_report_says_so() -> None:
    predictor = SuccessPredictor(least_rollouts=100)
    reports = [predictor.observe(world(seed)) for seed in range(2)]
    assert [(report.rollouts, report.ready) for report in reports] == [(80, False), (160, True)]
    assert reports[0].error == reports[0].error_of_mean and reports[1].error == reports[1].error_of_mean
    third = predictor.observe(world(2))
    assert third.error < third.error_of_mean
    cautious, tree = taught(least_rollouts=10_000), world(9)[0]
    assert cautious.chances(tree, None) == pytest.approx(SuccessPredictor().chances(tree, None))
    assert np.abs(taught().chances(tree, None) - SuccessPredictor().chances(tree, None)).max() > 0.1


def test_it_learns_what_tells_success() -> None:
    """A mean squared error near that of the truth, (.09 + .16) / 2, at the second turn, where the Beta mean has .26."""
    predictor = taught()
    report = predictor.observe(world(50, 200))
    # Half of the weight lies on first turns, of which nobody knows more than .55.
    best = ((0.9 * 0.1 + 0.2 * 0.8) / 2 + 0.55 * 0.45) / 2
    assert report.error < best + 0.02 < report.error_of_mean
    tree = world(99)[0]
    clued = [tree.turns[index].reward > 0 for index in tree.children(-1)]
    chances = predictor.chances(tree, None)[1::2]
    assert len(set(clued)) == 2
    assert all((chance > 0.7) if clue else (chance < 0.4) for chance, clue in zip(chances, clued, strict=True))


def test_the_weights_are_the_mode_of_the_posterior() -> None:
    """There its gradient vanishes; after one iteration the prior is around 0, after two around the first weights."""
    predictor, batches = SuccessPredictor(l2=2.0, forget=0.5), [rows_of(world(seed, 8)) for seed in range(2)]
    prior_weight, prior_precision = np.zeros(8), 2 * np.eye(8)
    for number, (features, weights, solved) in enumerate(batches):
        predictor.observe(world(number, 8))
        seen, seen_weights = (np.concatenate([batch[part] for batch in batches[: number + 1]]) for part in (0, 1))
        mean = np.average(seen, axis=0, weights=seen_weights)
        spread = np.sqrt(np.average((seen - mean) ** 2, axis=0, weights=seen_weights))
        z = np.where(spread > 1e-9, (features - mean) / np.where(spread > 1e-9, spread, 1), 0).clip(-4, 4)
        design = np.column_stack([np.ones(len(z)), z])
        chance = 1 / (1 + np.exp(-(features[:, -1] + design @ predictor.weight_W)))
        pull = prior_precision @ (predictor.weight_W - prior_weight)
        assert design.T @ (weights * (solved - chance)) == pytest.approx(pull, abs=1e-6)
        told = (design.T * (weights * chance * (1 - chance))) @ design + prior_precision - 2 * np.eye(8)
        assert predictor.precision_WW == pytest.approx(told, abs=1e-9)
        prior_weight, prior_precision = predictor.weight_W, 2 * np.eye(8) + 0.5 * predictor.precision_WW


def rows_of(trees: list[TrajectoryTree]) -> tuple[np.ndarray, ...]:
    rows = [_rows(tree, None) for tree in trees]
    return tuple(np.concatenate([row[part] for row in rows]) for part in range(3))


def test_options_bite() -> None:
    tree = world(9)[0]
    plain = taught().chances(tree, None)
    shy = taught(l2=1000.0).chances(tree, None)
    assert np.abs(shy - SuccessPredictor().chances(tree, None)).max() < np.abs(plain - SuccessPredictor().chances(tree, None)).max()
    for forget in (0.0, 1.0):
        predictor = taught(forget=forget)
        for iteration in range(3):
            turned = world(100 + iteration)
            for grown in turned:
                for leaf in grown.leaves():
                    grown.turns[leaf].success = not grown.turns[leaf].success
            predictor.observe(turned)
        clued = predictor.chances(tree, None)[1::2][[tree.turns[index].reward > 0 for index in tree.children(-1)]]
        assert (clued < 0.35).all() if forget == 0 else (clued > 0.3).all()


def test_a_task_record_is_evidence_and_must_not_hold_the_tree_itself() -> None:
    history, predictor, blind = TaskHistory(), SuccessPredictor(least_rollouts=0), SuccessPredictor(least_rollouts=0)
    rng = np.random.default_rng(0)
    chances = rng.choice([0.05, 0.95], 20)
    for iteration in range(4):
        trees = [tree_of(seed, (rng.random(2) < chance).tolist()) for seed, chance in enumerate(chances)]
        known, unknown = predictor.observe(trees, history), blind.observe(trees)
        history.observe(trees, iteration)
    assert known.error < 0.8 * unknown.error  # pyright: ignore[reportPossiblyUnboundVariable]
    assert predictor.start(history.record(tree_of(int(chances.argmax()), []))) > 0.75
    assert predictor.start(history.record(tree_of(int(chances.argmin()), []))) < 0.25


@pytest.mark.parametrize("trees", [[], [tree_of(0, [None, None])], [TrajectoryTree("test/World-v0", 0)]])
def test_nothing_to_learn_from_changes_nothing(trees: list[TrajectoryTree]) -> None:
    predictor = taught(1)
    before = predictor.to_json()
    report = predictor.observe(trees)
    assert predictor.to_json() == before and math.isnan(report.error) and report.rollouts == 80
    assert SuccessPredictor().observe(trees).rollouts == 0


def test_failed_rollouts_teach_nothing_of_their_own() -> None:
    predictors = [SuccessPredictor(), SuccessPredictor()]
    for predictor, failures in zip(predictors, (False, True), strict=True):
        trees = world(0)
        for tree in trees if failures else []:
            tree.add(turn(tree.add(turn(-1, entropy=5.0)), stop=CRASH))
        predictor.observe(trees)
    assert predictors[0].to_json() == predictors[1].to_json()


def test_separable_outcomes_and_huge_numbers_stay_finite() -> None:
    predictor = SuccessPredictor(least_rollouts=0)
    for _ in range(30):
        trees = [tree_of(seed, [bool(seed % 2)] * 4) for seed in range(8)]
        for tree in trees:
            first = turn(-1, "S", 1e30)
            first.reward = 1e300 if tree.seed % 2 else -1e300
            tree.add(turn(tree.add(first), stop=END, solved=bool(tree.seed % 2)))
        predictor.observe(trees)
    chances = predictor.chances(trees[0], None)  # pyright: ignore[reportPossiblyUnboundVariable]
    assert np.isfinite(predictor.weight_W).all() and ((chances >= 0) & (chances <= 1)).all()
    json.dumps(predictor.to_json(), allow_nan=False)


# ---------------------------------------------------------------------- JSON


def test_what_was_learnt_survives_json_bit_for_bit() -> None:
    predictor = taught()
    again = SuccessPredictor()
    again.load_json(json.loads(json.dumps(predictor.to_json(), allow_nan=False)))
    for each in (predictor, again):
        each.observe(world(77))
    assert again.to_json() == predictor.to_json() == taught_and(77).to_json()
    empty = SuccessPredictor()
    empty.load_json(SuccessPredictor().to_json())
    assert empty.to_json() == SuccessPredictor().to_json()


def taught_and(seed: int) -> SuccessPredictor:
    predictor = taught()
    predictor.observe(world(seed))
    return predictor


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("features", ["turns"]),
        ("rollouts", -1),
        ("rollouts", 1.5),
        ("rollouts", True),
        ("seen", math.nan),
        ("seen", -1.0),
        ("seen", [1.0]),
        ("mean", [0.0] * 3),
        ("mean", [math.inf] * len(FEATURES)),
        ("mean", ["x"] * len(FEATURES)),
        ("square", [-1.0] * len(FEATURES)),
        ("weight", None),
        ("weight", [[0.0]] * (1 + len(FEATURES))),
        ("precision", [[0.0, 1.0], [1.0]]),
        ("precision", np.triu(np.ones((8, 8))).tolist()),
        ("precision", (-np.eye(8)).tolist()),
        ("extra", 1),
    ],
    ids=str,
)
def test_a_damaged_state_is_one_clear_error_and_changes_nothing(name: str, value: object) -> None:
    predictor = taught(2)
    state = predictor.to_json()
    with pytest.raises(SuccessPredictorError, match="the saved success predictor is damaged") as caught:
        predictor.load_json(state | {name: value})
    assert isinstance(caught.value, TreeRolloutError) and predictor.to_json() == state
    for other in (None, [], {name: state.get(name)}):
        with pytest.raises(SuccessPredictorError, match="damaged"):
            predictor.load_json(other)


@pytest.mark.parametrize(
    ("options", "words"), [({"l2": 0}, "l2 is 0"), ({"forget": 1.1}, "forget is 1.1"), ({"least_rollouts": -1}, "least")]
)
def test_options_out_of_range_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SuccessPredictorError, match=words):
        SuccessPredictor(**options)
