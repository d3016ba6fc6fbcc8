"""Copies of sources in temporary files: the same rows, and nothing that is left behind."""

import gc
import os
import threading
import time

import numpy as np
import pandas as pd
import pytest

from legendretron import MultinomialLogisticClassifier
from legendretron.datasets.streams import open_source, source_of
from legendretron.datasets.tables import find_parts
from legendretron.datasets.text_form import TextOptions
from legendretron.streaming import as_source, scan, spool
from legendretron.streaming.source import HELD_OUT, ROWS_OF_A_FILE, BadRowError, read_ahead, row_share

N = 100


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the temporary files are."""
    path = tmp_path / "spool"
    path.mkdir()
    monkeypatch.setenv(spool.SPOOL_FOLDER, str(path))
    return path


@pytest.fixture
def table(tmp_path):
    """Two files of numbers, with gaps, a missing label and a word, and their rows."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 3)), columns=["a", "b", "c"]).assign(y=np.arange(N) % 3)
    paths = [tmp_path / f"{number}.csv" for number in range(2)]
    for path in paths:
        frame.to_csv(path, index=False)
    with open(paths[1], "a") as file:
        file.write("1,,3,0\n1,2,3,\n1,word,3,2\n1,2,3,1,9\n")
    return paths, frame


def read(source, **how):
    return {number: (X, y) for batch in source.batches(**how)
            for number, X, y in zip(batch.row_numbers.tolist(), batch.X.tolist(), batch.y.tolist(), strict=True)}  # fmt: skip


def test_text_has_the_rows_of_its_files_in_any_order(folder, table, monkeypatch):
    monkeypatch.setattr("legendretron.datasets.text_file._BLOCK", 2**10)
    monkeypatch.setattr("legendretron.datasets.streams._ROWS", 10)
    paths, frame = table
    source = source_of(paths[0], target="y")
    assert source.n_blocks > 2
    rows = read(source)
    assert list(rows) == list(range(N))
    assert [X for X, _ in rows.values()] == frame[["a", "b", "c"]].to_numpy().tolist()
    assert [y for _, y in rows.values()] == frame["y"].tolist()
    shuffled = read(source, epoch=0, seed=1)
    assert list(shuffled) != list(rows)
    assert shuffled == rows
    halves = [read(source, shard=(rank, 2)) for rank in range(2)]
    assert halves[0] | halves[1] == rows
    assert not halves[0].keys() & halves[1].keys()


@pytest.mark.parametrize("odd", ['"0.5", a', '0.5,"a\nb"', "NA,a"])
def test_rows_that_are_written_in_another_way_than_those_before(folder, tmp_path, monkeypatch, odd):
    """Text is read in the fastest way that suits it, and the rest in a slower one when that fails."""
    monkeypatch.setattr("legendretron.datasets.text_file._BLOCK", 2**10)
    rows = [f"{i}.5,{'ab'[i % 2]}" for i in range(500)]
    (tmp_path / "t.csv").write_text("\n".join(['"x","y"', *rows, odd, *rows, ""]))
    found = read(source_of(tmp_path / "t.csv", target="y"))
    X, y = zip(*found.values(), strict=True)
    expected = [[i + 0.5] for i in range(500)]
    np.testing.assert_array_equal(X, [*expected, [np.nan if "NA" in odd else 0.5], *expected])
    assert [*y] == [*"ab" * 250, odd.rpartition(",")[2].strip(' "'), *"ab" * 250]


def test_faults_and_missing_labels_are_kept(folder, table):
    paths, _ = table
    summary = scan(source := source_of(paths, target="y", skip_bad_rows=4), skip_bad_rows=4)
    assert (summary.n_rows, summary.n_skipped, summary.classes.tolist()) == (2 * N, 4, [0, 1, 2])
    found = {number: fault for batch in source.batches() for number, fault in batch.faults.items()}
    assert len(found) == 2
    assert all(number > ROWS_OF_A_FILE for number in found)
    with pytest.raises(ValueError, match="line 105 has 5 fields"):
        source_of(paths, target="y")


@pytest.mark.parametrize("more", ["", "word,2\n"])
def test_marks_of_gaps_are_compared_as_numbers(folder, tmp_path, more):
    (tmp_path / "t.csv").write_text(f"a,y\n1,0\n-999.0,1\n-999,0\n{more}")
    source = open_source(find_parts(tmp_path / "t.csv"), "y", text=TextOptions(na=("-999",)))
    (batch,) = source.batches()
    assert np.isnan(batch.X[:3, 0]).tolist() == [False, True, True]


