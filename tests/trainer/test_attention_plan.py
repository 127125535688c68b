"""Blocks hold every query once, with exactly the keys on its path, whatever the shape of the tree and the window."""

import numpy as np
import pytest
import torch

from trainer.attention_plan import AttentionPlan


def random_plan(seed: int, segments: int, longest: int) -> AttentionPlan:
    """Depth first: the next segment hangs below the last one or one of its ancestors."""
    rng = np.random.default_rng(seed)
    parents: list[int] = []
    path = [-1]
    for index in range(segments):
        parent = path[int(rng.integers(max(0, len(path) - 3), len(path)))] if rng.random() < 0.9 else path[0]
        parents.append(parent)
        path = [*path[: path.index(parent) + 1], index]
    return AttentionPlan(parents, rng.integers(1, longest, size=segments).tolist())


def ancestors(plan: AttentionPlan) -> list[list[int]]:
    """For each token, the tokens on its path up to itself, from the segments alone."""
    ends: list[list[int]] = []
    seen: list[list[int]] = []
    for parent, length in zip(plan.parents, plan.lengths, strict=True):
        path = ends[parent] if parent >= 0 else []
        for _ in range(length):
            path = [*path, len(seen)]
            seen.append(path)
        ends.append(path)
    return seen


PLANS = [(12, 6), (40, 2), (5, 90), (1, 400), (30, 40)]


@pytest.mark.parametrize("window", [None, 1, 2, 17, 10_000])
@pytest.mark.parametrize(("segments", "longest"), PLANS)
@pytest.mark.parametrize("seed", range(3))
def test_each_query_sees_its_path_within_the_window_and_nothing_else(seed, segments, longest, window):
    plan = random_plan(seed, segments, longest)
    expected = [path[-(window or len(path)) :] for path in ancestors(plan)]
    seen: list[list[int]] = []
    for block in plan.blocks(window):
        assert block.queries[0] == len(seen) and block.query_count > 0
        keys = torch.cat([torch.arange(*span) for span in block.keys])
        assert len(keys) == block.key_count and len(set(keys.tolist())) == len(keys)
        mask = plan.mask(block, torch.zeros(1), window)
        causal = torch.triu(torch.full((block.query_count, block.query_count), -torch.inf), 1)
        mask = causal if mask is None else mask
        assert set(mask.unique().tolist()) <= {0.0, -torch.inf}
        seen += [keys[row == 0].tolist() for row in mask]
    assert seen == expected


def test_a_window_as_long_as_the_longest_path_is_none():
    plan = random_plan(0, 12, 6)
    assert plan.blocks(plan.longest_path) is plan.blocks(None) and plan.blocks(plan.longest_path - 1) is not plan.blocks(None)


def test_blocks_of_a_windowed_layer_bring_few_keys():
    plan = AttentionPlan([-1], [4000])
    assert max(block.key_count - block.query_count for block in plan.blocks(100)) == 99


def test_many_small_segments_take_few_calls():
    plan = AttentionPlan([-1] + [0] * 300, [200] + [3] * 300)
    assert len(plan.blocks()) < 20


def test_a_chain_is_brought_without_a_copy():
    plan = AttentionPlan([-1, 0, 1, 1], [100, 200, 300, 50])
    assert [len(block.keys) for block in plan.blocks() if block.queries[1] <= 600] == [1] * sum(b.queries[1] <= 600 for b in plan.blocks())
    assert plan.blocks()[-1].keys == ((0, 300), (600, 650))


def test_masks_take_memory_of_the_longest_path_alone():
    plan = AttentionPlan([-1, 0, 0], [20_000, 5_000, 5_000])
    masks = [plan.mask(block, torch.zeros(1)) for block in plan.blocks() if block.plain]
    storages = {mask.untyped_storage().data_ptr(): mask.untyped_storage().nbytes() for mask in masks if mask is not None}
    assert len(masks) > 40 and sum(storages.values()) < 0.01 * 4 * plan.tokens**2
