"""Numbers in the documents are those of the recorded results."""

import csv
import importlib.util
import json
import math
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_iris
from torch.utils.data import DataLoader, TensorDataset

from legendretron import MultinomialLogisticClassifier
from legendretron.cli import main
from legendretron.experiments import Resources, read_records, sweep
from legendretron.experiments.results import in_order
from legendretron.experiments.store import round_floats
from legendretron.paper import EXPERIMENTS
from tests.estimators.test_table_classifier import benchmark as mixed_tables

ROOT = Path(__file__).resolve().parent.parent


def imported(path):
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


render = imported(ROOT / "docs" / "render.py")
STUDIES = [path.stem for path in (ROOT / "benchmarks").glob("*.py") if "EXPERIMENT = study." in path.read_text()]
#: the paper's experiments and those of benchmarks
DECLARED = {**EXPERIMENTS, **{name: importlib.import_module(name).EXPERIMENT for name in sorted(STUDIES)}}


@pytest.mark.parametrize("document", render.TABLES)
def test_tables_are_those_of_the_records(document):
    assert render.rendered(document) == (ROOT / document).read_text()


@pytest.mark.parametrize("script", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_use_what_the_library_has(script):
    imported(script)  # raises an ImportError if a name has been moved


def test_counterexample_of_the_theory_page():
    low, high = json.loads((ROOT / "docs/results/theory.json").read_text())["counterexample_eigenvalues"]
    assert f"eigenvalues {low:.2f} and {high:.2f}" in (ROOT / "docs/theory.md").read_text()


def test_every_record_tells_where_it_comes_from():
    for path in (ROOT / "docs/results").rglob("*.json"):
        record = json.loads(path.read_text())
        for key in ("command", "commit", "device", "versions", "threads"):
            assert record.get(key), f"{path.name} lacks {key}"


@pytest.mark.parametrize("name", DECLARED)
def test_a_sweep_finds_all_records(name):
    folder = ROOT / "docs/results" / name
    state = sweep(DECLARED[name], folder, Resources(), render_only=True)
    assert state.before == len(read_records(folder)) > 0


#: of which the report takes seconds
LARGE = ("calibration", "label_noise", "other_tables")


@pytest.mark.parametrize("folder", [
    pytest.param(path.parent, id=path.parent.name, marks=pytest.mark.exhaustive if path.parent.name in LARGE else ())
    for path in sorted((ROOT / "docs/results").glob("*/runs.jsonl"))
])  # fmt: skip
def test_reports_are_those_of_the_records(folder, tmp_path):
    """What `legendretron reproduce` has written follows from the runs that lie beside it."""
    records = {record["key"]: record for record in read_records(folder)}.values()
    name = next(iter(records))["experiment"]
    declared = DECLARED[name]
    axes = {"dataset": declared.datasets, "model": declared.models, "noise": declared.noise, "size": declared.sizes}
    again = declared.report(in_order(records, **axes), tmp_path)
    written, made = (cells(path / f"{name}.csv") for path in (folder, tmp_path))
    assert [len(row) for row in made] == [len(row) for row in written]
    assert [pair for rows in zip(made, written, strict=True) for pair in zip(*rows, strict=True) if differ(*pair)] == []
    text = (tmp_path / f"{name}.md").read_text()
    assert text == (folder / f"{name}.md").read_text()
    assert len(again) >= 2


def cells(path):
    with path.open() as file:
        return list(csv.reader(file))


def differ(a, b):
    """Whether two cells are different texts, or numbers that differ by more than their last written digit."""
    try:
        x, y = float(a), float(b)
    except ValueError:
        return a != b
    if math.isnan(x):
        return not math.isnan(y)
    # ten digits; of differences, which end at the twelfth decimal place, as many as that leaves
    return not math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-12 if round(y, 12) == y else 0.0)


def test_numbers_in_tables_and_records_are_rounded():
    """So that files are the same on every machine; what a sweep records is kept as it was measured."""
    for path in (ROOT / "docs/results").glob("*.json"):
        content = json.loads(path.read_text())
        assert round_floats(content) == content, path.name
    for path in (ROOT / "docs/results").rglob("*.csv"):
        for text in (text for row in cells(path) for text in row if re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", text)):
            assert text == str(round_floats(float(text))), path.name


def test_local_links_lead_somewhere():
    for document in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        if "_build" in document.parts:
            continue
        text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def blocks(document, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "docs" / document).read_text(), re.DOTALL | re.MULTILINE)


def run_page(document, **names):
    """Run the Python of a page, with some names defined; return all names."""
    exec(compile("\n".join(blocks(document)), document, "exec"), names)
    return names


