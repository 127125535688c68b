"""What some estimators read beyond the rollouts is made from the exact solution plus noise, so that its quality is known.

It stands for what a run would have to learn or to buy: a critic, a teacher, a reference policy, a judge of turns. Noise is drawn per
node, so that rows of one turn agree; a critic's error is drawn per state and time, once for a process and policy, so that it does not
average out over groups. Axes: _O rows, _N nodes, _H turns, _X true states.
"""

import numpy as np

from benchmarks.truth.exact import Solution
from benchmarks.truth.process import FloatArray, Process
from benchmarks.truth.sample import Sample

CRITICS = {"good critic": 0.25, "poor critic": 1.0}
"""Standard deviation of a critic's error, in deviations of the exact value over the turns that are visited."""
_TEACHER_NOISE = 0.5
"""In nats."""
_GAIN_NOISE = 0.1
_CLIP = 0.02
"""A teacher's belief stays this far from 0 and 1."""
_WRONG_CITATIONS = 0.1
_CITED_SHARE = 0.25
_CRITIC_STREAM = 11

NOTES = {
    "gae": "critic = exact V(t, x) plus a fixed Gaussian error per state and time, of .25 (good) or 1 (poor) deviations of V over visits",
    "pvpo": "anchor = exact J of the start policy",
    "agent_opsd": f"teacher's gap = change of the logit of the exact value, plus Gaussian noise of {_TEACHER_NOISE} nats",
    "igpo": f"information gain = change of the exact value, plus Gaussian noise of {_GAIN_NOISE}",
    "mt_grpo, gdpo": f"process reward = change of the exact value, plus Gaussian noise of {_GAIN_NOISE}",
    "self_credit": f"cited = |A| is in its top quarter over visits, wrong for a share of {_WRONG_CITATIONS}",
    "at2po, empg": "entropy = that of the policy in the true state",
}
"""Where the inputs that a process does not have come from."""


def critics(process: Process, solution: Solution, seed: int) -> dict[str, FloatArray]:
    """Values that a critic of each quality gives, shape (H, X); by quality."""
    visits_HX = solution.visitation_HX / solution.length
    mean = float((visits_HX * solution.value_HX).sum())
    spread = np.sqrt((visits_HX * (solution.value_HX - mean) ** 2).sum())
    error_HX = np.random.default_rng([seed, _CRITIC_STREAM]).standard_normal(solution.value_HX.shape)
    return {name: solution.value_HX + share * spread * error_HX for name, share in CRITICS.items()}


def beliefs(solution: Solution, sample: Sample) -> tuple[FloatArray, FloatArray]:
    """What a rollout can expect to earn in all, before and after each turn; each shape (O,), rows of one node equal to the last bit.

    After a last turn that is its outcome: at an end nothing more is to come, and at the turn limit neither.
    """
    earned_O = np.cumsum(sample.reward_O) - sample.reward_O
    earned_O -= np.repeat(earned_O[sample.start_R], sample.length_R)
    before_O = earned_O + solution.value_HX[sample.time_O, sample.state_O]
    ahead_HX = np.append(solution.value_HX[1:], np.zeros((1, solution.value_HX.shape[1])), axis=0)
    after_O = earned_O + sample.reward_O + ahead_HX[sample.time_O, sample.next_state_O]
    # What was earned before is the same for all rows of a node but for rounding.
    first_N = np.unique(sample.node_O, return_index=True)[1]
    return before_O[first_N][sample.node_O], after_O[first_N][sample.node_O]


def inputs(
    process: Process, solution: Solution, sample: Sample, rng: np.random.Generator
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """The optional fields of the turns, and the named parts of their rewards; columns of shape (O,)."""
    nodes = int(sample.node_O.max(initial=-1)) + 1
    noise = lambda: rng.standard_normal(nodes)[sample.node_O]  # noqa: E731
    before_O, after_O = beliefs(solution, sample)
    judged_O = after_O - before_O + _GAIN_NOISE * noise()
    last_O = np.zeros(len(before_O), dtype=np.bool_)
    last_O[sample.start_R + sample.length_R - 1] = True
    extra = {
        "entropy": sample.entropy_O,
        "next_value": np.zeros(len(before_O)),
        "truncated": (last_O & ~process.terminal_X[sample.next_state_O]).astype(np.float64),
        "anchor": np.full(len(before_O), solution.value),
        "teacher_logprob_gap": _logit(after_O) - _logit(before_O) + _TEACHER_NOISE * noise(),
        "information_gain": judged_O,
        "cited": _cited(solution, sample, rng.random(nodes) < _WRONG_CITATIONS),
    }
    return extra, {"task": sample.reward_O, "process": judged_O}


def _logit(value_O: FloatArray) -> FloatArray:
    belief_O = np.clip(value_O, _CLIP, 1 - _CLIP)
    return np.log(belief_O / (1 - belief_O))


def _cited(solution: Solution, sample: Sample, wrong_N: np.ndarray) -> FloatArray:
    size_O = np.abs(solution.advantage_HXK[sample.time_O, sample.state_O, sample.action_O])
    return ((size_O > np.quantile(size_O, 1 - _CITED_SHARE)) != wrong_N[sample.node_O]).astype(np.float64)
