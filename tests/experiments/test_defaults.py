"""The benchmark of the defaults: its runs, its report, and the promises that the report checks."""

import inspect

import numpy as np
import pytest
import sklearn.metrics
from sklearn.linear_model import LogisticRegressionCV

import defaults as benchmark
import study
from legendretron.experiments import Resources, read_records, render, sweep
from legendretron.experiments.results import Results

BASELINE, OURS = study.BASELINE, study.OURS
needs_new_sklearn = pytest.mark.skipif(
    "use_legacy_attributes" not in inspect.signature(LogisticRegressionCV).parameters,
    reason="the baseline is called as in scikit-learn 1.8",
)


def made_up(dataset, model, losses, accuracy=90.0, seconds=1.0, **further):
    """Records of a model on a data set, with a log-loss for each seed."""
    shared = {
        "dataset": dataset, "model": model, "data": {"rows": 100, "features": 3, "classes": 4, "label": dataset},
        "accuracy": accuracy, "brier": 0.2, "calibration_error": 0.02, "fit_seconds": seconds, "fit_cpu_seconds": seconds,
        "predict_seconds": 0.01, "converged": True, "trial": False, "command": "x", "device": "cpu", "threads": 1,
        "commit": "abc", "versions": {}, "seconds": 1.0, "batch_runs": 1,
    }  # fmt: skip
    return [{**shared, "seed": seed, "log_loss": float(loss), **further} for seed, loss in enumerate(losses)]


BASE = 0.5 + 0.1 * np.sin(np.arange(20))  # splits differ, and what is paired does not
WOBBLE = 0.004 * np.cos(np.arange(20))


def compared_with(ours, **further):
    """Records of both models on two data sets: as given on glass, and much better on vowel."""
    records = [*made_up("glass", BASELINE, BASE), *made_up("glass", OURS, ours, **further)]
    return [*records, *made_up("vowel", BASELINE, BASE), *made_up("vowel", OURS, 0.6 * BASE)]


def promise_lines(records):
    lines = benchmark.promises(Results(records, "dataset", "model"), ["glass", "vowel"])
    assert len(lines) == 5
    return lines


@pytest.mark.exhaustive
@needs_new_sklearn
def test_a_part_is_run_and_reported(tmp_path):
    part = benchmark.EXPERIMENT.narrow(datasets=["breast cancer"], models=[BASELINE, "MLPClassifier"], seeds=2)
    state = sweep(part, tmp_path, Resources())
    assert (state.now, state.failed) == (4, [])
    records = read_records(tmp_path)
    assert all(record["settings"]["splits"] for record in records)
    assert all(record["threads"] == 1 and record["fit_seconds"] > 0 < record["predict_seconds"] for record in records)
    base = [record for record in records if record["model"] == BASELINE]
    assert all(record["accuracy"] > 93 and record["log_loss"] < 0.2 for record in base)
    text, table = render(part, state, tmp_path)
    again = sweep(part, tmp_path, Resources(), render_only=True)
    assert (again.before, again.total) == (4, 4)
    before = text.read_text(), table.read_text()
    render(part, again, tmp_path)
    assert (text.read_text(), table.read_text()) == before


def test_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), size=50)
    p[0] = [1.0, 0.0, 0.0, 0.0]
    y = np.r_[1, rng.integers(0, 4, 49)]
    found = study.scores(y, p)
    assert found["log_loss"] == pytest.approx(sklearn.metrics.log_loss(y, p, labels=range(4)))
    assert found["accuracy"] == pytest.approx(100 * sklearn.metrics.accuracy_score(y, p.argmax(1)))
    assert found["brier"] == pytest.approx(np.mean([((row - np.eye(4)[k]) ** 2).sum() for row, k in zip(p, y)]))  # noqa: B905


@pytest.mark.parametrize(("ours", "further", "broken"), [
    (BASE + WOBBLE, {"seconds": 3.0}, []),
    (1.01 * BASE + 0.2 * WOBBLE, {}, [0]),
    (BASE, {"accuracy": 89.0}, [0]),
    (1.05 * BASE, {}, [0, 1]),
    (BASE + 0.02 + 0.3 * np.cos(np.arange(20)), {}, []),  # more than 2 %, but less than one standard error
    (BASE, {"seconds": 40.0}, [3, 4]),
], ids=["none", "log-loss", "accuracy", "far above", "by chance", "slow"])  # fmt: skip
def test_which_promises_are_broken(ours, further, broken):
    lines = promise_lines(compared_with(ours, **further))
    assert [number for number, line in enumerate(lines) if "does not hold: " in line] == broken
    assert all(": holds. " in line for number, line in enumerate(lines) if number not in broken)
    assert not any("vowel" in lines[number] for number in broken)


def test_what_cannot_be_tested_is_said():
    one = promise_lines([record for record in compared_with(BASE) if record["seed"] == 0])
    assert "not tested" in one[0]
    assert "not tested" in one[2]
    assert all("not tested" in line for line in promise_lines(made_up("glass", BASELINE, BASE)))


def test_the_report_has_all_parts_in_whatever_order_records_come(tmp_path):
    link = {"link": "CompositeLink", "alpha": 0.01, "link_alpha": 0.5}
    records = compared_with(1.1 * BASE)
    records = [{**record, **link} if record["model"] == OURS else record for record in records]
    records[20] |= {"link_alpha": "inf"}
    variant = next(iter(benchmark.ABLATION))
    records += made_up("glass", variant, 1.3 * BASE + WOBBLE, **link)
    text, table, picture = benchmark.report(records, tmp_path)
    written = text.read_text()
    for part in (
        "| glass | 100 x 3, 4 | 90.00 / 0.5",
        "90.00 / *0.5",
        "90.00 / **0.3",
        "Incomplete: ",
        "does not hold",
    ):
        assert part in written
    assert "| glass | 1 of 20 | 0.01 | 0.5 |" in written
    assert "| ratio to the default, geometric mean | 1 | 1.18" in written
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "link_alpha" in table.read_text().splitlines()[0]
    benchmark.report(records[::-1], tmp_path)
    assert text.read_text() == written
