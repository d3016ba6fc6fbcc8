"""Help that comes at once and says what is so."""

import inspect
import json
import subprocess
import sys

import pytest

from legendretron import LegendreCalibrator, LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.cli.calibrate import Input, Order, calibrate
from legendretron.cli.defaults import _defaults
from legendretron.cli.options import Format
from legendretron.cli.reproduce import TABLES, Backend
from legendretron.datasets.table_files import FORMATS
from legendretron.experiments.backends import BACKENDS
from legendretron.paper import EXPERIMENTS
from legendretron.tuning import rules

PROBE = """
import json, sys
from legendretron.cli import main
from legendretron.cli.app import app
for words in json.loads(sys.argv[1]):
    print("#", words)
    assert main(words) == 0, words
slow = [name for name in ("torch", "sklearn", "scipy", "pandas", "numpy", "matplotlib") if name in sys.modules]
assert not slow, f"imported {slow}"
"""


def test_help_does_not_wait_for_large_libraries():
    commands = ["fit", "predict", "evaluate", "demo", "calibrate", "suspicious", "reproduce", "datasets"]
    words = json.dumps([["--help"], ["--version"], *([command, "--help"] for command in commands)])
    done = subprocess.run([sys.executable, "-c", PROBE, words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.split("# [")[1:]
    assert len(shown) == 2 + len(commands)
    assert all("legendretron" in text for text in shown)


@pytest.mark.parametrize(("file", "estimator"), [
    ("legendretron.py", LegendreTronClassifier), ("multinomial.py", MultinomialLogisticClassifier)
])  # fmt: skip
def test_defaults_are_those_of_the_estimators(file, estimator):
    signature = inspect.signature(estimator).parameters
    assert _defaults(file) == {name: parameter.default for name, parameter in signature.items()}


def test_defaults_are_shown(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # every help text on one line
    shown = " ".join(run("fit", "--help").out.replace("│", " ").split())
    for help, parameter in {
        "Penalty on the weights: larger is simpler. auto: several are tried on held-out rows.": "alpha",
        "no link is learned unless that is better.": "link_alpha",
        "Rows per step of adam.": "batch_size",
        "Initial learning rate of adam. auto: 0.03.": "learning_rate",
        "auto: by the number of rows, more passes for fewer rows.": "max_epochs",
        "an exact solver for logistic regression.": "solver",
        "with the probabilities of labels.": "label_noise",
    }.items():
        default = inspect.signature(LegendreTronClassifier).parameters[parameter].default
        assert f"{help} (default: {default}{'; none for logistic' if parameter == 'label_noise' else ''})" in shown


def test_help_says_what_auto_is(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = " ".join(run("fit", "--help").out.replace("│", " ").split())
    assert f"auto: {rules.LEARNING_RATE}." in shown
    assert f"hidden={rules.hidden_for(300)} units ({rules.hidden_for(299)} below 300 rows)" in shown
    assert f"(default: {rules.FOLDS}; from {rules.ONE_SPLIT_FROM:,} rows on, one fifth is held out once)" in shown
    assert rules.HELD_OUT == 1 / 5


def test_defaults_of_calibrate_are_those_of_the_calibrator():
    shown = {name: option.default for name, option in inspect.signature(calibrate).parameters.items()}
    for name, parameter in inspect.signature(LegendreCalibrator).parameters.items():
        if name not in ("estimator", "classes", "input"):
            assert shown[name] == ("none" if parameter.default is None else parameter.default)
    for name, choices in (("order", Order), ("input", Input)):
        (known,) = LegendreCalibrator._parameter_constraints[name]
        assert set(choices) == known.options


def test_choices_are_those_of_the_library():
    assert list(Format) == list(FORMATS)
    assert list(Backend) == list(BACKENDS)
    assert list(TABLES) == list(EXPERIMENTS)
