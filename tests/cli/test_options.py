"""Help that comes at once and says what is so."""

import dataclasses
import inspect
import json
import subprocess
import sys

from legendretron import LegendreCalibrator, LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.cli.command_options import TABLES, Backend, CalibrateOptions, EstimatorOptions, Input, Order
from legendretron.cli.options import Format
from legendretron.datasets.table_files import FORMATS
from legendretron.experiments.runner import BACKENDS
from legendretron.paper import EXPERIMENTS

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
    commands = ["fit", "predict", "evaluate", "demo", "calibrate", "suspicious", "reproduce"]
    words = json.dumps([["--help"], ["--version"], *([command, "--help"] for command in commands)])
    done = subprocess.run([sys.executable, "-c", PROBE, words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.split("# [")[1:]
    assert len(shown) == 2 + len(commands)
    assert all("legendretron" in text for text in shown)


def test_options_of_a_fit_are_parameters_of_the_estimators():
    """And the help tells their defaults, which are not imported for it."""
    learned, logistic = (
        inspect.signature(estimator).parameters for estimator in (LegendreTronClassifier, MultinomialLogisticClassifier)
    )
    for field in dataclasses.fields(EstimatorOptions):
        name, shown = field.name, field.metadata["typer"].help
        told = shown.rpartition("(default: ")[2]
        default = learned[name].default
        if default is None or default is False or name == "cv":
            assert name == "cv" or "(default: " not in shown
            continue
        other = logistic[name].default if name in logistic else default
        text = str(default) if other == default else f"{default}; {'none' if other is None else other} for logistic"
        assert told == f"{text})", name


def test_defaults_of_calibrate_are_those_of_the_calibrator():
    shown = {field.name: field.default for field in dataclasses.fields(CalibrateOptions)}
    for name, parameter in inspect.signature(LegendreCalibrator).parameters.items():
        if name not in ("estimator", "classes", "input"):
            assert shown[name] == parameter.default
    for name, choices in (("order", Order), ("input", Input)):
        (known,) = LegendreCalibrator._parameter_constraints[name]
        assert set(choices) == known.options


def test_choices_are_those_of_the_library():
    assert list(Format) == list(FORMATS)
    assert list(Backend) == list(BACKENDS)
    assert list(TABLES) == list(EXPERIMENTS)


def test_a_parameter_suggests_its_option(run):
    for name, option in (("--random-state", "--seed"), ("--max-epochs", "--epochs"), ("--na-values", "--na")):
        error = run("fit", "a.csv", "-o", "m", name, "0", code=2).error
        assert f"No such option: {name}" in error
        assert f" {option}" in error


def test_processes_are_for_python(run, tables, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    assert "fit_torchrun" in run("fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", code=1).error
