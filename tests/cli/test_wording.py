"""Messages in the words of the command line, with the way out."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from legendretron._internal.parameters import spell
from legendretron.datasets import read_table
from tests.cli.conftest import FIXED, make_iris
from tests.cli.test_outputs import as_nobody


@pytest.mark.parametrize(("words", "text"), [
    (["solver", "adam"], "--solver adam"), (["max_epochs", 5], "--epochs 5"), (["random_state"], "--seed"),
    (["decimal", ","], "--decimal ','"), (["categorical", "a name"], "--categorical 'a name'"), (["X"], "the data"),
    (["no_option", 1], "no_option=1"),
])  # fmt: skip
def test_parameters_are_spelled_as_options(monkeypatch, run, words, text):
    said = []
    monkeypatch.setattr("legendretron.datasets.dataset_status", lambda data: said.append(spell(*words)) or [])
    run("datasets")
    assert said == [text]
    assert spell("solver", "adam") == "solver='adam'"  # in Python


def test_numbers_in_messages_are_plain(monkeypatch, run):
    def refuse(data):
        raise ValueError(f"got {np.float64(0.5)!r}.")

    monkeypatch.setattr("legendretron.datasets.dataset_status", refuse)
    assert run("datasets", code=1).error == "got 0.5."


@pytest.mark.parametrize(("option", "value"), [
    ("--learning-rate", "0"), ("--validation", "0"), ("--validation", "1"), ("--seed", 2**32), ("--seed", -1),
    ("--epochs", 10**30),
    ("--epochs", 0), ("--batch-size", 10**30), ("--device", "nonsense"), ("--device", "meta"), ("--device", "cuda:-1"),
    ("--device", ""), ("--dtype", "float16"), ("--solver", "sgd"), ("--class-weight", "heavy"), ("--format", "xls"),
])  # fmt: skip
def test_bad_values_are_wrong_usage(run, tables, tmp_path, option, value):
    error = run("fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", option, value, code=2).error
    assert f"'{option}'" in error
    assert len(error) < 400


@pytest.mark.parametrize("words", [[], ["--model", "logistic"]])
def test_checkpoint_needs_adam(run, tables, tmp_path, words):
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", "--seed", 0, "--checkpoint", "c", *words]
    assert "'--checkpoint': it needs --solver adam, got 'lbfgs'" in run(*words, "--solver", "lbfgs", code=2).error


def test_a_fit_that_diverges_names_the_option(run, tables, tmp_path):
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", "--seed", 0, "--learning-rate", "1e300"]
    assert run(*words, *FIXED, code=1).error.endswith("; lower --learning-rate, or scale the features.")
    printed = run(*words, "--epochs", 2).out
    assert "model: logistic regression, alpha " in printed
    assert ": all learned links have diverged; lower --learning-rate\n" in printed


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_a_forgotten_target_is_asked_for(run, tables, tmp_path, end):
    """Also where the labels are words, which are no features."""
    table = tmp_path / f"t.{end}"
    make_iris().to_csv(table, index=False) if end == "csv" else make_iris().to_parquet(table)
    for words in (["fit", table, "-o", tmp_path / "m"], ["evaluate", tables / "iris.safetensors", table]):
        error = run(*words, code=2).error
        assert "'--target': which column" in error
        assert "There are: sepal length, sepal width, petal length, petal width, kind;" in error


def test_many_columns_are_not_all_listed(run, tmp_path):
    (tmp_path / "wide.csv").write_text(",".join(f"column{i}" for i in range(500)) + "\n" + ",".join(["1"] * 500) + "\n")
    assert "column19 and 480 more; see" in run("fit", tmp_path / "wide.csv", "-o", tmp_path / "m", code=2).error


def test_the_target_is_no_feature(run, tables, tmp_path):
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m"]
    for option in ("--features", "--drop"):
        assert f"'{option}': 'kind' is the target" in run(*words, option, "kind", code=2).error
    words = ["evaluate", tables / "iris.safetensors", tables / "iris.csv", "-t", "sepal width"]
    assert "'--target': 'sepal width' is a feature of the model" in run(*words, code=2).error


@pytest.mark.parametrize(("share", "rows", "message"), [
    (0.1, "x y x y x y z", "class 'z' has one row, but needs two"),
    (0.1, "x y x y x y", "0.1 of 6 rows is 1, but at least 2 are needed"),
    (0.9, "x y x y x y", "0.9 of 6 rows is 6, but at least 2 are needed"),
])  # fmt: skip
def test_shares_that_cannot_be_held_out(run, tmp_path, share, rows, message):
    lines = [f"{i},{i % 3},{label}" for i, label in enumerate(rows.split())]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,kind", *lines]) + "\n")
    error = run("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m", "--validation", share, code=2).error
    assert f"'--validation': {message}" in error
    assert "leave out --validation" in error
    assert not (tmp_path / "m").exists()


def test_numbers_that_are_too_large(run, tmp_path):
    """One line, without numpy's own warnings, and in words that need no Python."""
    for size, words, message in (
        ("e300", [], "the data has features too large to take a variance of"),
        ("e50", ["--dtype", "float32"], "too large for dtype('float32')."),
    ):
        rows = "".join(f"{i}{size},{'xy'[i % 2]}\n" for i in range(9))
        (tmp_path / "t.csv").write_text(f"a,kind\n{rows}")
        assert message in run("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m", *words, code=1).error


