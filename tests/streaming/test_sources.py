"""Sources: every row once, with a number that never changes, however it is read."""

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import torch
from torch.utils.data import DataLoader, TensorDataset

from legendretron.streaming import Batch, as_source, scan
from legendretron.streaming.as_source import ArraySource
from legendretron.streaming.source import BadRowError

N, D = 1000, 3


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(2.0, 3.0, (N, D)).astype(np.float32)
    return X, rng.integers(0, 4, N), rng.uniform(0.5, 2.0, N)


@pytest.fixture(scope="module")
def files(table, tmp_path_factory):
    X, y, weight = table
    folder = tmp_path_factory.mktemp("parts")
    for number, rows in enumerate(np.array_split(np.arange(N), 4)):
        frame = pd.DataFrame(X[rows], columns=["a", "b", "c"]).assign(label=y[rows], w=weight[rows], other="text")
        pq.write_table(pa.Table.from_pandas(frame), folder / f"part-{number}.parquet", row_group_size=77)
    return folder


def sources(table, files):
    X, y, weight = table
    tensors = TensorDataset(torch.as_tensor(X), torch.as_tensor(y), torch.as_tensor(weight))
    cuts = [0, 10, 500, 501, N]
    pieces = [slice(a, b) for a, b in itertools.pairwise(cuts)]
    names = {"target": "label", "weight": "w", "drop": ["other"]}
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=y, w=weight)
    return {
        "arrays": ArraySource(X, y, weight, block_rows=64),
        "batches": as_source([(X[rows], y[rows], weight[rows]) for rows in pieces]),
        "frames": as_source([(frame.iloc[rows][["a", "b", "c"]], y[rows], weight[rows]) for rows in pieces]),
        "sparse": as_source([(scipy.sparse.csr_array(X[rows]), y[rows], weight[rows]) for rows in pieces]),
        "loader": as_source(DataLoader(tensors, batch_size=33)),
        "parquet": as_source(ds.dataset(files), **names),
        "in memory": as_source(ds.dataset(pa.Table.from_pandas(frame)), target="label", weight="w"),
    }


KINDS = ["arrays", "batches", "frames", "sparse", "loader", "parquet", "in memory"]


