"""Joint batches from shards of different length, and summaries of shards."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legendretron.distributed.shards import JointBatches, ShardReader
from legendretron.distributed.source_shards import merged
from legendretron.streaming import Batch, BlockSource, as_source, scan
from legendretron.training.row_window import Rows


@given(st.lists(st.integers(0, 200), min_size=1, max_size=6).filter(any), st.integers(1, 300))
def test_every_row_is_in_one_joint_batch(sizes, batch_size):
    batches = JointBatches(sizes, batch_size)
    taken = np.array([[batches.taken(s, t) for t in range(batches.n_steps)] for s in range(len(sizes))])
    assert (taken >= 0).all()
    assert taken.sum(1).tolist() == sizes
    assert [batches.joint(t) for t in range(batches.n_steps)] == taken.sum(0).tolist()
    # as large as asked for, but for the rounding of each shard
    assert taken.sum(0).max() <= min(batch_size, sum(sizes)) + len(sizes)
    assert batches.n_steps == -(-sum(sizes) // min(batch_size, sum(sizes)))


def rows(numbers):
    numbers = np.asarray(numbers)
    return Rows(numbers[:, None].astype(float), numbers, np.ones(len(numbers)))


def test_reader_takes_rows_across_batches():
    batches = [rows([0, 1, 2]), rows([]), rows([3]), rows([4, 5, 6, 7])]
    reader = ShardReader(iter(batches), 0)
    assert reader.take(2).labels.tolist() == [0, 1]
    assert reader.take(0) is None
    assert reader.take(4).labels.tolist() == [2, 3, 4, 5]
    assert reader.take(2).x[:, 0].tolist() == [6.0, 7.0]
    with pytest.raises(ValueError, match=r"shard 0 ended before its last row; the data must not change"):
        reader.take(1)


@pytest.mark.parametrize("skipped", [0, 1, 3, 4, 8])
def test_reader_skips_what_was_trained_on(skipped):
    reader = ShardReader(iter([rows([0, 1, 2]), rows([3]), rows([4, 5, 6, 7])]), 0)
    reader.skip(skipped)
    left = 8 - skipped
    assert (reader.take(left).labels.tolist() if left else []) == list(range(skipped, 8))


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
    both = merged([scan(source, shard=(number, n_shards)) for number in range(n_shards)])
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
        merged([numbers, wide])
    with pytest.raises(ValueError, match="labels of different types"):
        merged([numbers, words])
