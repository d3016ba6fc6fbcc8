import json
import math

import numpy as np
import pytest
from scipy import stats

from legendretron.experiments import Batch, Outcome, Run, Store, read_records
from legendretron.experiments.rendering import write_csv
from legendretron.experiments.results import (
    Mean,
    Results,
    add_holm,
    holm,
    mean_of,
    paired_test,
    verdict,
    welch_from_means,
)

RNG = np.random.default_rng(0)
A, B = RNG.normal(80, 1, 20), RNG.normal(81, 3, 20)


def test_tests_are_scipys():
    assert welch_from_means(mean_of(A), mean_of(B)) == pytest.approx(
        stats.ttest_ind(A, B, equal_var=False).pvalue, rel=1e-10
    )
    assert paired_test(A, B) == pytest.approx(stats.ttest_rel(A, B).pvalue, rel=1e-10)


def test_without_variance():
    same, other = [56.0] * 5, [57.0] * 5
    assert [welch_from_means(mean_of(same), mean_of(b)) for b in (same, other)] == [1.0, 0.0]
    assert (paired_test(A, A), paired_test(A, A + 1.0)) == (1.0, 0.0)
    assert np.isnan(welch_from_means(mean_of([1.0]), mean_of([2.0])))
    assert np.isnan(paired_test([1.0], [2.0]))
    with pytest.raises(ValueError, match="a and b must be pairs, got 3 and 2 values"):
        paired_test([1, 2, 3], [1, 2])


def test_holm_by_hand():
    p = [0.01, 0.02, np.nan, 0.04, 0.005]
    assert holm(p) == pytest.approx([0.03, 0.04, np.nan, 0.04, 0.02], nan_ok=True)
    assert holm([0.5, 0.9]).max() == 1.0
    assert holm([]).shape == (0,)
    with pytest.raises(ValueError, match="p_values must be between 0 and 1"):
        holm([1.2])


@pytest.mark.parametrize("values", [[], [np.nan, 1.0], [[1.0]], [np.inf]])
def test_means_of_nonsense_are_refused(values):
    with pytest.raises(ValueError, match="values must be a vector of finite numbers"):
        mean_of(values)


@pytest.mark.parametrize(
    ("difference", "p", "adjusted", "said"),
    [
        (1.0, 0.001, 0.001, "better"),
        (-1.0, 0.001, 0.001, "worse"),
        (1.0, 0.001, 0.01, "(better)"),
        (-1.0, 0.001, 0.5, "(worse)"),
        (-1.0, 0.001, None, "worse"),
        (1.0, 0.01, 0.01, "="),
        (1.0, float("nan"), float("nan"), ""),
    ],
)
def test_the_verdict_of_a_test(difference, p, adjusted, said):
    assert verdict(difference, p, adjusted) == said
    words = said.replace("better", "A").replace("worse", "B")
    assert verdict(difference, p, adjusted, better="A", worse="B") == words


def test_holm_over_several_columns_is_one_family():
    rows = [{"a": 0.01, "b": 0.04}, {"a": 0.03}]
    add_holm(rows, ["a", "b"])
    assert rows == [{"a": 0.01, "b": 0.04, "a, Holm": 0.03, "b, Holm": 0.06}, {"a": 0.03, "a, Holm": 0.06}]


# --- results by cell: what is paired, what is tested, and what does not belong together ---


DRAWS = np.random.default_rng(0)
OURS, THEIRS = DRAWS.normal(80, 1, 8), DRAWS.normal(79, 1, 8)


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


# --- files of results do not depend on the last digits of a machine's arithmetic ---


def neighbors(value):
    """The value as other processors may have it."""
    return [value, math.nextafter(value, math.inf), math.nextafter(value, -math.inf)]


def test_records_do_not_depend_on_the_last_digit(tmp_path):
    batch = Batch("x", "iris", "m", {}, "complete", (Run("iris", "m", 0.0, None, 0),))
    contents = []
    for number, near in enumerate(neighbors(1 / 3)):
        contents.append(write_csv(tmp_path / "table.csv", [{"label": "iris", "p": near}]).read_text())
        outcome = Outcome({"rows": 150, "scale": near}, [{"factor": near, "loss": [near, -0.0], "n_iter": 9}])
        Store(tmp_path / str(number)).add(batch, outcome, 1.0, {}, "")
        (record,) = read_records(tmp_path / str(number))
        contents.append(json.dumps(record))
    assert len(set(contents)) == 2
    assert record["factor"] == record["data"]["scale"] == 0.3333333333
    assert (record["loss"], record["n_iter"]) == ([0.3333333333, 0.0], 9)


def test_means_are_exact_in_any_order():
    values = np.random.default_rng(0).uniform(50, 100, 20).round(6)
    means = {mean_of(order) for order in (values, values[::-1], np.sort(values))}
    assert len(means) == 1
    assert mean_of([56.666667] * 49) == Mean(
        56.666667, 0.0, 49
    )  # added up and divided again, it need not be what it was
    assert paired_test(values, values[::-1]) == paired_test(values[::-1], values)