def joined(batches):
    batches = list(batches)
    dense = [b.X.toarray() if scipy.sparse.issparse(b.X) else b.X for b in batches]
    parts = (dense, [b.y for b in batches], [b.weight for b in batches], [b.row_numbers for b in batches])
    X, y, weight, numbers = (np.concatenate(part) for part in parts)
    return X, y, weight, numbers


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_in_its_order(kind, table, files):
    X, y, weight, numbers = joined(sources(table, files)[kind].batches())
    for found, expected in zip((X, y, weight), table, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert X.dtype == np.float32
    assert len(np.unique(numbers)) == N
    assert (np.diff(numbers) > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_shuffled_pass_has_the_same_rows_and_can_be_repeated(kind, table, files):
    source = sources(table, files)[kind]
    plain = joined(source.batches())
    first, again, other = (joined(source.batches(epoch, seed=3)) for epoch in (0, 0, 1))
    for found, expected in zip(again, first, strict=True):
        np.testing.assert_array_equal(found, expected)
    for shuffled in (first, other):
        order = np.argsort(shuffled[3])
        for found, expected in zip(shuffled, plain, strict=True):
            np.testing.assert_array_equal(found[order], expected)
    if kind in ("arrays", "parquet"):
        assert (first[3] != other[3]).any()


@pytest.mark.parametrize("world", [2, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_shards_are_disjoint_and_complete(kind, world, table, files):
    source = sources(table, files)[kind]
    parts = [joined(source.batches(5, shard=(rank, world)))[3] for rank in range(world)]
    assert all(len(part) for part in parts)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), joined(source.batches())[3])
    later = joined(source.batches(6, shard=(0, world)))[3]
    np.testing.assert_array_equal(np.sort(later), np.sort(parts[0]))  # the same in every epoch


def test_names_of_features(table, files):
    found = sources(table, files)
    assert {kind: found[kind].feature_names for kind in KINDS} == {
        kind: ("a", "b", "c") if kind in ("frames", "parquet", "in memory") else None for kind in KINDS
    }


def test_row_numbers_do_not_depend_on_row_groups(table, files, tmp_path):
    for path in files.iterdir():
        pq.write_table(pq.read_table(path), tmp_path / path.name, row_group_size=1000)
    numbers = [
        joined(as_source(ds.dataset(folder), target="label", weight="w", drop=["other"]).batches(1))[3]
        for folder in (files, tmp_path)
    ]
    np.testing.assert_array_equal(*map(np.sort, numbers))


def test_partitions_are_columns(tmp_path):
    for year in (2020, 2021):
        folder = tmp_path / f"year={year}"
        folder.mkdir()
        pq.write_table(pa.table({"x": [1.0, 2.0], "y": [0, 1]}), folder / "part.parquet")
    source = as_source(ds.dataset(tmp_path, partitioning="hive"), target="y")
    X, y, *_ = joined([Batch(b.X, b.y, np.ones(len(b)), b.row_numbers) for b in source.batches()])
    assert source.feature_names == ("x", "year")
    np.testing.assert_array_equal(X, [[1, 2020], [2, 2020], [1, 2021], [2, 2021]])
    assert y.tolist() == [0, 1, 0, 1]


# --- the first pass ---


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_pass(kind, table, files):
    X, y, weight = table
    summary = scan(sources(table, files)[kind])
    mean = np.average(X.astype(np.float64), axis=0, weights=weight)
    np.testing.assert_allclose(summary.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(summary.variance, np.average((X - mean) ** 2, axis=0, weights=weight), rtol=1e-12)
    np.testing.assert_array_equal(summary.classes, [0, 1, 2, 3])
    np.testing.assert_array_equal(summary.class_rows, np.bincount(y))
    np.testing.assert_allclose(summary.class_weight, np.bincount(y, weight), rtol=1e-12)
    assert (summary.n_rows, summary.dtype, summary.n_skipped) == (N, np.float32, 0)


def test_rows_of_weight_zero_do_not_count(table):
    X, y, weight = table
    weight = np.where(y == 3, 0.0, weight)
    summary = scan(as_source((X, y, weight)))
    assert summary.classes.tolist() == [0, 1, 2]
    assert summary.n_rows == (y != 3).sum()
    kept = scan(as_source((X[y != 3], y[y != 3], weight[y != 3])))
    np.testing.assert_allclose(summary.mean, kept.mean, rtol=1e-12)
    same = scan(as_source((X, y, table[2])), factors={3: 0.0})
    np.testing.assert_array_equal(same.mean, summary.mean)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (["b", "a", "b"], np.array(["a", "b"])),
        (np.array(["b", "a", "b"], dtype=object), np.array(["a", "b"], dtype=object)),
        ([True, False, True], np.array([False, True])),
        ([2.0, 1.0, 2.0], np.array([1.0, 2.0])),
        (np.array([2, 1, 2], dtype=np.uint8), np.array([1, 2])),
    ],
)
def test_kinds_of_labels(y, expected):
    summary = scan(as_source((np.eye(3), np.asarray(y))))
    np.testing.assert_array_equal(summary.classes, expected)
    assert summary.classes.dtype.kind == expected.dtype.kind
    (batch,) = as_source((np.eye(3), np.asarray(y))).batches()
    assert summary.numbers(batch).tolist() == [1, 0, 1]


# --- what goes wrong ---


def test_iterators_can_be_read_only_once():
    with pytest.raises(ValueError, match=r"a generator can be iterated over only once; give a list"):
        as_source((np.eye(2), np.arange(2)) for _ in range(3))


def test_loaders_must_not_shuffle():
    data = TensorDataset(torch.eye(4), torch.arange(4))
    with pytest.raises(ValueError, match=r"DataLoader that shuffles.* give it shuffle=False"):
        as_source(DataLoader(data, shuffle=True))
    as_source(DataLoader(data, batch_size=3))


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([np.eye(3)], "batch 1 of the source must be"),
        ([(np.arange(3), np.arange(3))], r"batch 1 of the source: X must be of shape \(n, d\), got \(3,\)"),
        ([(np.eye(3), np.arange(3)), (np.eye(3), np.arange(2))], r"batch 2 of the source: y must be of shape \(3,\)"),
        ([(np.eye(3), np.arange(3)), (np.eye(2), np.arange(2))], "batch 2 of the source has 2 features"),
        ([(np.eye(3), np.arange(3)), (np.eye(3), np.array(["a", "b", "c"]))], "batch 2 .* labels of another type"),
        ([(np.array([["a"]]), np.arange(1))], "batch 1 of the source: X must contain numbers"),
        ([(np.eye(2), np.arange(2), np.zeros(2))], "source has no row with a positive weight"),
        (
            [(np.eye(2), np.array([None, "a"], dtype=object))],
            r"batch 1 of the source, row 0 .from 0.: the label is missing",
        ),
        ([(np.full((2, 1), 1e308) * [[1], [-1]], np.arange(2))], "too large to take a variance"),
        (
            [(np.array([[1e-165], [3e-165]]), np.arange(2))],
            "feature 0 .from 0. of X has values too small to take a variance",
        ),
        ([(np.eye(2), np.arange(2)), (scipy.sparse.csr_array(np.eye(2)), np.arange(2))], "is sparse, unlike"),
        ([(scipy.sparse.csr_array([[0.0, np.nan], [0, 1]]), np.arange(2))], "feature 1 holds a missing value"),
        (np.eye(2), r"a ndarray alone has no labels; give \(X, y\)"),
    ],
)
def test_bad_batches(batches, message):
    with pytest.raises(ValueError, match=message):
        scan(as_source(batches)).scale  # noqa: B018


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_numbers_that_are_too_large_for_a_precision(form):
    X = np.eye(3)
    X[1, 2] = -1e39
    source = as_source((form(X), np.arange(3)))
    with pytest.raises(BadRowError, match=r"row 1 .*: feature 2 holds -1e\+39, which is too large for float32; dtype="):
        scan(source, dtype=np.float32)
    assert scan(source, dtype=np.float32, skip_bad_rows=1).n_rows == 2
    assert scan(source, dtype=np.float64).n_rows == 3


def test_names_of_columns_are_checked(files):
    data = ds.dataset(files)
    with pytest.raises(ValueError, match="without a filter"):
        as_source(data.filter(ds.field("a") > 0), target="label", drop=["other"])
    with pytest.raises(ValueError, match="name the column that is to be predicted by target"):
        scan(as_source(data, drop=["other"]))
    for arguments, message in (
        ({"target": "nothing"}, "no target column 'nothing'"),
        ({"target": "label", "features": ["a", "z"]}, "no column 'z'"),
        ({"target": "label"}, r"not numbers in the source: 'other' \(.*string\)"),
        ({"target": "label", "features": ["label"]}, "'label' is the target and cannot be a feature too"),
        ({"target": "label", "weight": "label"}, "weight='label' is the target"),
    ):
        with pytest.raises(ValueError, match=message):
            as_source(data, **arguments)
