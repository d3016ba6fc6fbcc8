"""One line and an exit code for everything that goes wrong."""

import errno
import importlib
import json
import os
import pickle
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import legendretron.cli.outputs
from legendretron import CanonicalLink, __version__
from legendretron.links import save_link
from tests.cli.conftest import FIXED, make_iris


def fit_words(tables, tmp_path):
    return ["fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", "--epochs", 1, "--seed", 0, *FIXED]


def test_entry_point():
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["legendretron"].partition(":")
    assert getattr(importlib.import_module(module), function) is legendretron.cli.main


def test_version_and_help(run):
    assert run("--version").out == f"legendretron {__version__}\n"
    assert run().out == run("--help").out


@pytest.mark.parametrize(("words", "message"), [
    (["fitt"], "No such command 'fitt'"),
    (["fit", "a.csv"], "Missing option '--out'"),
    (["fit", "a.csv", "-o", "m", "--link", "cubic"], "--link"),
    (["fit", "a.csv", "-o", "m", "--link", "noisy"], "--link': it must be that of the true labels"),
    (["fit", "a.csv", "-o", "m", "--color", "red"], "--color"),
    (["fit", "a.csv", "-o", "m", "--model", "logistic", "--link-param", "hidden=3"], "'--link-param': it is for"),
    (["fit", "a.csv", "-o", "m", "--link-param", "width"], "'--link-param': it must be NAME=VALUE, got 'width'"),
    (["fit", "a.csv", "-o", "m", "--link-param", "width=3"], "'--link-param': --link-param holds 'width'"),
    (["fit", "a.csv", "-o", "m", "--link-param", "network=x"], "'--link-param': network must be one of 'ficnn', 'cpflow'"),
    (["fit", "a.csv", "-o", "m", "--alpha", "x"], "'--alpha': it must be 'auto' or a number in the range [0"),
    (["fit", "a.csv", "-o", "m", "--alpha", "-1"], "'--alpha': it must be 'auto' or a number in the range [0"),
    (["fit", "a.csv", "-o", "m", "--epochs", "0"], "'--epochs': it must be 'auto' or an int in the range [1"),
    (["fit", "a.csv", "-o", "m", "--cv", "1"], "--cv"),
    (["fit", "a.csv", "-o", "m", "--cv", "3", *FIXED], "'--cv': it applies only if penalties are chosen"),
    (["fit", "a.csv", "-o", "m", "--tuning", "t.doc"], "'--tuning': 't.doc' must end in .csv or .tsv or .parquet or .png"),
    (["fit", "a.csv", "-o", "m", "--model", "logistic", "--link-alpha", "1e-4"], "it is for --model linear"),
    (["fit", "a.csv", "-o", "m", "--validation", "1.5"], "a number in the range (0.0, 1.0), got 1.5"),
    (["fit", "a.csv", "-o", "m", "--checkpoint", "c"], "--seed"),
    (["predict", "m", "a.csv", "-o", "p.xlsx"], "must end in .csv or .tsv or .parquet"),
    (["fit", "t.txt", "-t", "y", "-o", "m"], "'--format': the name of 't.txt' does not tell its format; give one of csv,"),
])  # fmt: skip
def test_wrong_usage(run, words, message):
    error = run(*words, code=2).error
    assert message in error
    assert "--help" in error
    ran = run(*words, "--json", code=2)
    assert ran.json["error"] == ran.error


