"""Help that comes at once and says what is so."""

import dataclasses
import inspect
import json
import subprocess
import sys

import pytest

from legendretron import LegendreCalibrator, LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.cli.command_options import TABLES, Backend, CalibrateOptions, EstimatorOptions, Input, Order
from legendretron.cli.options import Format
from legendretron.datasets.table_files import FORMATS
from legendretron.experiments.runner import BACKENDS
from legendretron.paper import EXPERIMENTS
from tests.cli.conftest import FIXED

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


# --- options for several processes, as far as one process can tell ---


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workers", 2], "'--workers': it needs --backend ray"),
        (["--address", "auto"], "'--address': it needs --backend ray"),
        (["--class-parallel", 2], "'--class-parallel': it needs --backend ray, or to be started by torchrun"),
        (["--checkpoint-steps", 5], "'--checkpoint-steps': it needs --backend ray, or to be started by torchrun"),
        (["--backend", "ray", "--format", "csv"], "'--format': it is not for several processes"),
        (["--backend", "ray", "--checkpoint", "c", "--seed", 0], "'--checkpoint': it is not for several processes"),
        (["--backend", "ray", "--workers", 3, "--class-parallel", 2], "it must divide --workers, which is 3, got 2"),
        (["--backend", "spark"], "'spark' is not"),
    ],
)
def test_options_that_do_not_fit(run, tables, tmp_path, words, message):
    out = tmp_path / "model.safetensors"
    ran = run("fit", tables / "iris.csv", "-t", "kind", "-o", out, *FIXED, *words, code=2)
    assert message in ran.error
    assert not out.exists()


def test_ray_below_torchrun(run, tables, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    words = ["-o", tmp_path / "m.safetensors", *FIXED, "--backend", "ray"]
    ran = run("fit", tables / "iris.csv", "-t", "kind", *words, code=2)
    assert "torchrun has started this process already" in ran.error
