"""Results by cell: what is paired, what is tested, and what does not belong together."""

import numpy as np
import pytest
from scipy import stats

from legendretron.experiments.results import Results

RNG = np.random.default_rng(0)
OURS, THEIRS = RNG.normal(80, 1, 8), RNG.normal(79, 1, 8)


def records(model, values, rows=150, **further):
    shared = {"dataset": "iris", "model": model, "data": {"rows": rows}, **further}
    return [{**shared, "seed": seed, "accuracy": float(value)} for seed, value in enumerate(values)]


def test_cells_are_compared_on_the_seeds_that_both_have():
    results = Results(records("a", OURS) + records("b", THEIRS)[3:], "dataset", "model")
    found = results.compare(("iris", "a"), ("iris", "b"), "accuracy")
    assert (found.mean.n, results.mean(("iris", "a"), "accuracy").n) == (5, 8)
    assert found.difference.value == pytest.approx(np.mean(OURS[3:] - THEIRS[3:]))
    assert found.p == pytest.approx(stats.ttest_rel(OURS[3:], THEIRS[3:]).pvalue)
    assert found.welch == pytest.approx(stats.ttest_ind(OURS[3:], THEIRS[3:], equal_var=False).pvalue)
    assert results.median(("iris", "a"), "accuracy") == pytest.approx(np.median(OURS))


def test_verdicts_by_what_is_better():
    results = Results(records("a", THEIRS + 5) + records("b", THEIRS + 0.01 * OURS), "model")
    found = results.compare(("a",), ("b",), "accuracy")
    assert (found.verdict(), found.verdict(-1)) == ("better", "worse")


def test_one_seed_has_no_error_and_no_test():
    found = Results(records("a", [90.0]) + records("b", [89.0]), "model").compare(("a",), ("b",), "accuracy")
    assert found.difference.value == 1.0
    assert np.isnan([found.difference.error, found.p, found.welch]).all()
    assert found.verdict() == ""


def test_what_was_not_run_or_not_measured():
    results = Results(records("a", OURS, doubts=None), "dataset", "model")
    assert results.compare(("iris", "a"), ("iris", "b"), "accuracy") is None
    assert results.mean(("iris", "a"), "doubts") is None
    assert results.records("iris", "b") == []
    assert (results.values_of("model"), results.facts("iris")) == (["a"], {"rows": 150})


def test_results_that_do_not_belong_together():
    with pytest.raises(ValueError, match="results hold iris, a twice for seed 0, with different settings"):
        Results(records("a", OURS) * 2, "dataset", "model")
    with pytest.raises(ValueError, match="results on iris are of 150 rows and of 140; use a folder for each"):
        Results(records("a", OURS) + records("b", OURS, rows=140), "dataset", "model")
