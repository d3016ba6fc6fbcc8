import pytest

from legendretron.experiments import Resources, read_records, sweep
from legendretron.paper import EXPERIMENTS, runtime


@pytest.mark.parametrize("whole_below", [0.0, pytest.param(60.0, marks=pytest.mark.exhaustive)])
def test_times_are_extrapolated_and_added_up(tmp_path, monkeypatch, whole_below):
    monkeypatch.setattr(runtime, "_WHOLE_BELOW", whole_below)
    monkeypatch.setattr(runtime, "_STEPS", 1)  # three epochs
    experiment = EXPERIMENTS["runtime"].narrow(datasets=["iris", "wine"])
    asked = experiment.settings("LegendreTron", "iris")
    assert asked["trainings"] == 60
    assert asked["timed_epochs"] == 3
    state = sweep(experiment.shorten(4), tmp_path, Resources())
    assert state.failed == []
    records = read_records(tmp_path)
    for record in records:
        extrapolated = record["seconds_to_start"] + 4 * record["seconds_an_epoch"] + record["seconds_to_evaluate"]
        assert record["timed_epochs"] == (4 if whole_below else 3)
        assert record["seconds_of_all"] == pytest.approx(extrapolated, abs=0.02)
        assert record["steps_an_epoch"] == {"iris": 2, "wine": 3}[record["dataset"]]
    text = experiment.report(records, tmp_path)[0].read_text()
    assert "240 trainings" in text
    assert "# Time to train a part of the table" in text
    assert "CPU month" not in text
    assert f"{4 if whole_below else 0} of 4 rows timed from the first epoch to the last" in text


def test_random_data_have_the_published_shapes():
    X, y = runtime.random_data("news20")
    assert X.shape == (15935, 62061)
    assert 79 < X.nnz / X.shape[0] <= 80
    assert y.max() == 19