def test_model_and_data_in_the_wrong_order(run, tables):
    words = [tables / "iris.csv", tables / "iris.safetensors"]
    for error in (run("predict", *words, code=1).error, run("evaluate", *words, "-t", "kind", code=1).error):
        assert error.endswith("iris.csv' is a table, not a model; give the model first, then the data.")
    assert "is a folder, but a file is needed" in run("predict", tables, tables / "iris.csv", code=1).error


def test_a_label_among_features_without_names(run, tmp_path):
    (tmp_path / "t.libsvm").write_text("0 1:1 2:3\n1 1:2\n" * 4)
    run("fit", tmp_path / "t.libsvm", "-o", tmp_path / "m", "--epochs", 1, "--quiet")
    (tmp_path / "t.csv").write_text("a,b,kind\n1,2,x\n")
    error = run("predict", tmp_path / "m", tmp_path / "t.csv", code=1).error
    assert "has 3: 'a', 'b', 'kind'; leave only the model's, in their order." in error
    (tmp_path / "t.csv").write_text("a,b\n1,x\n")
    assert "columns that are not numbers" in run("predict", tmp_path / "m", tmp_path / "t.csv", code=1).error
    assert run("predict", tmp_path / "m", tmp_path / "none.csv", code=1).error.endswith("none.csv' does not exist.")


def test_formats_that_the_name_does_not_tell(run, tables, tmp_path):
    for words in (["fit", "t.txt", "-t", "y", "-o", tmp_path / "m"], ["predict", tables / "iris.safetensors", "t.txt"]):
        error = run(*words, code=2).error
        assert "'--format': the name of 't.txt' does not tell its format; give one of csv, tsv, parquet," in error


def test_a_pipe_is_no_file(run, tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    error = run("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m", code=1).error
    assert error.endswith("is a pipe, which can be read only once; write the data to a file first.")


def test_a_file_without_permission(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    Path("t.csv").write_text("a,kind\n1,x\n")
    Path("t.csv").chmod(0)
    with as_nobody(), pytest.raises(ValueError, match="cannot be read") as refused:
        read_table("t.csv", "kind")
    assert str(refused.value) == "'t.csv' cannot be read: Permission denied."


def test_no_minus_before_a_zero(run, tables, tmp_path):
    """The baseline of a table with one class is certain, and right."""
    frame = make_iris()
    frame[frame["kind"] == "setosa"].to_csv(tmp_path / "one.csv", index=False)
    words = ["evaluate", tables / "iris.safetensors", tmp_path / "one.csv", "-t", "kind"]
    printed = run(*words).out
    assert "0.0000" in printed
    assert "-0.0000" not in printed
    assert "-0.0" not in json.dumps(run(*words, "--json").json["baseline"])
