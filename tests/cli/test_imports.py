"""Commands import what they need, and no more: torch and scikit-learn take seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from legendretron import LegendreTronClassifier, TableClassifier
from tests.estimators.test_numpy_predictor import table

ROOT = Path(__file__).resolve().parents[2]
PROBE = """
import json, sys
from legendretron.cli import main
commands, heavy = map(json.loads, sys.argv[1:])
for words in commands:
    assert main(words) == 0, words
    loaded = [name for name in heavy if name in sys.modules]
    assert not loaded, f"{words} imported {loaded}"
"""
HEAVY = ["torch", "sklearn", "numba", "matplotlib", "ray", "onnx", "joblib"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Models of each link, with and without an encoder, and tables for them."""
    folder = tmp_path_factory.mktemp("models")
    frame, y = table()
    frame = frame.drop(columns="name")
    numbers = frame.assign(age=frame["age"].fillna(0.0))[["age"]]
    for link, given in {"softmax": {}, "canonical": {"link_alpha": 0.1}, "composite": {"link_alpha": 0.1}}.items():
        model = LegendreTronClassifier(link, alpha=0.1, max_epochs=2, random_state=0, **given)
        model.fit(numbers, y).save(folder / f"{link} of numbers")
        TableClassifier(model).fit(frame, y).save(folder / link)
    frame[:54].assign(kind=y[:54]).to_csv(folder / "few.csv", index=False)
    numbers[:54].assign(kind=y[:54]).to_csv(folder / "numbers.csv", index=False)
    return folder


def probe(commands, heavy):
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(commands), json.dumps(heavy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pairs(files):
    for link in ("softmax", "canonical", "composite"):
        yield str(files / link), str(files / "few.csv")
        yield str(files / f"{link} of numbers"), str(files / "numbers.csv")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_neither_torch_nor_scikit_learn_is_needed(files):
    shown = probe([["predict", *pair, "--proba"] for pair in pairs(files)], [*HEAVY, "scipy"])
    assert shown.count("prediction,p(old),p(young)\n") == 6
    probe([["evaluate", *pair, "--target", "kind", "--json"] for pair in pairs(files)], HEAVY)


def test_the_page_says_what_was_recorded():
    record = json.loads((ROOT / "docs" / "results" / "start_speed.json").read_text())
    text = " ".join((ROOT / "docs" / "performance.md").read_text().split())
    assert f"`predict` of {record['table_rows']} rows takes less than half the processor time" in text
    assert all(row["ratio"] < 0.5 for row in record["rows"] if row["case"].startswith("predict"))
