"""What is not well formed is refused by name; what is small, long, empty or unanimous works."""

import importlib
import pickle
from dataclasses import MISSING, dataclass, fields
from functools import cache

import numpy as np
import pytest
from full_turns import filled

from credit import (
    Batch,
    CreditError,
    Estimator,
    EstimatorError,
    GroupError,
    LoneRolloutError,
    SettingError,
    Turn,
    UnknownMethodError,
    estimate,
    methods,
    register_estimator,
    resolve,
    settings_for,
)
from credit import advantages as advantages_of
from credit.reader import OPTIONAL
from credit.settings import Settings, integer

METHODS = list(methods())
UNANIMOUS = [method for method in METHODS if not resolve(method, {}).judges_turns]
"""The methods that promise 0 where all outcomes are equal."""
MEDIAN = {"gapo", "mc_grpo"}
"""The methods whose baseline is one of the outcomes: rollouts with that outcome get 0."""


def one_turn(*outcomes: float) -> list[list[Turn]]:
    return filled([[Turn("s", f"a{i}", "e", outcome)] for i, outcome in enumerate(outcomes)])


def walk(rng: np.random.Generator, turns: int, outcome: float) -> list[Turn]:
    rollout = [Turn(f"s{rng.integers(9)}", f"a{rng.integers(3)}", f"s{rng.integers(9)}", outcome * (t == turns - 1)) for t in range(turns)]
    return filled([rollout])[0]


def test_full_turns_lack_nothing():
    rollout = filled([[Turn("s", i, "e", 0.0)] for i in range(2)] + [[Turn("s", 0, i, 0.0)] for i in range(9)])
    optional = {field.name: field.default for field in fields(Turn) if field.default is not MISSING and field.name != "node"}
    for name, default in optional.items():
        assert any(getattr(turn, name) != default for (turn,) in rollout), name


def test_methods_are_listed_with_a_line_each():
    assert set(METHODS) >= {"dr_grpo", "gigpo", "grpo", "rloo", "rtmc", "salt", "tree_mc"}
    assert set(METHODS) >= {"agent_opsd", "empg", "gae", "igpo", "mt_grpo", "self_credit"}
    assert sorted(METHODS) == METHODS
    assert all(doc and "\n" not in doc for doc in methods().values())


@pytest.mark.parametrize("method", UNANIMOUS)
@pytest.mark.parametrize("outcome", [0.0, 1.0, -3.7, 1e12, 1e-12])
def test_unanimous_group_gives_exactly_zero(method, outcome):
    rng = np.random.default_rng(0)
    rollouts = [walk(rng, turns, outcome) for turns in (1, 5, 9, 2)]
    variants = {"rtmc": [{"normalise": True}, {"gamma": 0.5}, {"n_p": 0}], "gigpo": [{"mode": "mean_std"}], "grpo": [{"ddof": 0}]}
    for settings in [{}, *variants.get(method, [])]:
        for advantages in estimate(rollouts, method, **settings):
            assert advantages.tolist() == [0.0] * len(advantages)


@pytest.mark.parametrize("method", UNANIMOUS)
@pytest.mark.parametrize("scale", [1.0, 1e12 / 7, 1e-12])
def test_outcomes_that_differ_by_rounding_are_unanimous(method, scale):
    parts = [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.6], [0.1] * 6, [0.7, -0.1]]
    rollouts = filled([[Turn(t, i, t + 1, part * scale) for t, part in enumerate(row)] for i, row in enumerate(parts)])
    assert len({sum(turn.reward for turn in rollout) for rollout in rollouts}) > 1
    for advantages in estimate(rollouts, method):
        assert advantages.tolist() == [0.0] * len(advantages)


def test_a_small_difference_between_large_outcomes_is_not_rounding():
    np.testing.assert_allclose(np.concatenate(estimate(one_turn(1e15, 1e15 + 1, 1e15 + 1), "dr_grpo")), [-2 / 3, 1 / 3, 1 / 3], atol=1e-12)


def test_rounding_within_a_state_is_not_blown_up_by_its_deviation():
    """In state t two returns differ in the last bit only, by more than the eps of the deviation; the group is not unanimous."""
    slow, fast = [1e11 / 7] * 10, [1e12 / 7]
    assert 1e-5 < abs(sum(slow) - sum(fast)) < 1e-3
    rollouts = [[Turn("t" if t == 0 else (i, t), "a", "e", part) for t, part in enumerate(row)] for i, row in enumerate((slow, fast))]
    rollouts.append([Turn("x", "a", "e", 0.0)])
    episode, both = (estimate(rollouts, "gigpo", mode="mean_std", **settings) for settings in ({"omega": 0}, {"gamma": 1.0}))
    assert both[0][0] == episode[0][0] and both[1][0] == episode[1][0]


