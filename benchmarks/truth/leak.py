"""What happens when two tasks are read as one group: their states are one, and each is judged by the mean of both. A fault, on purpose.

Axes: _O rows in the order of the cell, _X the same rows in the order in which the joint groups stand.
"""

import numpy as np

from benchmarks.truth.cell import Cell
from benchmarks.truth.process import FloatArray
from credit import Batch, resolve
from credit.moments import dense
from credit.reader import Columns


def leaking_advantages(cell: Cell, method: str) -> FloatArray:
    """Advantages where groups of equal place in draws 0 and 1, 2 and 3, ... are read as one task each; shape (O,)."""
    group_R = np.concatenate([sample.group_R for sample in cell.samples])
    draw_R = np.repeat(np.arange(len(cell.samples)), [len(sample.length_R) for sample in cell.samples])
    task_R = (draw_R // 2) * cell.each + group_R
    order_R = np.argsort(task_R, kind="stable")
    batch = cell.batch
    rows_X = np.argsort(np.argsort(order_R)[batch.rollout_O], kind="stable")
    signatures = [np.concatenate([getattr(s, name) for s in cell.samples]) for name in ("signature_O", "next_signature_O")]
    span = 1 + int(max(column.max() for column in signatures))
    code_2O = dense(np.concatenate([task_R[batch.rollout_O] * span + column for column in signatures])).reshape(2, -1)
    counts_T = np.bincount(task_R)
    lengths = [part.tolist() for part in np.split(batch.lengths_R[order_R], np.cumsum(counts_T)[:-1])]
    columns = Columns(
        lengths=lengths,
        states=list(range(int(code_2O.max()) + 1)),
        state_O=code_2O[0][rows_X],
        next_state_O=code_2O[1][rows_X],
        action_O=batch.action_O[rows_X],
        reward_O=batch.reward_O[rows_X],
        node_O=np.arange(len(rows_X)),
        rewards={},
        extra={name: column[rows_X] for name, column in batch.extra.items()},
    )
    advantage_O = np.empty(len(rows_X))
    advantage_O[rows_X] = resolve(method, {}).advantages(Batch.from_columns(columns))
    return advantage_O