def run_commands(text):
    for line in filter(None, text.splitlines()):
        assert main(shlex.split(line)[1:]) == 0


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in, where plots are not shown."""
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_on_writing_a_link_runs_and_shows_the_link_that_is_tested(folder, capsys):
    link, use = blocks("writing_a_link.md")
    module = (ROOT / "tests/leaky_link.py").read_text()
    assert module.endswith(link.removeprefix("import torch"))
    exec(compile("import tests.leaky_link\n" + use, "writing_a_link.md", "exec"), {})
    assert "Parameter" in capsys.readouterr().out
    assert (folder / "iris.safetensors").exists()


@pytest.mark.exhaustive
def test_the_page_on_choosing_runs(folder, capsys):
    run_page("choosing.md")
    assert "logistic regression" in capsys.readouterr().out
    assert (folder / "tuning.png").exists()


@pytest.mark.exhaustive
def test_the_page_on_sets_runs(folder, capsys):
    names = run_page("guide/sets.md")
    held, size = map(float, capsys.readouterr().out.splitlines()[0].split())
    assert held > 0.93
    assert size < 1.5
    assert names["parts"].resolution.low > 1.0
    assert (names["soft"].predict(names["X"]) == names["y"]).mean() > 0.9


@pytest.mark.exhaustive
def test_the_page_on_wrong_labels_runs(folder, capsys):
    names = run_page("guide/noisy_labels.md")
    low, high = names["clf"].noise_rate_interval_
    assert low < np.mean(names["y"] != names["true"]) < high
    assert float(capsys.readouterr().out.split()[-1]) > 0.8  # share of truly wrong labels among the suspicious ones
    (folder / "suspicious.png").unlink()
    pd.DataFrame(names["X"], columns=list("abcd")).assign(label=names["y"]).to_csv("train.csv", index=False)
    run_commands("\n".join(blocks("guide/noisy_labels.md", "sh")))
    assert "wrong labels: 10 %, as given" in capsys.readouterr().out
    assert pd.read_csv("suspicious.csv").columns.tolist() == ["line", "row_from_0", "label", "suggested", "quality"]
    assert (folder / "suspicious.png").exists()


@pytest.mark.exhaustive
def test_the_section_on_tables_larger_than_memory_runs(folder):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 2)), rng.integers(0, 2, 120)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(label=y)
    (folder / "folder_of_parquet_files").mkdir()
    (folder / "folder").mkdir()
    frame.assign(id=np.arange(120)).to_parquet("folder_of_parquet_files/0.parquet", index=False)
    for name in ("part-0", "train-0", "test-0", "folder/0"):
        frame.to_parquet(f"{name}.parquet", index=False)
    frame.to_csv("test-0.csv", index=False)
    np.save("X.npy", X)
    names = {"y": y, "torch_data_loader": DataLoader(TensorDataset(torch.as_tensor(X), torch.as_tensor(y)))}
    names |= {"X1": X[:50], "y1": y[:50], "X2": X[50:], "y2": y[50:], "weight2": np.ones(70)}
    text = (ROOT / "docs/guide/large_data.md").read_text()
    section = re.search(r"^## Tables larger than memory\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)[1]
    for language, block in re.findall(r"^```(python|sh)\n(.*?)^```$", section, re.DOTALL | re.MULTILINE):
        if language == "python":
            exec(compile(block, "guide", "exec"), names)
        else:
            run_commands(block)
    assert len(pd.read_parquet("predictions.parquet")) == 120


@pytest.mark.exhaustive
def test_the_page_on_text_dates_and_gaps_runs(folder, capsys):
    frame, y = mixed_tables.titanic()
    frame.assign(survived=y).to_csv("titanic.csv", index=False)
    run_commands(*blocks("guide/mixed_tables.md", "sh"))
    assert pd.read_csv("predictions.csv").columns.tolist() == ["ticket", "prediction", "p(0)", "p(1)"]
    capsys.readouterr()
    with pytest.warns(UserWarning, match="'Sweden  Worcester, MA' and 'Sweden Worcester, MA'"):
        run_page("guide/mixed_tables.md")
    assert "'sex=female': " in capsys.readouterr().out
    assert (folder / "clf.onnx").exists()


@pytest.mark.exhaustive
def test_the_page_on_finished_classifiers_runs(folder):
    names = run_page("guide/calibration.md")
    y = names["y"][1200:]
    before = names["forest"].predict_proba(names["X"][1200:])
    own = [np.log(np.maximum(p[np.arange(len(y)), y], 1e-15)).mean() for p in (before, names["p"])]
    assert own[1] > own[0] + 0.1
    assert (folder / "calibrator.onnx").exists()


@pytest.mark.exhaustive
def test_the_commands_for_finished_classifiers_run(folder):
    (shell,) = blocks("guide/calibration.md", "sh")
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=y).iloc[order]
    train, rest = frame[:50], {"calibration": frame[50:100], "test": frame[100:]}
    model = MultinomialLogisticClassifier(alpha=1e-4).fit(train[list("abcd")], train["label"])
    model.save("model.safetensors")
    for name, file in (("calibration", "predictions"), ("test", "test_predictions")):
        rest[name].to_csv(f"{name}.csv", index=False)
        p = pd.DataFrame(model.predict_proba(rest[name][list("abcd")]), columns=["0", "1", "2"])
        p.assign(label=rest[name]["label"].to_numpy()).to_csv(f"{file}.csv", index=False)
    written = []
    for line in shell.splitlines():
        run_commands(line)
        if " predict " in line:
            written.append(pd.read_csv("probabilities.csv"))
    assert (folder / "reliability.png").exists()
    pd.testing.assert_frame_equal(*written, rtol=1e-6)  # the same model, calibrated in two ways
