import numpy as np
import pytest

from tree_rollout.branching import BRANCHING_RULES, Branch, Decision, branching_rule, forkable_turns
from tree_rollout.errors import BranchingError
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn


def turn(parent: int, entropies: list[float], stop: StopReason | None = None, snapshot: object = "here", observed: int = 2) -> Turn:
    """A turn whose sampled tokens have the given entropies, behind `observed` observation tokens."""
    entropies_T = np.array([0.0] * observed + entropies, dtype=np.float32)
    size = len(entropies_T)
    return Turn(
        parent=parent,
        observation="o",
        action="a",
        ids_T=np.zeros(size, dtype=np.int32),
        mask_T=np.repeat([False, True], [observed, len(entropies)]),
        logprobs_T=np.zeros(size, dtype=np.float32),
        entropies_T=entropies_T,
        policy_version=0,
        reward=0.0,
        terminated=False,
        truncated=False,
        valid=True,
        state="s",
        next_state="s",
        stop_reason=stop,
        snapshot=snapshot,
    )


def tree(*turns: Turn) -> TrajectoryTree:
    return TrajectoryTree("test/World-v0", 0, turns=list(turns))


def two_roots(stop: StopReason = StopReason.TERMINATED) -> TrajectoryTree:
    """Roots 0-1-2 and 3-4 with mean entropies .5, .98, .1 and .7, 1.0."""
    return tree(
        turn(-1, [0.4, 0.6]),
        turn(0, [0.98]),
        turn(1, [0.1, 0.1, 0.1], StopReason.TERMINATED),
        turn(-1, [0.7]),
        turn(3, [0.5, 1.5], stop),
    )


def select(rule: str, of: TrajectoryTree, budget: int, seed: int = 0, **options: float) -> list[Branch]:
    return branching_rule(rule, options).select(of, budget, np.random.default_rng(seed))


def test_topk_entropy_picks_the_turns_that_were_worked_out_by_hand():
    # Scores: .5-.05, .98, .1, .7-.05, 1.0 (the roots are one another's sibling). Picked: 4 (1.0), 1 (.98), 4 (.95), 1 (.93).
    picked = select("topk_entropy", two_roots(), 4)
    assert [branch.turn for branch in picked] == [4, 1, 4, 1]
    assert [branch.score for branch in picked] == pytest.approx([1.0, 0.98, 0.95, 0.93])


def test_sibling_penalty_spreads_the_forks_and_zero_does_not():
    assert [branch.turn for branch in select("topk_entropy", two_roots(), 3, sibling_penalty=0.0)] == [4, 4, 4]
    # With 1 nat: 4 (1.0), 1 (.98), then 2 (.1) before 4 (0), 1 (-.02), 3 (.7-1) and 0 (.5-1).
    assert [branch.turn for branch in select("topk_entropy", two_roots(), 4, sibling_penalty=1.0)] == [4, 1, 2, 4]


def test_the_penalty_counts_all_continuations_of_one_parent():
    # Turns 1 and 2 are siblings: .9-.05 and .88-.05 against .81. Choosing 1 takes .05 off both, so 3 comes before 2, and 1 before 2.
    grown = tree(turn(-1, [0.1]), turn(0, [0.9], StopReason.TRUNCATED), turn(0, [0.88]), turn(2, [0.81], StopReason.TRUNCATED))
    picked = select("topk_entropy", grown, 3)
    assert [branch.turn for branch in picked] == [1, 3, 1]
    assert [branch.score for branch in picked] == pytest.approx([0.85, 0.81, 0.8])


def test_entropy_is_a_mean_so_that_a_long_turn_is_not_uncertain_for_being_long():
    grown = tree(turn(-1, [0.2] * 50), turn(0, [0.3], StopReason.TERMINATED))
    assert select("topk_entropy", grown, 1)[0].turn == 1


def test_equal_scores_go_to_the_lower_index():
    grown = tree(turn(-1, [0.5]), turn(0, [0.5]), turn(1, [0.5], StopReason.TERMINATED))
    assert [branch.turn for branch in select("topk_entropy", grown, 4)] == [0, 1, 2, 0]


def test_random_draws_every_turn_of_a_root_equally_often_and_states_the_chance():
    drawn = select("random", two_roots(), 20_000)
    counts = np.bincount([branch.turn for branch in drawn], minlength=5)
    for turns, chance in ((slice(0, 3), 1 / 3), (slice(3, 5), 1 / 2)):
        assert counts[turns].sum() == 10_000
        assert np.all(np.abs(counts[turns] - 10_000 * chance) < 5 * np.sqrt(10_000 * chance * (1 - chance)))
    assert {(branch.turn < 3, branch.score) for branch in drawn} == {(True, 1 / 3), (False, 1 / 2)}


def test_random_depends_on_its_generator_alone():
    assert select("random", two_roots(), 8, seed=1) == select("random", two_roots(), 8, seed=1)
    assert select("random", two_roots(), 8, seed=1) != select("random", two_roots(), 8, seed=2)


def test_none_never_forks():
    assert select("none", two_roots(), 9) == []


@pytest.mark.parametrize("rule", ["topk_entropy", "random"])
def test_only_turns_with_a_snapshot_sampled_tokens_and_a_sound_rollout_are_chosen(rule: str):
    grown = tree(
        turn(-1, [5.0], snapshot=None),
        turn(0, [0.1]),
        turn(1, [6.0], StopReason.ENV_ERROR),
        turn(1, [0.2], StopReason.TERMINATED),
        turn(-1, [7.0]),
        turn(4, [8.0], StopReason.STEP_TIMEOUT),
        turn(-1, [], StopReason.CONTEXT_LENGTH),
    )
    assert forkable_turns(grown) == [1, 3]
    assert {branch.turn for branch in select(rule, grown, 50)} == {1, 3}


@pytest.mark.parametrize("rule", BRANCHING_RULES)
def test_a_tree_without_forkable_turns_gives_no_forks(rule: str):
    assert select(rule, tree(turn(-1, [1.0], StopReason.ENV_ERROR)), 3) == []
    assert select(rule, tree(), 3) == []


@pytest.mark.parametrize("rule", ["topk_entropy", "random"])
def test_the_budget_is_the_number_of_forks(rule: str):
    assert [len(select(rule, two_roots(), budget)) for budget in (0, 1, 7)] == [0, 1, 7]


def test_rules_that_look_at_finished_rollouts_say_so():
    assert [name for name, rule in BRANCHING_RULES.items() if rule.decision is Decision.PROSPECTIVE] == ["none", "first_token"]


def test_unknown_names_and_options_are_errors_that_name_the_nearest():
    with pytest.raises(BranchingError, match="'topk_entropi'; did you mean topk_entropy"):
        branching_rule("topk_entropi")
    with pytest.raises(BranchingError, match="'sibling_penality'; did you mean sibling_penalty"):
        branching_rule("topk_entropy", {"sibling_penality": 0.1})
    with pytest.raises(BranchingError, match="'random' has no option 'sibling_penalty'; it takes none"):
        branching_rule("random", {"sibling_penalty": 0.1})
    for wrong in (-0.1, float("nan"), "much"):
        with pytest.raises(BranchingError, match="sibling_penalty is"):
            branching_rule("topk_entropy", {"sibling_penalty": wrong})  # pyright: ignore[reportArgumentType]