def test_true_and_false_are_numbers(folder, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,true,0\n2,False,1\n3,NA,0\n")
    (batch,) = source_of(tmp_path / "t.csv", target="y").batches()
    np.testing.assert_array_equal(batch.X, [[1.0, 1.0], [2.0, 0.0], [3.0, np.nan]])


@pytest.mark.parametrize(("y", "kind"), [(["a", "b"], "U"), ([True, False], "b"), ([3, 5], "i")])
def test_labels_weights_and_single_precision(folder, y, kind):
    X, w = np.arange(12, dtype=np.float32).reshape(6, 2), np.linspace(0.5, 1, 6)
    original = as_source((X, np.array(y * 3), w))
    (ours,) = spool.Spool(original, lambda labels, _: np.array(labels)).batches()
    (theirs,) = original.batches()
    assert (ours.X.dtype, ours.y.dtype.kind) == (np.float32, kind)
    for name in ("X", "y", "weight", "row_numbers"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def test_fits_in_single_precision_take_half_the_room(folder, tmp_path):
    numbers = np.random.default_rng(0).normal(size=(1000, 3))
    frame = pd.DataFrame(numbers, columns=["a", "b", "c"]).assign(y=np.arange(1000) % 2)
    frame.to_csv(tmp_path / "t.csv", index=False)
    sources = [source_of(tmp_path / "t.csv", target="y", dtype=dtype) for dtype in ("float32", None)]
    (single,), (double,) = (source.batches() for source in sources)
    assert (single.X.dtype, double.X.dtype) == (np.float32, np.float64)
    np.testing.assert_array_equal(single.X, numbers.astype(np.float32))
    sizes = [path.stat().st_size for path in folder.glob("*/*")]
    assert max(sizes) - min(sizes) == 4 * numbers.size  # beside labels and numbers of rows
    frame.assign(b=1e39).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(
        BadRowError, match=r"line 2: column 'b' holds 1e\+39, .* float32; dtype='float64' has room for it"
    ):
        scan(source_of(tmp_path / "t.csv", target="y", dtype="float32"))


@pytest.mark.parametrize("first", ["true", "0.5"])
def test_true_and_false_are_not_mixed_with_numbers(tmp_path, monkeypatch, first):
    monkeypatch.setattr("legendretron.datasets.streams._ROWS", 10)
    then = {"true": "0.5", "0.5": "False"}[first]
    text = "".join(f"{value},{row % 2}\n" for value in ("", first, "", then) for row in range(10))
    (tmp_path / "t.csv").write_text("a,y\n" + text)
    with pytest.raises(ValueError, match="column 'a' holds true and false in some rows, and numbers in others"):
        source_of(tmp_path / "t.csv", target="y")


def test_nothing_is_left_behind(folder, table, monkeypatch):
    paths, _ = table
    seen = []
    estimator = MultinomialLogisticClassifier(alpha=1e-3, max_epochs=1, random_state=0)
    fit = "legendretron.estimators.base.fit_source"
    for error in (None, ValueError, KeyboardInterrupt):

        def fails(*args, error=error, **how):
            seen.append(os.listdir(folder))
            if error is not None:
                raise error

        monkeypatch.setattr(fit, fails)
        if error is None:
            estimator.fit_stream(paths[0], target="y")
        else:
            with pytest.raises(error):
                estimator.fit_stream(paths[0], target="y")
        assert os.listdir(folder) == []
    assert all(len(names) == 1 for names in seen)
    with pytest.raises(ValueError, match="not a regular table"):  # while they are written
        source_of(paths, target="y")
    source = source_of(paths[0], target="y")
    assert len(os.listdir(folder)) == 1
    del source
    gc.collect()
    assert os.listdir(folder) == []


def test_a_folder_that_cannot_be_written_to(folder, table, monkeypatch):
    paths, _ = table
    monkeypatch.setenv(spool.SPOOL_FOLDER, str(folder / "none"))
    with pytest.raises(ValueError, match="set LEGENDRETRON_SPOOL"):
        source_of(paths[0], target="y")
    monkeypatch.setenv(spool.SPOOL_FOLDER, str(folder))

    def full(*args, **how):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("legendretron.streaming.spool._write", full)
    with pytest.raises(ValueError, match=r"is full; .*LEGENDRETRON_SPOOL"):
        source_of(paths[0], target="y")
    assert os.listdir(folder) == []


# --- reading ahead: in order, with errors in their place, and without threads left behind ---


def readers():
    return [thread for thread in threading.enumerate() if thread.name == "legendretron-read-ahead"]


def test_errors_come_after_the_items_before_them():
    def items():
        yield 1
        raise ValueError("broken")

    reading = read_ahead(items())
    assert next(reading) == 1
    with pytest.raises(ValueError, match="broken"):
        next(reading)
    assert readers() == []


def test_no_more_than_asked_for_is_read():
    read = []

    def items():
        for number in range(100):
            read.append(number)
            yield number

    reading = read_ahead(items(), depth=3)
    next(reading)
    time.sleep(0.1)
    assert len(read) <= 5  # one is taken, three wait, and one is in hand
    reading.close()
    assert readers() == []


def test_closing_closes_what_is_read():
    closed = []

    def items():
        try:
            yield from range(1000)
        finally:
            closed.append(threading.current_thread().name)

    reading = read_ahead(items())
    next(reading)
    reading.close()
    assert closed == ["legendretron-read-ahead"]


def test_hashes_are_these_on_every_machine():
    """Rows that are held out must not move with the next version."""
    found = row_share(np.array([0, 1, 2**40]), seed=0, purpose=HELD_OUT)
    np.testing.assert_allclose(found, [0.5079605879681605, 0.17601256256594233, 0.4203751505444301], rtol=0, atol=1e-15)
