"""Tables that are not like that of the fit: by ``predict`` and ``evaluate``, on the terminal, in JSON and on the page."""

import numpy as np
import pandas as pd
import pytest

LOGISTIC = ["--model", "logistic", "--alpha", "0.01", "--quiet"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with text and one of numbers, and the same with other values."""
    path, rng, n = tmp_path_factory.mktemp("drift"), np.random.default_rng(0), 300
    frame = pd.DataFrame({"Job": rng.choice(["cook", "smith"], n), "Age": rng.normal(40, 10, n).round(1)})
    frame["paid"] = np.where((frame["Job"] == "cook") ^ (rng.random(n) < 0.2), "yes", "no")
    frame.to_csv(path / "train.csv", index=False)
    frame.assign(Job="baker", Age=frame["Age"] * 100).to_csv(path / "other.csv", index=False)
    frame.assign(Job=None).to_csv(path / "empty.csv", index=False)
    numbers = frame.drop(columns="Job")
    numbers.to_csv(path / "numbers.csv", index=False)
    numbers.assign(Age=numbers["Age"] * 100).to_csv(path / "other_numbers.csv", index=False)
    return path


@pytest.fixture
def models(run, folder):
    for name in ("train", "numbers"):
        model = folder / f"{name}.safetensors"
        if not model.exists():
            run("fit", folder / f"{name}.csv", "-t", "paid", "--out", model, *LOGISTIC)
    return folder


UNKNOWN = ["Job: 300 of 300 values unknown", "Age: 300 of 300 values far outside the range of the fit, "]
CASES = [
    ("train", "other", UNKNOWN),
    ("train", "empty", ["Job: 300 of 300 values missing"]),
    ("numbers", "other_numbers", ["Age: 300 of 300 values more than 5 standard deviations from the mean of the fit, "]),
    ("train", "train", []),
    ("numbers", "numbers", []),
]


@pytest.mark.parametrize(("model", "data", "said"), CASES)
def test_predict_and_evaluate_say_so(run, models, tmp_path, model, data, said):
    files = [models / f"{model}.safetensors", models / f"{data}.csv"]
    for words in (["predict", *files, "--proba"], ["evaluate", *files, "-t", "paid"]):
        lines = run(*words).err.splitlines()
        assert len(lines) == len(said)
        assert all(line.startswith(f"warning: {start}") for line, start in zip(lines, said, strict=True))
        found = run(*words, "--json", "--quiet").json["drift"]
        assert [f"warning: {column['text']}" for column in found] == lines
        assert all((column["values"], column["of"]) == (300, 300) for column in found)
        assert run(*words, "--quiet").err == ""
    words = ["predict", *files, "--out", tmp_path / "p.csv", "--json"]
    assert run(*words).json["drift"] == found
    streamed = run(*words, "--stream")
    assert streamed.json["drift"] == found
    assert streamed.err.splitlines() == lines
    assert run("evaluate", *files, "-t", "paid", "--stream", "--json").json["drift"] == found


def test_batches_are_counted_together(run, models, tmp_path, monkeypatch):
    monkeypatch.setattr("legendretron.datasets.table_parts.ROWS_AT_ONCE", 64)
    words = ["predict", models / "train.safetensors", models / "other.csv", "--stream", "--out", tmp_path / "p.csv"]
    assert "warning: Job: 300 of 300 values unknown\n" in run(*words).err


def test_the_page_and_a_calibrated_model_say_so(run, models, tmp_path):
    page, calibrated = tmp_path / "page.html", tmp_path / "c.safetensors"
    run("evaluate", models / "train.safetensors", models / "other.csv", "-t", "paid", "--report", page)
    assert "Job: 300 of 300 values unknown" in page.read_text()
    words = [models / "train.safetensors", models / "train.csv", "-t", "paid", "--strength", "1", "--out", calibrated]
    run("calibrate", *words)
    assert "Job: 300 of 300 values unknown" in run("predict", calibrated, models / "other.csv").err


def test_a_column_of_that_name_cannot_be_kept_in_json(run, models, tmp_path):
    pd.read_csv(models / "train.csv").assign(drift=1).to_csv(tmp_path / "a.csv", index=False)
    words = ["predict", models / "train.safetensors", tmp_path / "a.csv", "--keep", "drift"]
    assert "'drift' is the name of a column of predictions" in run(*words, "--json", code=2).error
    assert run(*words).out.startswith("drift,prediction\n")