@pytest.mark.parametrize("method", METHODS)
def test_group_of_one_is_an_error_unless_the_method_has_another_baseline(method):
    for rollouts in (one_turn(1.0), [*one_turn(1.0), []]):
        if resolve(method, {}).lone:
            assert np.isfinite(estimate(rollouts, method)[0]).all()
        else:
            with pytest.raises(LoneRolloutError, match="at least two"):
                estimate(rollouts, method)


def test_group_of_one_with_a_prior_is_zero_and_without_one_an_error():
    assert estimate(one_turn(1.0), "rtmc")[0].tolist() == [0.0]
    with pytest.raises(LoneRolloutError, match="at least two"):
        estimate(one_turn(1.0), "rtmc", n_p=0)


@pytest.mark.parametrize("method", METHODS)
def test_one_tree_of_one_root_is_no_group_of_one(method):
    root = Turn("s", "go", "m", 0.0, node=0)
    advantages = estimate(filled([[root, Turn("m", "l", "e", 1.0)], [root, Turn("m", "r", "e", 0.0)]]), method)
    assert advantages[0][1] > 0 > advantages[1][1] or (method in MEDIAN and advantages[0][1] > 0 >= advantages[1][1])
    if method in UNANIMOUS and method not in MEDIAN:
        # Shaping may give one of the two a little more than the other.
        assert advantages[0][1] == pytest.approx(-advantages[1][1], abs=0.2)


@pytest.mark.parametrize("method", METHODS)
def test_turns_of_length_one(method):
    advantages = np.concatenate(estimate(one_turn(1.0, 0.0, 0.0), method))
    assert advantages.shape == (3,)
    assert advantages[0] > 0 > advantages[1] or (method in MEDIAN and advantages[0] > 0 == advantages[1])
    assert advantages[1] == pytest.approx(advantages[2])


@pytest.mark.parametrize("method", METHODS)
def test_rollouts_without_turns_count_nowhere(method):
    rollouts = one_turn(1.0, 0.0, 0.0)
    with_empty = estimate([[], rollouts[0], [], *rollouts[1:], []], method)
    assert [len(advantages) for advantages in with_empty] == [0, 1, 0, 1, 1, 0]
    np.testing.assert_array_equal(np.concatenate(with_empty), np.concatenate(estimate(rollouts, method)))
    assert estimate([], method) == []
    assert [advantages.shape for advantages in estimate([[], []], method)] == [(0,), (0,)]


@cache
def large_groups() -> list[Batch]:
    """Rollouts of 2,000 turns and one of one turn; 512 rollouts."""
    rng = np.random.default_rng(3)
    long = [walk(rng, turns, float(i % 2)) for i, turns in enumerate((2000, 1, 2000, 1500))]
    wide = [walk(rng, 4, float(rng.integers(2))) for _ in range(512)]
    return [Batch.read([rollouts], needs=OPTIONAL | {"rewards"}) for rollouts in (long, wide)]


@pytest.mark.parametrize("method", METHODS)
def test_long_rollouts_and_large_groups(method):
    for batch in large_groups():
        given = advantages_of(batch, resolve(method, {}))
        assert given.shape == batch.reward_O.shape and np.isfinite(given).all() and given.any()


def test_rtmc_counts_the_first_visit_of_a_cycle_only():
    around = [Turn("s", "turn", "s", 0.0), Turn("s", "turn", "s", 0.0), Turn("s", "leave", "e", 1.0)]
    straight = [Turn("s", "leave", "e", 0.0)]
    # gamma .5: Q(turn) = .25 from the first visit alone, Q(leave) = (1 + 0) / 2, V = (.25 + 2 * .5) / 3.
    advantages = estimate([around, straight], "rtmc", gamma=0.5, n_p=0)
    value = 1.25 / 3
    np.testing.assert_allclose(np.concatenate(advantages), [0.25 - value, 0.25 - value, 0.5 - value, 0.5 - value], atol=1e-12)


def test_salt_history_tells_a_short_past_from_a_long_one():
    tail = Turn("m", "x", "e", 0.0)
    won = [Turn("s", "a", "m", 0.0), Turn("m", "x", "e", 1.0)]
    rollouts = [won, [tail], [Turn("r", "a", "m", 0.0), tail], won]
    merged, apart, further = (estimate(rollouts, "salt", history=history, ddof=0) for history in (0, 1, 9))
    assert merged[1][0] == pytest.approx(0.0, abs=1e-9) and merged[0][1] == pytest.approx(0.0, abs=1e-9)
    assert apart[0][1] == pytest.approx(1.0, abs=1e-5) and apart[1][0] == pytest.approx(-1.0, abs=1e-5)
    np.testing.assert_array_equal(np.concatenate(further), np.concatenate(apart))


