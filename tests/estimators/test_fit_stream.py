"""Fits of rows that are read in batches: as those of rows in memory, in whatever pieces they come."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.datasets import make_classification

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.estimators import stream_fit
from legendretron.links import CanonicalLink
from legendretron.training import History, problem, stream_batches

N = 700


@pytest.fixture(scope="module")
def table():
    X, y = make_classification(N, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=0)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, N)
    return X * [1, 10, 0.1, 1, 1, 3] + [0, 5, 0, -2, 0, 1], np.array(["one", "two", "three"])[y], weight


def pieces(*arrays, cuts=(0, 3, 50, 333, 334, 600, N)):
    rows = [slice(a, b) for a, b in itertools.pairwise(cuts)]
    return [tuple(array[own] for array in arrays) for own in rows]


def legendretron(**parameters):
    settings = {"alpha": 1e-3, "link_alpha": 1e-3, "link_params": {"hidden": 4}, "random_state": 5, "batch_size": 32}
    return LegendreTronClassifier(**{**settings, **parameters})


def in_order(n, generator):
    return torch.arange(n)


def keep_order(monkeypatch):
    for module in (problem, stream_batches):
        monkeypatch.setattr(module, "draw_order", in_order)


def same(streamed, in_memory, X, tolerance=1e-6):
    np.testing.assert_array_equal(streamed.classes_, in_memory.classes_)
    np.testing.assert_allclose(streamed.coef_, in_memory.coef_, rtol=tolerance, atol=tolerance)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        np.testing.assert_allclose(streamed.predict_proba(X), in_memory.predict_proba(X), atol=tolerance)
    np.testing.assert_allclose(
        streamed.history_["train_loss"], in_memory.history_["train_loss"], rtol=tolerance, atol=tolerance
    )
    assert (streamed.alpha_, streamed.link_alpha_) == (in_memory.alpha_, in_memory.link_alpha_)


CASES = {
    "steps": {"max_epochs": "auto"},
    "epochs": {"max_epochs": 3},
    "one batch": {"max_epochs": 5, "batch_size": 10_000},
    "not compiled": {"max_epochs": 2, "link_params": {"init": "paper"}},
    "canonical": {"max_epochs": 2, "link": "canonical", "link_params": None},
    "balanced": {"max_epochs": 2, "class_weight": "balanced"},
    "class weight": {"max_epochs": 2, "class_weight": {"one": 3.0}},
    "noise": {"max_epochs": 2, "label_noise": 0.1},
    "learned noise": {"max_epochs": 2, "label_noise": "symmetric"},
    "CP-Flow": {"max_epochs": 2, "link_params": {"network": "cpflow"}},
    "unscaled": {"max_epochs": 2, "standardize": False, "learning_rate": 1e-3},
}


@pytest.mark.parametrize("case", CASES)
def test_rows_in_the_same_order_give_the_result_of_memory(case, table, monkeypatch):
    """The window holds far less than the table, and batches begin and end anywhere in what arrives."""
    X, y, weight = table
    model = legendretron(**CASES[case])
    keep_order(monkeypatch)
    in_memory = model.fit(X, y, weight)
    streamed = legendretron(**CASES[case]).fit_stream(pieces(X, y, weight), buffer_rows=0)
    same(streamed, in_memory, X)


@pytest.mark.parametrize("case", ["steps", "epochs"])
@pytest.mark.parametrize("window", [None, 740])
def test_a_table_that_fits_into_the_window_is_shuffled_as_in_memory(case, window, table):
    X, y, weight = table
    in_memory = legendretron(**CASES[case]).fit(X, y, weight)
    streamed = legendretron(**CASES[case]).fit_stream(pieces(X, y, weight), buffer_rows=window)
    same(streamed, in_memory, X)


def test_sparse_rows(table, monkeypatch):
    X, y, weight = table
    X = scipy.sparse.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    keep_order(monkeypatch)
    in_memory = legendretron(max_epochs=3).fit(X, y, weight)
    streamed = legendretron(max_epochs=3).fit_stream(pieces(X, y, weight), buffer_rows=0)
    same(streamed, in_memory, X)


def test_two_classes_and_logistic_regression(table, monkeypatch):
    X, y, weight = table
    X, y, weight = (part[y != "two"] for part in (X, y, weight))
    keep_order(monkeypatch)
    settings = {"alpha": 1e-3, "solver": "adam", "max_epochs": 3, "random_state": 0}
    in_memory = MultinomialLogisticClassifier(**settings).fit(X, y, weight)
    streamed = MultinomialLogisticClassifier(**settings).fit_stream((X, y, weight), buffer_rows=0)
    same(streamed, in_memory, X)


def passes_of(ids):
    def read_pass(number):
        for (part,) in pieces(ids):
            yield stream_batches.Rows(part[:, None].astype(np.float64), part, np.ones(len(part)))

    return read_pass


def window_batches(shards, sizes, endless, **changes):
    settings = {"window": 200, "shuffle": True, "n_features": 1, "sparse": False, "dtype": torch.float64, **changes}
    generators = [torch.Generator().manual_seed(seed) for seed in range(len(sizes))]
    device = torch.device("cpu")
    return stream_batches.StreamBatches(
        shards, sizes, 32, generators=generators, endless=endless, device=device, **settings
    )


def test_a_small_window_shuffles_and_each_row_comes_once_a_pass():
    ids = np.arange(N)
    stream = window_batches({0: passes_of(ids)}, [N], endless=True)
    labels = torch.cat([stream.take(1).labels.flatten() for _ in range(3 * N // 32)]).numpy()
    counts = np.bincount(labels, minlength=N)
    assert counts.min() >= 2
    assert counts.max() <= 4
    assert (np.bincount(labels[:N], minlength=N) == 1).all()  # the first pass
    assert np.abs(labels[:N] - ids).mean() > 30  # rows have moved far, as far as the window allows
    plain = window_batches({0: passes_of(ids)}, [N], endless=False)
    for _ in range(2):
        taken, left = [], plain.n_steps
        while left:
            taken.append(plain.take(left).labels)
            left -= len(taken[-1])
        assert taken[-1].shape == (1, 1, N % 32)
        np.testing.assert_array_equal(np.sort(torch.cat([part.flatten() for part in taken])), ids)


@pytest.mark.parametrize(
    ("endless", "window", "sparse", "sizes"),
    [(True, 50, True, [N]), (False, 50, False, [400, 250, 50]), (True, 10_000, False, [400, 250, 50])],
)
def test_batches_after_a_checkpoint_are_those_without_one(endless, window, sparse, sizes):
    """Also of rows that were read before it, as a window holds them."""
    ends = np.cumsum(sizes)

    def passes_of_shard(shard, read):
        def read_pass(number):
            read.add(number)
            ids = np.random.default_rng((shard, number)).permutation(np.arange(ends[shard] - sizes[shard], ends[shard]))
            for part in np.array_split(ids, 7):
                x = (1.0 + part)[:, None]
                yield stream_batches.Rows(scipy.sparse.csr_array(x) if sparse else x, part, np.ones(len(part)))

        return read_pass

    def make(read):
        shards = {number: passes_of_shard(number, read) for number in range(len(sizes))}
        return window_batches(shards, sizes, endless, window=window, sparse=sparse)

    def take(stream, count):
        taken = []
        while count:
            block = stream.take(count)
            count -= len(block.rows)
            for rows, labels, weights in zip(*block[:3], strict=True):
                z, _ = stream.features.product(rows, torch.ones(1, 1, 1).double(), torch.zeros(1, 1, 1).double())
                np.testing.assert_array_equal(z.flatten(), 1.0 + labels.flatten())  # features of the same rows
                assert weights.sum().item() == pytest.approx(1.0)
                taken.append(labels.flatten().tolist())
        return taken

    read: set[int] = set()
    whole = take(make(read), 110)
    for skipped in (1, 22, 44, 71, 97):
        read = set()
        stream = make(read)
        stream.skip(skipped)
        assert take(stream, 110 - skipped) == whole[skipped:]
        assert min(read) >= skipped * 32 // N - 1  # passes long before are not read again


# --- strengths that are chosen ---


def test_a_table_no_larger_than_the_sample_is_fitted_in_memory(table):
    X, y, weight = table
    rows = slice(0, 200)
    model = MultinomialLogisticClassifier(random_state=0)
    in_memory = model.fit(X[rows], y[rows], weight[rows])
    streamed = MultinomialLogisticClassifier(random_state=0).fit_stream([(X[rows], y[rows], weight[rows])])
    same(streamed, in_memory, X, tolerance=1e-12)


def test_strengths_are_chosen_on_a_sample(table):
    X, y, _ = table
    model = MultinomialLogisticClassifier(random_state=0).fit_stream((X, y), sample_rows=300)
    assert 200 < model.tuning_["held_out_rows"].max() < 400
    assert model.alpha_ == model.tuning_["alpha"].iloc[0]
    assert model.score(X, y) > MultinomialLogisticClassifier(random_state=0).fit(X, y).score(X, y) - 0.02


def test_rare_classes_are_in_the_sample_with_their_weight(monkeypatch):
    rng, samples = np.random.default_rng(0), []
    y = np.zeros(20_000, dtype=int)
    y[rng.choice(len(y), 12, replace=False)] = 1
    X = rng.normal(y[:, None], 0.3, (len(y), 2))
    choose = stream_fit.StreamFit._choose_on
    monkeypatch.setattr(stream_fit.StreamFit, "_choose_on", lambda *args: samples.append(args[1]) or choose(*args))
    model = MultinomialLogisticClassifier(random_state=0, max_epochs=2).fit_stream((X, y), sample_rows=500)
    assert model.predict_proba(X[y == 1])[:, 1].mean() > 20 * y.mean()
    rare = samples[0].labels == 1
    assert rare.sum() == 12
    assert samples[0].weights[rare].sum() == pytest.approx(12 * 500 / 20_000)


# --- early stopping ---


def test_rows_held_out_do_not_depend_on_batches(table):
    X, y, _ = table
    settings = {"early_stopping": 0.2, "max_epochs": 4}
    models = [
        legendretron(**settings).fit_stream(source) for source in (pieces(X, y), pieces(X, y, cuts=(0, 100, N)), (X, y))
    ]
    losses = [model.history_["validation_loss"] for model in models]
    assert np.isfinite(losses[0]).all()
    for other in losses[1:]:
        np.testing.assert_allclose(other, losses[0], rtol=1e-9)


def test_the_sample_has_none_of_the_rows_held_out(monkeypatch):
    rng, found = np.random.default_rng(0), []
    X = np.column_stack([np.arange(4000.0), rng.normal(size=4000)])
    gather = stream_fit.Shard.gather
    monkeypatch.setattr(stream_fit.Shard, "gather", lambda *args: found.append(gather(*args)) or found[-1])
    settings = {"solver": "adam", "early_stopping": 0.2, "max_epochs": 1, "random_state": 0}
    MultinomialLogisticClassifier(**settings).fit_stream((X, rng.integers(2, size=4000)), sample_rows=2000)
    ((sampled, held),) = found
    assert len(held.labels) == pytest.approx(800, abs=100)
    assert len(sampled.labels) == pytest.approx(1600, abs=150)
    assert not np.intersect1d(sampled.x[:, 0], held.x[:, 0]).size


# --- checkpoints ---


class _Died(Exception):
    pass


RESUMED = {
    "epochs": ({"max_epochs": 6}, {}),
    "steps": ({"max_epochs": "auto", "batch_size": 64}, {}),
    "a small window": ({"max_epochs": "auto", "batch_size": 64}, {"buffer_rows": 100}),
    "early stopping": ({"max_epochs": 6, "early_stopping": True}, {"buffer_rows": 100}),
    "chosen strengths": ({"max_epochs": 6, "alpha": "auto", "cv": 2}, {"sample_rows": 200}),
}


@pytest.mark.parametrize("case", RESUMED)
def test_a_fit_that_was_stopped_is_resumed(case, table, tmp_path, monkeypatch):
    X, y, weight = table
    parameters, arguments = RESUMED[case]
    whole = legendretron(**parameters).fit_stream(pieces(X, y, weight), **arguments)
    path, append, tried = tmp_path / "state", History.append, []
    monkeypatch.setattr("legendretron.estimators.settings._CHECKPOINT_EPOCHS", 1)

    def fit():
        model = legendretron(**parameters, checkpoint=path)
        return model.fit_stream(pieces(X, y, weight), **arguments)

    def die(self, epoch, *row):
        if epoch == 4 and path.exists():
            raise _Died
        append(self, epoch, *row)

    with monkeypatch.context() as patch:
        patch.setattr(History, "append", die)
        with pytest.raises(_Died):
            fit()
    with pytest.raises(ValueError, match="belongs to other data"):
        legendretron(**parameters, checkpoint=path).fit_stream(pieces(X + 1.0, y, weight), **arguments)
    choose = stream_fit.StreamFit._choose_on
    monkeypatch.setattr(stream_fit.StreamFit, "_choose_on", lambda *args: tried.append(args) or choose(*args))
    resumed = fit()
    assert tried == []
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    np.testing.assert_array_equal(resumed.history_["train_loss"], whole.history_["train_loss"])
    np.testing.assert_array_equal(resumed.history_["validation_loss"], whole.history_["validation_loss"])
    assert list(tmp_path.iterdir()) == []


# --- what goes wrong ---


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "lbfgs"}, "solver cannot be 'lbfgs', which needs all rows at once"),
        ({"warm_start": True}, "warm_start=True does not apply"),
        ({"early_stopping": 1e-4, "alpha": 1.0, "link_alpha": 1.0}, "cannot hold out 0.0001 of 700 rows"),
        ({"cv": [(np.arange(3), np.arange(3))]}, "cv must be None or a number of folds"),
        ({"link": CanonicalLink(3).requires_grad_(False)}, "a fixed link"),
    ],
)
def test_parameters_that_need_all_rows(parameters, message, table):
    X, y, _ = table
    with pytest.raises(ValueError, match=message):
        LegendreTronClassifier(**parameters).fit_stream((X, y))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"skip_bad_rows": -1}, "skip_bad_rows must be an integer of at least 0, got -1"),
        ({"buffer_rows": 1.5}, "buffer_rows must be an integer"),
        ({"sample_rows": 0}, "sample_rows must be an integer of at least 1"),
        ({"target": "y"}, "name columns, which arrays have none of"),
    ],
)
def test_wrong_arguments(arguments, message, table):
    X, y, _ = table
    with pytest.raises(ValueError, match=message):
        legendretron().fit_stream((X, y), **arguments)


def test_a_fit_that_fails_leaves_the_estimator_as_it_was(table):
    X, y, _ = table
    model = legendretron(max_epochs=1).fit(X, y)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="has only one"):
        model.fit_stream((X[:, :3], np.zeros(N, dtype=int)))
    np.testing.assert_array_equal(model.coef_, before)
    assert model.n_features_in_ == 6


class Changing:
    """Batches that differ from the second time on."""

    def __init__(self, first, later):
        self.first, self.later, self.times = first, later, 0

    def __iter__(self):
        self.times += 1
        return iter(self.first if self.times <= 2 else self.later)  # once to look at it, once for the first pass


def test_sources_must_not_change(table):
    X, y, _ = table
    whole = [(X, y)]
    for later, message in (
        ([(X[:-1], y[:-1])], "source had 700 rows in the first pass, but 699 in another"),
        ([(X, y), (X[:1], y[:1])], "but more than 700 in another"),
        ([(X, np.where(np.arange(N) == 9, "four", y))], "batch 1 of the source: the label 'four' was not seen"),
        (
            [(np.where(X[8, 2] == X, np.nan, X), y)],
            r"batch 1 of the source, row 8 .from 0.: feature 2 holds a missing value",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            legendretron(max_epochs=1).fit_stream(Changing(whole, later))


def test_bad_rows_are_counted_and_left_out(table):
    X, y, weight = table
    broken = X.copy()
    broken[[5, 80], 3], broken[400, 0] = np.nan, np.inf
    good = np.setdiff1d(np.arange(N), [5, 80, 400])
    with pytest.raises(ValueError, match="feature 3 holds a missing value"):
        legendretron().fit_stream((broken, y))
    with pytest.raises(ValueError, match=r"row 400 .from 0.: feature 0 holds an infinite value.* got 2"):
        legendretron().fit_stream((broken, y), skip_bad_rows=2)
    model = legendretron(max_epochs=2).fit_stream(pieces(broken, y, weight), skip_bad_rows=3)
    assert model.n_skipped_rows_ == 3
    same(model, legendretron(max_epochs=2).fit(X[good], y[good], weight[good]), X)


# --- files by their paths ---


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_paths(suffix, tmp_path, monkeypatch):
    """A pattern, a folder and a list of files are the data set that they make up, as for fit_ray and fit_torchrun."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 3)), columns=list("abc"))
    frame["label"] = np.where(frame["a"] > 0, "u", "v")
    for number in range(3):
        rows = frame.iloc[40 * number : 40 * (number + 1)]
        path = tmp_path / f"part-{number}{suffix}"
        rows.to_parquet(path, index=False) if suffix == ".parquet" else rows.to_csv(path, index=False)
    monkeypatch.chdir(tmp_path)
    files = sorted(tmp_path.iterdir())
    expected = legendretron(max_epochs=2).fit_stream((frame[["a", "b"]], frame["label"].to_numpy()))
    for source in (f"part-*{suffix}", tmp_path, files, [str(file) for file in files]):
        model = legendretron(max_epochs=2).fit_stream(source, target="label", drop=["c"])
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)
        assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"no file matches the pattern 'nothing-\*.csv'"):
        legendretron().fit_stream("nothing-*.csv", target="label")
