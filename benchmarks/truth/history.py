"""A policy with a memory is a tabular policy in a process whose states hold the last action as well; signatures do not show it."""

from dataclasses import replace

import numpy as np

from benchmarks.truth.process import Process


def with_last_action(process: Process) -> Process:
    """The same process with states (x, last action), numbered x times the number of actions plus the action; signatures as before.

    The last action changes nothing of what follows, but a policy can choose by it, so that values differ within a signature. Before the
    first turn it counts as action 0.
    """
    actions = process.actions
    next_XKM = process.next_XKM * actions + np.arange(actions)[:, None]
    return replace(
        process,
        name=f"{process.name}_history",
        doc=f"{process.doc}; the policy sees its last action, signatures do not",
        next_XKM=np.repeat(next_XKM, actions, axis=0),
        prob_XKM=np.repeat(process.prob_XKM, actions, axis=0),
        reward_XKM=np.repeat(process.reward_XKM, actions, axis=0),
        terminal_X=np.repeat(process.terminal_X, actions),
        start=process.start * actions,
        signature_X=np.repeat(process.signature_X, actions),
        habit_XK=np.repeat(process.habit_XK, actions, axis=0),
        tags=(process.tags - {"exact"}) | {"misleading"},
    )
