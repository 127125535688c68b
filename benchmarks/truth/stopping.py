"""The policy ends the episode itself: what it has collected is paid when it stops, and only then."""

import numpy as np

from benchmarks.truth.process import Process

_MOST = 10
_ACTIONS = 3
_RELUCTANCE = 1.5
"""Nats by which the start policy shies from stopping, so that episodes last for some turns."""


def collect_or_stop(name: str, doc: str, seed: int) -> Process:
    """States are what has been collected, 0 to 10 tenths. Actions: stop; collect one more; collect two more.

    Collecting loses all and ends the episode with a risk that the seed draws for each state and action: 1 to 15 per cent for one more,
    5 to 30 for two. At the turn limit nothing is paid. Rollouts that are still going are those that chose to be, so a baseline that
    compares turns of equal index compares with the survivors only.
    """
    rng = np.random.default_rng(seed)
    stopped, lost = _MOST + 1, _MOST + 2
    states = _MOST + 3
    next_XKM = np.tile(np.arange(states)[:, None, None], (1, _ACTIONS, 2))
    prob_XKM = np.tile([1.0, 0.0], (states, _ACTIONS, 1))
    reward_XKM = np.zeros(next_XKM.shape)
    habit_XK = np.zeros((states, _ACTIONS))
    habit_XK[:, 0] = -_RELUCTANCE
    held_X = np.arange(_MOST + 1)
    next_XKM[held_X, 0] = stopped
    reward_XKM[held_X, 0] = held_X[:, None] / _MOST
    for action, (least, most) in ((1, (0.01, 0.15)), (2, (0.05, 0.30))):
        risk_X = rng.uniform(least, most, size=_MOST + 1)
        next_XKM[held_X, action] = np.stack([np.minimum(held_X + action, _MOST), np.full(_MOST + 1, lost)], axis=1)
        prob_XKM[held_X, action] = np.stack([1 - risk_X, risk_X], axis=1)
    return Process(
        name=name,
        doc=doc,
        next_XKM=next_XKM,
        prob_XKM=prob_XKM,
        reward_XKM=reward_XKM,
        terminal_X=np.arange(states) > _MOST,
        start=0,
        horizon=12,
        signature_X=np.arange(states),
        habit_XK=habit_XK,
        tags=frozenset({"exact", "merges", "stopping", "stochastic", "idle", "cyclic"}),
    )
