import pytest

from legendretron.experiments import Resources, read_records, sweep
from legendretron.paper import EXPERIMENTS


def test_times_are_extrapolated_and_added_up(tmp_path):
    experiment = EXPERIMENTS["runtime"].narrowed(datasets=["iris", "wine"])
    asked = experiment.settings("LegendreTron", "iris")
    assert asked["trainings"] == 60
    state = sweep(experiment.shortened(4), tmp_path, Resources())
    assert state.failed == []
    records = read_records(tmp_path / "runs")
    for record in records:
        extrapolated = record["seconds_to_start"] + 4 * record["seconds_an_epoch"] + record["seconds_to_evaluate"]
        assert record["extrapolated_seconds"] == pytest.approx(extrapolated, abs=0.02)
        assert record["steps_an_epoch"] == {"iris": 2, "wine": 3}[record["dataset"]]
    text = experiment.report(records, tmp_path)[0].read_text()
    assert "240 trainings" in text
    assert "# Time of a part of the table" in text
    assert "CPU month" not in text
    assert "extrapolated" in text


def test_random_data_have_the_published_shapes():
    from legendretron.paper.runtime.experiment import random_data

    X, y = random_data("news20")
    assert X.shape == (15935, 62061)
    assert 79 < X.nnz / X.shape[0] <= 80
    assert y.max() == 19