def test_mappings_and_turns_are_the_same(e1):
    rows = [[{"state": t.state, "action": t.action, "next_state": t.next_state, "reward": t.reward} for t in rollout] for rollout in e1]
    np.testing.assert_array_equal(np.concatenate(estimate(rows)), np.concatenate(estimate(iter(map(tuple, e1)))))


def test_numbers_of_any_kind_are_rewards():
    rewards = [1, True, np.float32(1), np.int64(0), np.bool_(False), 0.0]
    advantages = estimate([[Turn("s", "a", "e", reward)] for reward in rewards], "dr_grpo")
    assert np.concatenate(advantages).tolist() == [0.5, 0.5, 0.5, -0.5, -0.5, -0.5]


GOOD = {"state": "s", "action": "a", "next_state": "e", "reward": 0.0}


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        (GOOD | {"reward": float("nan")}, "turn 0 of rollout 2 has reward nan"),
        (GOOD | {"reward": float("inf")}, "reward inf"),
        (GOOD | {"reward": -1e101}, r"at most 1e\+100"),
        (GOOD | {"reward": 10**400}, "finite number"),
        (GOOD | {"reward": "1"}, "reward '1'"),
        (GOOD | {"reward": None}, "reward None"),
        (GOOD | {"reward": 1j}, "reward 1j"),
        (GOOD | {"reward": np.zeros(1)}, "reward"),
        (GOOD | {"nodes": 3}, "unknown field 'nodes'; did you mean 'node'"),
        (GOOD | {"node": "3"}, "node '3'"),
        (GOOD | {"node": True}, "node True"),
        (GOOD | {"node": 1.0}, "node 1.0"),
        (GOOD | {"state": ["s"]}, "state cannot be a dictionary key"),
        (GOOD | {"action": {}}, "action cannot be a dictionary key"),
        ({"state": "s", "action": "a"}, "lacks next_state, reward"),
        (("s", "a", "e", 0.0), "turn 0 of rollout 2 is a tuple"),
    ],
)
def test_malformed_turns_are_named(turn, message):
    with pytest.raises(GroupError, match=message):
        estimate([*one_turn(1.0), [], [turn]], "grpo")


@pytest.mark.parametrize(
    "rollouts", [None, 3, "abc", Turn("s", "a", "e", 0.0), {"a": 1}, [Turn("s", "a", "e", 0.0)], [GOOD], ["abc"], [None]]
)
def test_input_of_another_shape(rollouts):
    with pytest.raises(GroupError, match="sequence of"):
        estimate(rollouts, "grpo")


def test_unknown_names_name_the_nearest():
    with pytest.raises(UnknownMethodError, match=r"did you mean 'rtmc'.*valid: agent_opsd, "):
        estimate(one_turn(1, 0), "rtcm")
    with pytest.raises(UnknownMethodError, match="valid"):
        estimate(one_turn(1, 0), ["grpo"])  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="'rtmc' has no setting 'gama'; did you mean 'gamma'"):
        estimate(one_turn(1, 0), "rtmc", gama=1)
    with pytest.raises(SettingError, match=r"'dr_grpo' has no setting 'eps'.*none"):
        estimate(one_turn(1, 0), "dr_grpo", eps=1)
    with pytest.raises(SettingError, match="weighting is 'paths'; did you mean 'path'"):
        estimate(one_turn(1, 0), "grpo", weighting="paths")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("rtmc", {"gamma": 1.5}, "'rtmc': gamma is 1.5; allowed is a number of at least 0 and at most 1"),
        ("rtmc", {"gamma": float("nan")}, "gamma is nan"),
        ("rtmc", {"gamma": "0.9"}, "gamma is '0.9'"),
        ("rtmc", {"gamma": True}, "gamma is True"),
        ("rtmc", {"n_p": -1}, "n_p is -1; allowed is a number of at least 0"),
        ("rtmc", {"n_p": float("inf")}, "n_p is inf"),
        ("rtmc", {"normalise": 1}, "normalise is 1; allowed is True or False"),
        ("grpo", {"ddof": 2}, "ddof is 2; allowed is an integer of at least 0 and at most 1"),
        ("grpo", {"ddof": 1.0}, "ddof is 1.0"),
        ("grpo", {"eps": 0}, "eps is 0; allowed is a number above 0"),
        ("grpo", {"normalise": False, "ddof": 0}, "ddof is 0, but has no effect with normalise=False"),
        ("grpo", {"normalise": False, "eps": 1.0}, "eps is 1.0, but has no effect"),
        ("salt", {"base": "gae"}, "base is 'gae'; allowed is 'grpo' or 'rloo'"),
        ("salt", {"history": -1}, "history is -1; allowed is an integer of at least 0"),
        ("salt", {"base": "rloo", "ddof": 0}, "ddof is 0, but has no effect with base='rloo'"),
        ("gigpo", {"mode": "std"}, "mode is 'std'; allowed is 'mean' or 'mean_std'"),
        ("gigpo", {"similarity": 0}, "similarity is 0; allowed is a number above 0 and at most 1 or None"),
        ("gigpo", {"omega": -0.1}, "omega is -0.1"),
        ("tree_mc", {"group_weight": -1}, "group_weight is -1"),
    ],
)
def test_settings_out_of_range(method, settings, message):
    with pytest.raises(SettingError, match=message):
        settings_for(method, **settings)


