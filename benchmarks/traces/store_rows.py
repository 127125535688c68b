"""What it costs to record trees, to find one among many, and to read it; and how large the file is."""

import gzip
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from benchmarks.report import Row, factor, measured
from benchmarks.traces.recorded import TreeMaker
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_query import TreeQuery

ASKED_RATE, ASKED_LIST_S, ASKED_SIZE = 20_000, 1.0, 1.3
_REPEATS = 5


def record_rows(folder: Path, trees: int, batches: int) -> Iterator[Row]:
    """Recording iterations of trees as training does, against a line of JSON per tree in a gzip file, each synchronised to the disk."""
    made = list(TreeMaker().trees(trees, 75, 6))
    advantages = [np.random.default_rng(0).normal(size=len(tree.turns)) for tree in made]
    turns = sum(len(tree.turns) for tree in made)
    ours, lines = [], []
    for batch in range(batches):
        with Trace.create(folder / f"record{batch}.sqlite", {}) as trace:
            begin = time.perf_counter()
            trace.append(made, 1, advantages)
            ours.append(turns / (time.perf_counter() - begin))
        begin = time.perf_counter()
        with gzip.open(folder / f"record{batch}.jsonl.gz", "wb", compresslevel=1) as file:
            for tree in made:
                file.write(_line(tree))
        descriptor = os.open(folder / f"record{batch}.jsonl.gz", os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        lines.append(turns / (time.perf_counter() - begin))
    note = f"{trees} trees, {turns} turns in one commit; baseline: JSON lines in gzip, without digests; asked: {ASKED_RATE:,}"
    yield measured("turns recorded a second", ours, "turns/s", better="higher", baseline=lines, note=note)
    size = float((folder / "record0.sqlite").stat().st_size)
    content = float(sum(len(zstandard.compress(_content(tree))) for tree in made))
    yield Row(
        "size of a trace", size, "bytes", content, factor(size, content, "lower"),
        f"{turns} turns; baseline: texts, arrays and rows of each tree in one zstd frame; asked: at most {ASKED_SIZE} times",
    )  # fmt: skip


def find_rows(folder: Path, trees: int, turns: int) -> Iterator[Row]:
    """Opening a long trace and finding trees in it, each time in a connection of its own."""
    path = folder / "long.sqlite"
    maker = TreeMaker()
    with Trace.create(path, {}) as trace:
        batch: list[TrajectoryTree] = []
        for number, tree in enumerate(maker.trees(trees, turns, 2), 1):
            batch.append(tree)
            if len(batch) == 500 or number == trees:
                trace.append(batch, number // 500, [np.ones(len(one.turns)) * number for one in batch])
                batch = []
    about = f"{trees:,} trees, {trees * turns:,} turns, {path.stat().st_size / 2**20:.0f} MiB"
    questions: Sequence[tuple[str, dict[str, Any]]] = (
        ("open and list", {}),
        ("open, and find by a condition", {"where": "mixed and depth > 2", "sort": "advantage_range"}),
        ("open, and find by a text", {"text": "microwave 1"}),
    )
    for name, question in questions:
        query = TreeQuery.of(question.get("where"), question.get("sort"))
        seconds = [_timed(lambda query=query, question=question: _found(path, query, question.get("text"))) for _ in range(_REPEATS)]
        asked = f"; asked: under {ASKED_LIST_S:g} s" if name == "open and list" else ""
        yield measured(f"{name}, 200 rows of all", seconds, "s", better="lower", note=about + asked)
    rng = np.random.default_rng(0)
    reads = [_timed(lambda: _read(path, int(rng.integers(1, trees + 1)))) for _ in range(_REPEATS * 4)]
    yield measured("open and read one tree", [1e3 * read for read in reads], "ms", better="lower", note=f"{about}; every digest compared")


def _found(path: Path, query: TreeQuery, text: str | None) -> None:
    with Trace.open(path, readonly=True) as trace:
        trace.find(query, text, 200)


def _read(path: Path, tree_id: int) -> None:
    with Trace.open(path, readonly=True) as trace:
        trace.tree(tree_id)


def _timed(call: Any) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _line(tree: TrajectoryTree) -> bytes:
    turns = [{name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in _fields(turn)} for turn in tree.turns]
    return json.dumps({"env": tree.env_id, "seed": tree.seed, "turns": turns}).encode() + b"\n"


def _content(tree: TrajectoryTree) -> bytes:
    """All that a tree holds, arrays as bytes, rows as text."""
    parts = []
    for turn in tree.turns:
        rows = [value for _, value in _fields(turn) if not isinstance(value, np.ndarray)]
        parts += [json.dumps(rows).encode(), *(value.tobytes() for _, value in _fields(turn) if isinstance(value, np.ndarray))]
    return b"".join(parts)


def _fields(turn: Any) -> list[tuple[str, Any]]:
    return [(name, asdict(value) if name == "origin" and value else value) for name, value in _values(turn)]


def _values(turn: Any) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(turn, name)) for name in turn.__dataclass_fields__ if name != "snapshot")
