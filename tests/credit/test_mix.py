"""A mix is the weighted sum of what its terms give alone, and asks for what they ask for."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from credit import (
    Batch,
    GroupError,
    LoneRolloutError,
    SettingError,
    Turn,
    UnknownMethodError,
    estimate,
    estimate_batch,
    needs,
    resolve,
    settings_for,
)


def flat(rollouts, method: str, **settings) -> np.ndarray:
    return np.concatenate(estimate(rollouts, method, **settings))


def anchored(rollouts: list[list[Turn]], anchor: float) -> list[list[Turn]]:
    return [[replace(turn, anchor=anchor) for turn in rollout] for rollout in rollouts]


def test_base_and_graph_by_hand(e1):
    # dr_grpo gives T1 .5 and T2 -.5; rtmc with gamma 1 and n_p 0 gives T1 1/6 1/6 1/3 and T2 -1/2 1/6 -2/3.
    terms = [{"method": "dr_grpo"}, {"method": "rtmc", "weight": 3, "gamma": 1.0, "n_p": 0}]
    given = estimate(e1, "mix", terms=terms)
    np.testing.assert_allclose(given[0], [1, 1, 1.5], atol=1e-12)
    np.testing.assert_allclose(given[1], [-2, 0, -2.5], atol=1e-12)


@pytest.mark.parametrize("weighting", ["path", "leaf"])
def test_a_mix_is_the_weighted_sum_of_its_terms(e1, weighting):
    fork = [replace(e1[0][0], node=0), *e1[0][1:]], [replace(e1[2][0], node=0), *e1[2][1:-1], replace(e1[2][2], reward=0.25)]
    for rollouts in (e1, [*fork, e1[1], e1[3]]):
        parts = [flat(rollouts, name, weighting=weighting) for name in ("grpo", "salt", "tree_mc")]
        given = flat(rollouts, "mix", weighting=weighting, terms={"grpo": 1.0, "salt": -0.5, "tree_mc": 2})
        np.testing.assert_allclose(given, parts[0] - 0.5 * parts[1] + 2 * parts[2], atol=1e-12)


def test_weights_are_one_unless_given_and_may_be_zero(e1):
    plain = flat(e1, "grpo") + flat(e1, "salt", history=1)
    np.testing.assert_allclose(flat(e1, "mix", terms=["grpo", {"method": "salt", "history": 1}]), plain)
    np.testing.assert_allclose(flat(e1, "mix", terms=("grpo", {"method": "salt", "weight": 0})), flat(e1, "grpo"))
    np.testing.assert_allclose(flat(e1, "mix", terms=["grpo", "grpo"]), 2 * flat(e1, "grpo"))
    np.testing.assert_allclose(flat(e1, "mix"), flat(e1, "dr_grpo") + flat(e1, "rtmc"))


def test_mixes_may_be_nested(e1):
    inner = {"method": "mix", "weight": 0.5, "terms": {"rloo": 1, "salt": 2}}
    expected = flat(e1, "grpo") + 0.5 * (flat(e1, "rloo") + 2 * flat(e1, "salt"))
    np.testing.assert_allclose(flat(e1, "mix", terms=["grpo", inner]), expected)


def test_terms_may_come_from_json_and_are_read_once(e1):
    text = '{"terms": [{"method": "grpo", "ddof": 0}, {"method": "mix", "terms": {"salt": 0.5}}]}'
    terms = json.loads(text)["terms"]
    settings = settings_for("mix", terms=terms)
    assert json.loads(text)["terms"] == terms
    assert replace(settings) == settings and pickle.loads(pickle.dumps(settings)) == settings
    np.testing.assert_allclose(flat(e1, "mix", terms=terms), flat(e1, "grpo", ddof=0) + 0.5 * flat(e1, "salt"))


def test_a_mix_needs_what_any_term_needs(e1):
    terms = {"gdpo": 1, "mix": 1, "pvpo": 1}
    assert needs("mix", terms=terms) == {"rewards", "anchor"}
    assert needs("mix", terms=[{"method": "mix", "terms": ["pvpo"]}, "grpo"]) == {"anchor"}
    assert needs("mix") == frozenset()
    with pytest.raises(GroupError, match="has no anchor"):
        estimate(e1, "mix", terms={"grpo": 1, "pvpo": 1})


def test_a_group_of_one_needs_every_term_to_allow_it(e1):
    alone = anchored(e1[:1], 0.25)
    np.testing.assert_allclose(flat(alone, "mix", terms=["rtmc", "pvpo"]), [0.75] * 3)
    with pytest.raises(LoneRolloutError, match="mix"):
        estimate(alone, "mix", terms=["pvpo", "grpo"])
    with pytest.raises(LoneRolloutError, match="mix"):
        estimate(alone, "mix", terms=["pvpo", {"method": "rtmc", "n_p": 0}])


def test_unanimous_groups_are_judged_by_the_terms_that_judge_turns(e1):
    won = anchored([e1[0], e1[2]], 0.25)
    given = estimate_batch([won, anchored(e1, 0.25)], "mix", terms={"rtmc": 5, "pvpo": 2})
    assert [row.tolist() for row in given[0]] == [[1.5] * 3] * 2
    np.testing.assert_allclose(np.concatenate(given[1]), 5 * flat(e1, "rtmc") + 2 * flat(anchored(e1, 0.25), "pvpo"), atol=1e-12)
    assert [row.tolist() for row in estimate(won, "mix", terms=[{"method": "mix", "terms": ["pvpo"]}])] == [[0.75] * 3] * 2
    assert resolve("mix", {"terms": ["rtmc", "pvpo"]}).judges_turns and not resolve("mix", {"terms": ["grpo", "rtmc"]}).judges_turns
    # rtmc with gamma < 1 would not give 0 here by its formula.
    assert [row.tolist() for row in estimate(won, "mix", terms=["grpo", "rtmc"])] == [[0.0] * 3] * 2


def test_diagnostics_are_those_of_the_terms():
    rollouts = [[Turn("s", i, "e", outcome)] for i, outcome in enumerate((1.0, 0.0, 0.0))]
    method = resolve("mix", {"terms": ["grpo", "mc_grpo", {"method": "mix", "terms": ["mc_grpo"]}]})
    assert method.diagnostics(Batch.read([rollouts])) == {"1.mc_grpo.mad_zero_groups": 1.0, "2.mix.0.mc_grpo.mad_zero_groups": 1.0}


@pytest.mark.parametrize(
    ("terms", "error", "message"),
    [
        ([], SettingError, r"terms is \[\]; give a list of terms"),
        ({}, SettingError, "give a list of terms"),
        ("grpo", SettingError, "terms is 'grpo'"),
        (3, SettingError, "terms is 3"),
        (None, SettingError, "terms is None"),
        ({"method": "grpo", "weight": 2}, SettingError, "terms is one term; put it into a list"),
        ([{"weight": 2}], SettingError, "a term is the name of a method, or a mapping with method"),
        ([3], SettingError, "terms has 3"),
        ({"grpo": "1"}, SettingError, "the weight of term 'grpo' is '1'; allowed is a number"),
        ({"grpo": True}, SettingError, "the weight of term 'grpo' is True"),
        ({"grpo": float("nan")}, SettingError, "the weight of term 'grpo' is nan"),
        ([{"method": "grpo", "weight": None}], SettingError, "the weight of term 'grpo' is None"),
        ([{"method": "grpo", "ddof": 2}], SettingError, "'grpo': ddof is 2"),
        ([{"method": "grpo", "history": 2}], SettingError, "'grpo' has no setting 'history'"),
        (["gropo"], UnknownMethodError, "did you mean 'grpo'"),
        ([{"method": ["grpo"]}], UnknownMethodError, "there is no method"),
        ([{"method": "mix", "terms": []}], SettingError, "'mix': terms is"),
    ],
)
def test_terms_that_are_none(terms, error, message):
    with pytest.raises(error, match=message):
        settings_for("mix", terms=terms)