def test_similarity_needs_text():
    with pytest.raises(GroupError, match="state 1 is a int"):
        estimate([[Turn(1, "a", 2, 0.0)], [Turn(1, "b", 2, 1.0)]], "gigpo", similarity=0.5)


def test_errors_survive_pickling_and_end_the_command_line_with_2():
    for kind in (CreditError, EstimatorError, GroupError, LoneRolloutError, SettingError, UnknownMethodError):
        error = pickle.loads(pickle.dumps(kind("what was wrong")))
        assert type(error) is kind and str(error) == "what was wrong" and error.exit_code == 2 and isinstance(error, CreditError)
    assert issubclass(SettingError, ValueError) and issubclass(UnknownMethodError, LookupError)


def test_settings_and_turns_cannot_be_changed():
    with pytest.raises(AttributeError):
        settings_for("rtmc").gamma = 2.0
    with pytest.raises(AttributeError):
        Turn("s", "a", "e", 0.0).reward = 1.0  # type: ignore[misc]


@pytest.fixture
def own_table(monkeypatch):
    """Registrations of one test do not reach the next."""
    module = importlib.import_module("credit.registry")
    monkeypatch.setattr(module, "_TABLE", dict(module._TABLE))


@dataclass(frozen=True)
class PowerSettings(Settings):
    power: int = integer(1, 1)


@pytest.mark.usefixtures("own_table")
def test_registering_an_estimator():
    def signed_power(group: Batch, settings: PowerSettings) -> np.ndarray:
        return group.outcome_R[group.rollout_O] ** settings.power

    register_estimator("signed_power", Estimator(PowerSettings, signed_power, "outcome to a power"))
    assert methods()["signed_power"] == "outcome to a power"
    assert [float(a[0]) for a in estimate(one_turn(2, 3), "signed_power", power=2)] == [4.0, 9.0]
    with pytest.raises(SettingError, match="power is 0"):
        estimate(one_turn(2, 3), "signed_power", power=0)
    with pytest.raises(EstimatorError, match="registered already"):
        register_estimator("grpo", Estimator(PowerSettings, signed_power, ""))
    with pytest.raises(EstimatorError, match="dataclass"):
        register_estimator("other", Estimator(dict, signed_power, ""))


@pytest.mark.usefixtures("own_table")
def test_an_estimator_that_breaks_its_contract_is_caught():
    register_estimator("short", Estimator(Settings, lambda group, settings: np.zeros(1), "a wrong shape"))
    register_estimator("nan", Estimator(Settings, lambda group, settings: group.reward_O * np.nan, "no number"))
    with pytest.raises(EstimatorError, match=r"shape \(1,\) for 2 rows"):
        estimate(one_turn(1, 0), "short")
    with pytest.raises(EstimatorError, match="not finite"):
        estimate(one_turn(1, 0), "nan")


def test_bases_that_nest_without_end_are_refused():
    endless: dict[str, object] = {"method": "empg"}
    endless["base"] = endless
    terms: list[object] = []
    terms.append({"method": "mix", "terms": terms})
    for method, settings in (("empg", {"base": endless}), ("mix", {"terms": terms})):
        with pytest.raises(SettingError, match="nested more than"):
            estimate(one_turn(1.0, 0.0), method, **settings)
    assert settings_for("empg", base={"method": "mix", "terms": ["grpo", {"method": "empg", "base": "rtmc"}]})


@pytest.mark.parametrize(("method", "settings"), [("rtmc", {"n_p": 10**400}), ("rtmc", {"gamma": 10**400})])
def test_integers_beyond_every_float_are_refused(method, settings):
    with pytest.raises(SettingError):
        settings_for(method, **settings)


@pytest.mark.usefixtures("own_table")
@pytest.mark.parametrize("name", [None, 3, "", "a b"])
def test_names_that_are_none_are_not_registered(name):
    with pytest.raises(EstimatorError, match="cannot be named"):
        register_estimator(name, Estimator(Settings, lambda batch, settings: batch.reward_O, "x"))
    with pytest.raises(EstimatorError, match=r"credit\.Estimator"):
        register_estimator("mine", lambda batch, settings: batch.reward_O)  # type: ignore[arg-type]
