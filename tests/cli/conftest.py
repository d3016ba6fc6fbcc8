"""Commands run in this process, and small tables to run them on."""

import functools
import json
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import typer.main
from sklearn.datasets import load_breast_cancer, load_iris

from legendretron.cli import main

#: One training of a learned link, instead of a search.
FIXED = ["--alpha", "1e-4", "--link-alpha", "1e-4"]


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        (line,) = self.out.splitlines()  # one object, nothing else
        return json.loads(line)

    @property
    def error(self):
        (line,) = self.err.splitlines()
        assert line.startswith("error: ")
        return line.removeprefix("error: ")


@pytest.fixture(scope="session", autouse=True)
def _one_parser():
    """The same parser for all commands: making it from the options takes longer than most commands that fail."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture
def run(capsys):
    """Run ``legendretron`` with these words in this process."""

    def command(*words, code=0):
        capsys.readouterr()
        got = main([str(word) for word in words])
        ran = Ran(got, *capsys.readouterr())
        assert got == code, ran
        return ran

    return command


@pytest.fixture
def launch():
    """Start ``legendretron`` as a process of its own."""

    def command(*words, **options):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
        words = [sys.executable, "-m", "legendretron", *map(str, words)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(words, text=True, env=environment, **pipes)

    return command


def make_iris():
    """Three kinds of flowers by name, in an order that is not that of the kinds."""
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=["sepal length", "sepal width", "petal length", "petal width"])
    frame["kind"] = np.array(["setosa", "versicolor", "virginica"])[y]
    return frame.sample(frac=1, random_state=0, ignore_index=True)


def make_cancer():
    """Two classes that are numbers."""
    X, y = load_breast_cancer(return_X_y=True)
    frame = pd.DataFrame(X[:, :6], columns=list("abcdef"))
    frame["malignant"] = y
    return frame


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """A folder with ``iris.csv`` and ``cancer.csv``, and models fitted to them."""
    folder = tmp_path_factory.mktemp("tables")
    make_iris().to_csv(folder / "iris.csv", index=False)
    make_cancer().to_csv(folder / "cancer.csv", index=False)
    fast = ["--epochs", "15", "--seed", "0", "--quiet", *FIXED]
    for name, target in (("iris", "kind"), ("cancer", "malignant")):
        words = ["fit", folder / f"{name}.csv", "--target", target, "--out", folder / f"{name}.safetensors", *fast]
        assert main([str(word) for word in words]) == 0
    return folder
