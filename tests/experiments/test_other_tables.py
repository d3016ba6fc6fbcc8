"""The comparison on other tables: how they are read, and what is reported."""

import numpy as np
import pytest

import other_tables as benchmark
from legendretron.experiments import Resources, read_records, render, sweep
from study import BASELINE, OURS
from tests.experiments.test_defaults import needs_new_sklearn


@pytest.fixture
def folder(tmp_path):
    """A table of two numbers, a word, and the class."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    numbers = rng.normal(size=(90, 2)) + y[:, None]
    rows = [f"{a:.3f}, {b:.3f}, {'red' if k == 2 else 'blue'}, c{k}" for (a, b), k in zip(numbers, y, strict=True)]
    (tmp_path / "tae.dat").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_words_become_columns(folder):
    X, y, facts = benchmark.load("tae", folder)
    assert facts == {"rows": 90, "features": 4, "classes": 3, "label": "tae"}
    assert (X[:, 2:].sum(1) == 1).all()
    assert np.array_equal(X[:, 3] == 1, y == 2)


def test_a_table_that_is_not_there(folder):
    part = benchmark.EXPERIMENT.narrow(datasets=["heart"], seeds=1)
    state = sweep(part, folder / "out", Resources(folder))
    assert "heart.dat" in next(iter(state.skipped.values()))


@pytest.mark.exhaustive
@needs_new_sklearn
def test_a_part_is_run_and_reported(folder):
    out = folder / "out"
    part = benchmark.EXPERIMENT.narrow(datasets=["tae"], models=[BASELINE, OURS], seeds=2, noise=[0.2])
    state = sweep(part, out, Resources(folder))
    assert (state.now, state.failed) == (4, [])
    shares = [record["wrong_share"] for record in read_records(out)]
    assert len(shares) == 4
    assert 0.1 < min(shares) <= max(shares) < 0.35
    render(part, state, out)
    text = (out / "other_tables.md").read_text()
    assert "**Incomplete: 10 splits of 36 tables are planned.**" in text
    assert "| tae | 90 x 4, 3 classes |" in text
    assert "0 / 0 of 1" in text