@pytest.mark.parametrize("words", [["fit", "-t", "y", "-o", "m"], ["predict", "m"], ["evaluate", "m", "-t", "y"]])
def test_no_such_file(run, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = "'none.csv' does not exist." if words[0] == "fit" else "there is no file 'm'"
    assert run(*words, "none.csv", code=1).error == message
    assert list(tmp_path.iterdir()) == []


def test_bad_models(run, tables, tmp_path):
    for content in (b"", b"nonsense", pickle.dumps([1]), (tables / "iris.safetensors").read_bytes()[:-4]):
        (tmp_path / "m").write_bytes(content)
        assert "damaged or not a file of legendretron" in run("predict", tmp_path / "m", "a.csv", code=1).error
    save_link(CanonicalLink(3), tmp_path / "m")
    assert "holds a link, but LegendreTronClassifier or " in run("predict", tmp_path / "m", "a.csv", code=1).error


def test_a_checkpoint_that_is_somebodys_data(run, tables, tmp_path):
    data = tmp_path / "iris.csv"
    data.write_bytes((tables / "iris.csv").read_bytes())
    for path in (data, tables / "iris.safetensors"):
        before = path.read_bytes()
        error = run(*fit_words(tables, tmp_path), "--checkpoint", path, code=2).error
        assert "'--checkpoint': it must be a path at which there is nothing" in error
        assert path.read_bytes() == before


def test_disk_full(run, tables, tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device", "/some/.temporary")

    monkeypatch.setattr("legendretron._internal.artifacts.write_atomically", full)
    monkeypatch.setattr("legendretron.cli.outputs.atomic_file", lambda path: full(path, b""))
    out = tmp_path / "m"
    message = "no space left on the disk for {!r}; free some, or write elsewhere"
    assert run(*fit_words(tables, tmp_path), code=1).error == message.format(str(out))
    ran = run("predict", tables / "iris.safetensors", tables / "iris.csv", "-o", tmp_path / "p.csv", "--json", code=1)
    assert ran.json["error"] == message.format(str(tmp_path / "p.csv"))


def test_without_pandas(run, tables, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    error = run(*fit_words(tables, tmp_path), code=1).error
    assert "needs pandas: pip install 'legendretron[tables]'." in error


def test_without_typer(monkeypatch, capsys):
    from legendretron.cli import main

    for name in [name for name in sys.modules if name.startswith("legendretron.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "typer", None)
    assert main(["fit", "--json"]) == 1
    out, err = capsys.readouterr()
    assert err == "error: the command line needs typer: pip install 'legendretron[cli]'.\n"
    assert json.loads(out)["error"] in err


def test_debug(run, tmp_path, monkeypatch):
    words = ["predict", tmp_path / "none", "a.csv"]
    for ran in (run(*words, "--debug", code=1), monkeypatch.setenv("LEGENDRETRON_DEBUG", "1") or run(*words, code=1)):
        assert "Traceback" in ran.err
        assert ran.err.splitlines()[-1] == f"error: there is no file {str(tmp_path / 'none')!r}"
    monkeypatch.setenv("LEGENDRETRON_DEBUG", "0")
    assert "Traceback" not in run(*words, code=1).err


def test_names_are_shown_as_they_are(run, tmp_path):
    """Nothing in the data is taken for markup, an emoji or a control sequence."""
    frame = make_iris().replace({"setosa": "[bold]x[/bold]", "versicolor": ":smile:"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    printed = run("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m", "--epochs", 1, "--seed", 0).out
    assert "[bold]x[/bold]" in printed
    assert ":smile:" in printed
    frame["bad\x1b[31mname\nlines"] = "w\x1b[31m"
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m", "--epochs", 1, "--seed", 0]
    printed = run(*words, "--model", "logistic", "--alpha", 1).out
    assert "\x1b" not in printed
    assert "bad?[31mname lines" in printed
    error = run(*words, "--drop", "sepal\x1b[31m", code=1).error
    assert error.isprintable()


def test_control_characters_of_data_stay_out_of_terminal_and_page(run, tmp_path, monkeypatch):
    """An escape sequence could hide or forge lines of a terminal, and a mark of direction turns letters around."""
    monkeypatch.chdir(tmp_path)
    name = "t\x1b]0;x\x07\u202e\udcff.csv"  # the last is a byte that is not UTF-8
    labels = {
        "setosa": "a\x1b[31m\nrows 0",
        "versicolor": "b\x9b2J\u202e",
        "virginica": "\u0645\u06cc\u200c\u062e\u0648",
    }
    frame = make_iris()[::3].replace(labels)
    frame["color\x1b[2J"] = "c\x1b[31m"
    frame.to_csv(name, index=False)
    words = ["-t", "kind", "-o", "m\x1b[31m", "--model", "logistic", "--alpha", 1]
    ran = [run("fit", name, *words), run("predict", "m\x1b[31m", name, "-o", "p\x1b[31m.csv")]
    other = frame.replace({"c\x1b[31m": "d\x1b[31m"})
    other.to_csv("other.csv", index=False)
    ran.append(run("evaluate", "m\x1b[31m", "other.csv", "-t", "kind"))
    assert "warning: color?[2J: 50" in ran[-1].err
    ran.append(run("evaluate", "m\x1b[31m", name, "-t", "kind", "--report", "r.html", "--plot", "r\x1b[31m.svg"))
    ran.append(run("suspicious", "m\x1b[31m", name, "-t", "kind", "--no-refit", "-o", "s\x1b[31m.csv"))
    ran.append(run("calibrate", "m\x1b[31m", name, "-t", "x\x1b[31m", "-o", "c\x1b[31m", "--debug", code=1))
    texts = [text for each in ran for text in (each.out, each.err)] + [Path("r.html").read_text()]
    for text in texts:
        assert {letter for letter in text if not letter.isprintable()} <= set("\n\t\N{NO-BREAK SPACE}\u200c")
    assert "a?[31m rows 0" in ran[2].out
    assert labels["virginica"] in ran[2].out, "a letter that joins or parts others is part of a word"
    ElementTree.parse("r\x1b[31m.svg")
    # what programs read has all characters
    assert labels["setosa"] in Path("p\x1b[31m.csv").read_text()
    assert labels["setosa"] in run("predict", "m\x1b[31m", name).out
    assert labels["setosa"] in run("predict", "m\x1b[31m", name, "--json").json["prediction"]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "a?[31m\n" in run("predict", "m\x1b[31m", name).out


def test_warnings_are_lines(run, tables, tmp_path):
    words = [*fit_words(tables, tmp_path)[: -len(FIXED)], "--model", "logistic", "--alpha", "1e-4"]
    ran = run(*words)
    (line,) = ran.err.splitlines()
    assert line.startswith(
        "warning: Training has not converged in 1 iterations (--epochs 1); raise --epochs or --alpha"
    )
    assert run(*words, "--quiet").err == ""


# --- messages in the words of the command line, with the way out ---


def test_numbers_in_messages_are_plain(monkeypatch, run):
    def refuse(path, **how):
        raise ValueError(f"got {np.float64(0.5)!r}.")

    monkeypatch.setattr("legendretron.cli.predict.load_model", refuse)
    assert run("predict", "m", "a.csv", code=1).error == "got 0.5."


@pytest.mark.parametrize(("option", "value"), [
    ("--learning-rate", "0"), ("--validation", "1"), ("--seed", 2**32), ("--seed", -1), ("--epochs", "1.5"),
    ("--batch-size", 10**30), ("--device", "meta"), ("--device", "cuda:-1"), ("--device", ""), ("--dtype", "float16"),
    ("--solver", "sgd"), ("--class-weight", "heavy"), ("--format", "xls"),
])  # fmt: skip
def test_bad_values_are_wrong_usage(run, tables, tmp_path, option, value):
    error = run("fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", option, value, code=2).error
    assert f"'{option}'" in error
    assert len(error) < 400


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


def test_the_target_is_no_feature(run, tables, tmp_path):
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m"]
    for option in ("--features", "--drop"):
        assert f"'{option}': 'kind' is the target" in run(*words, option, "kind", code=2).error
    error = run(*words, "--features", "sepal width", "--drop", "sepal width", code=1).error
    assert "--drop names all of --features, 'sepal width'" in error
    words = ["evaluate", tables / "iris.safetensors", tables / "iris.csv", "-t", "sepal width"]
    assert "'--target': 'sepal width' is a feature of the model" in run(*words, code=2).error


@pytest.mark.parametrize(("share", "rows", "message"), [
    (0.1, "x y x y x y z", "0.1 of 7 rows: a class has one row"),
    (0.1, "x y x y x y", "0.1 of 6 rows: that is 1, but at least 2 are needed"),
])  # fmt: skip
def test_shares_that_cannot_be_held_out(run, tmp_path, share, rows, message):
    lines = [f"{i},{i % 3},{label}" for i, label in enumerate(rows.split())]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,kind", *lines]) + "\n")
    error = run("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m", "--validation", share, code=2).error
    assert f"'--validation': it cannot hold out a share of {message}" in error
    assert not (tmp_path / "m").exists()


def test_numbers_that_are_too_large(run, tmp_path):
    """One line, without numpy's own warnings, and in words that need no Python."""
    for size, words, message in (
        ("e300", [], "column 'a' of the data has values too large to take a variance of"),
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


def test_a_pipe_is_no_file(run, tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    error = run("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m", code=1).error
    assert error.endswith("is a pipe, which can be read only once; write the data to a file first.")
