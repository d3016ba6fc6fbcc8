"""Joint batches from shards of different length, and summaries of shards."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from legendretron.streaming import Batch, BlockSource, as_source, scan
from legendretron.streaming.scan import merge_summaries
from legendretron.training.batches import Rows, StreamBatches


def batches_of(sizes, batch_size, mine=None, endless=False):
    """Batches of the numbers of the rows; of some shards, as one of several processes has them."""

    def passes(shard):
        numbers = np.arange(sum(sizes[:shard]), sum(sizes[: shard + 1]))
        return lambda number: iter([Rows(numbers[:, None].astype(float), numbers, np.ones(len(numbers)))])

    generators = [torch.Generator().manual_seed(shard) for shard in range(len(sizes))]
    return StreamBatches(
        {shard: passes(shard) for shard in (range(len(sizes)) if mine is None else mine)}, sizes, batch_size,
        window=10, generators=generators, shuffle=True, endless=endless, n_features=1, sparse=False,
        dtype=torch.float64, device=torch.device("cpu"),
    )  # fmt: skip


@given(st.lists(st.integers(1, 200), min_size=1, max_size=6), st.integers(1, 300))
def test_every_row_is_in_one_joint_batch(sizes, batch_size):
    batches, seen, taken = batches_of(sizes, batch_size), [], 0
    assert batches.n_steps == -(-sum(sizes) // min(batch_size, sum(sizes)))
    while taken < batches.n_steps:
        block = batches.take(batches.n_steps - taken)
        taken += len(block.rows)
        seen.append(block.labels.flatten())
        # as large as asked for, but for the rounding of each shard
        assert abs(block.n_rows - batches.size) < len(sizes) or taken == batches.n_steps
    assert torch.cat(seen).sort().values.tolist() == list(range(sum(sizes)))


@pytest.mark.parametrize("endless", [True, False])
def test_the_rows_of_all_processes_are_those_of_one(endless):
    sizes = [50, 33, 20]
    alone = batches_of(sizes, 16, endless=endless)
    others = [batches_of(sizes, 16, mine, endless) for mine in ([0, 2], [1])]
    for _ in range(20):
        whole, parts = alone.take(1), [other.take(1) for other in others]
        joint = torch.cat([part.labels.flatten() for part in parts])
        assert joint.sort().values.tolist() == whole.labels.flatten().sort().values.tolist()
        assert sum(float(part.weights.sum()) for part in parts) == pytest.approx(1.0)
        assert {part.n_rows for part in parts} == {whole.n_rows}


def make_source(n=90, seed=0):
    generator = np.random.default_rng(seed)
    X = 1e3 + generator.normal(size=(n, 3))
    return as_source((X, generator.choice(["a", "b", "c"], n), generator.uniform(0.0, 2.0, n)))


class Blocks(BlockSource):
    """Nine blocks of seven rows."""

    n_blocks = 9

    def read_block(self, block):
        numbers = np.arange(7 * block, 7 * (block + 1))
        yield Batch(np.zeros((7, 2)), numbers % 2, None, numbers)


@pytest.mark.parametrize("world", [2, 12])
def test_shards_are_the_same_in_every_epoch_and_make_up_the_whole(world):
    parts, orders = [], set()
    for rank in range(world):
        epochs = [
            [int(n) for b in Blocks().batches(epoch, shard=(rank, world)) for n in b.row_numbers] for epoch in range(3)
        ]
        assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(epochs[2])
        parts += epochs[0]
        orders |= {tuple(epoch) for epoch in epochs}
    assert sorted(parts) == list(range(63))
    assert len(orders) > world  # in another order


@pytest.mark.parametrize("n_shards", [2, 3])
def test_merged_summaries_are_the_summary_of_the_whole(n_shards):
    source = make_source()
    whole = scan(source)
    both = merge_summaries([scan(source, shard=(number, n_shards)) for number in range(n_shards)])
    assert both.classes.tolist() == whole.classes.tolist()
    assert both.class_rows.tolist() == whole.class_rows.tolist()
    assert both.n_rows == whole.n_rows
    np.testing.assert_allclose(both.class_weight, whole.class_weight)
    np.testing.assert_allclose(both.mean, whole.mean)
    np.testing.assert_allclose(both.variance, whole.variance, rtol=1e-9)


def test_parts_that_differ_are_named():
    numbers, words = (scan(as_source((np.eye(2), np.array(y)))) for y in ([0, 1], ["a", "b"]))
    wide = scan(as_source((np.eye(3), np.array([0, 1, 0]))))
    with pytest.raises(ValueError, match="2 and 3 features"):
        merge_summaries([numbers, wide])
    with pytest.raises(ValueError, match="labels of different types"):
        merge_summaries([numbers, words])
