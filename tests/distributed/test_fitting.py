"""Fits on shards by one process: what several do, they do alike."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from legendretron import CanonicalLink, LegendreTronClassifier
from legendretron.distributed.fitting import SplitModel, fit_shards
from legendretron.distributed.on_torchrun import SharedFile
from legendretron.streaming import as_source
from legendretron.training import Sample, as_features
from legendretron.training.layout import Layout
from legendretron.training.model import LinearModel
from legendretron.training.stream_batches import Rows, StreamBatches

FIXED = {"alpha": 1e-2, "link_alpha": 1e-2, "random_state": 0}


def table(n=240, d=4, n_classes=3, seed=0):
    random = np.random.default_rng(seed)
    X = 2.0 + random.normal(size=(n, d))
    y = (X @ random.normal(size=(d, n_classes)) + random.gumbel(size=(n, n_classes))).argmax(1)
    return X, np.array(["ant", "bee", "cat", "dog"])[y], random.uniform(0.5, 2.0, n)


def on_shards(estimator, data, n_shards=2, **options):
    fit_shards(estimator, as_source(data), Layout.alone(), n_shards=n_shards, **options)
    return estimator


@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_batch_of_all_rows_is_the_fit_in_memory(n_shards, n_classes):
    """Standardization, weights, penalties, the schedule and the optimizer are the same."""
    X, y, weight = table(n_classes=n_classes)
    settings = {**FIXED, "batch_size": len(X), "max_epochs": 30, "solver": "adam"}
    ours = on_shards(LegendreTronClassifier(**settings), (X, y, weight), n_shards)
    theirs = LegendreTronClassifier(**settings).fit(X, y, weight)
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-8)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)
    np.testing.assert_allclose(ours.history_["train_loss"], theirs.history_["train_loss"], atol=1e-8)
    assert ours.n_iter_ == theirs.n_iter_ == 30


def test_a_model_that_is_split_by_class_weighs_rows_as_a_whole_one(mesh_of_one):
    random = np.random.default_rng(0)
    features = as_features(random.normal(size=(20, 4)), torch.float64, torch.device("cpu"))
    rows, labels = torch.arange(20)[None], torch.as_tensor(random.integers(3, size=(1, 20)))
    weights = torch.as_tensor(random.integers(3, size=(1, 20)).astype(float))
    start, link = torch.as_tensor(random.normal(size=(4, 2))), CanonicalLink(3, dtype=torch.float64)
    models = [
        SplitModel(start, torch.ones(2).double(), link, replace(Layout.alone(), classes=mesh_of_one)),
        LinearModel(start[None], torch.ones(1, 2).double(), [link]),
    ]
    sums, slopes, batch = [], [], Sample(features, rows, labels, weights)
    for model in models:
        sums.append(model.score_sums(batch))
        gradient = torch.zeros_like(model.flat)
        model.loss_gradient(batch, gradient)
        slopes.append(model.views(gradient)[0])
    torch.testing.assert_close(*sums)
    torch.testing.assert_close(*slopes)


class Interrupted(Exception):
    pass


class LostAfter(SharedFile):
    """Loses the process just after some of its checkpoints."""

    def __init__(self, path, count):
        super().__init__(path, Layout.alone())
        self.left = count

    def commit(self):
        super().commit()
        self.left -= 1
        if self.left == 0:
            raise Interrupted


@pytest.mark.parametrize(("lost_after", "early_stopping"), [(1, False), (4, True)])
def test_resumed_in_the_middle_of_an_epoch(tmp_path, lost_after, early_stopping):
    X, y, weight = table()
    settings = {**FIXED, "batch_size": 16, "max_epochs": 3, "early_stopping": early_stopping}
    expected = on_shards(LegendreTronClassifier(**settings), (X, y, weight), checkpoint_steps=4)
    path = tmp_path / "state"
    with pytest.raises(Interrupted):
        on_shards(
            LegendreTronClassifier(**settings), (X, y, weight), store=LostAfter(path, lost_after), checkpoint_steps=4
        )
    with pytest.raises(ValueError, match="belongs to other data"):
        on_shards(LegendreTronClassifier(**settings), (X + 1.0, y, weight), store=SharedFile(path, Layout.alone()))
    store = SharedFile(path, Layout.alone())
    resumed = on_shards(LegendreTronClassifier(**settings), (X, y, weight), store=store, checkpoint_steps=4)
    np.testing.assert_array_equal(resumed.coef_, expected.coef_)
    for column in ("train_loss", "validation_loss", "accuracy"):
        # sums of an epoch are added up at each checkpoint
        np.testing.assert_allclose(resumed.history_[column], expected.history_[column], rtol=1e-12)
    store.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("parameters", "options", "message"),
    [
        ({"solver": "lbfgs"}, {}, "solver cannot be 'lbfgs', which needs all rows at once"),
        ({"random_state": None}, {}, "random_state must be a number, so that all processes draw the same, got None"),
        ({"warm_start": True}, {}, "warm_start=True"),
        ({"checkpoint": "state"}, {}, "checkpoint='state' is for one process"),
        ({}, {"n_shards": 0}, "n_shards must be an integer of at least 1, got 0"),
        ({}, {"checkpoint_steps": 0}, "checkpoint_steps must be an integer of at least 1, got 0"),
    ],
)
def test_what_cannot_work_is_said(parameters, options, message):
    X, y, _ = table(n=30)
    with pytest.raises(ValueError, match=message):
        on_shards(LegendreTronClassifier(**{**FIXED, **parameters}), (X, y), **options)


def test_bad_rows_of_all_shards_are_counted():
    X, y, _ = table()
    X[[3, 200], 1] = np.nan
    for allowed, match in ((0, "feature 1 holds a missing value"), (1, "2 rows are bad, but only 1 may be left out")):
        with pytest.raises(ValueError, match=match):
            on_shards(LegendreTronClassifier(**FIXED, max_epochs=1), (X, y), skip_bad_rows=allowed)
    ours = on_shards(LegendreTronClassifier(**FIXED, max_epochs=1), (X, y), skip_bad_rows=2)
    assert ours.n_skipped_rows_ == 2


# --- joint batches from shards of different length, and summaries of shards ---


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
