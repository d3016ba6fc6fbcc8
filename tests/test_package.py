"""Importing changes nothing and loads only what is used; devices and dtypes follow the input."""

import ast
import importlib
import inspect
import subprocess
import sys

import pytest
import torch

import legendretron
from legendretron.links import save_link
from tests.catalogue import LINKS_OF_MANY, make_link

PROBE = """
import sys
import legendretron
assert not [m for m in ("torch", "sklearn", "numpy") if m in sys.modules], "loaded before it is used"
import random
import numpy as np, torch
import sklearn.model_selection  # which draws a random number where rich is installed
state = lambda: (torch.get_default_dtype(), torch.get_num_threads(), torch.initial_seed(),
                 torch.are_deterministic_algorithms_enabled(), torch.is_grad_enabled(),
                 hash(torch.random.get_rng_state().numpy().tobytes()), hash(random.getstate()),
                 hash(np.random.get_state()[1].tobytes()), np.geterr())
before = state()
assert legendretron.links.SoftmaxLink is legendretron.SoftmaxLink  # rooms are there without an import of their own
from legendretron import *
assert LegendreTronClassifier().get_params()
assert state() == before, "importing legendretron changed a global setting"
table = legendretron.links.make_link("piecewise_linear", 2, n_knots=3)  # of another room
legendretron.links.load_link(sys.argv[1])
heavy = [m for m in ("matplotlib", "ray", "onnx", "typer", "numba", "torch._dynamo") if m in sys.modules]
assert not heavy, f"legendretron imported {heavy}"
"""


def test_importing_and_loading_has_no_side_effects(tmp_path):
    save_link(make_link("canonical", 3), tmp_path / "link")
    command = [sys.executable, "-c", PROBE, str(tmp_path / "link")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_public_names_exist():
    for name in legendretron.__all__:
        assert getattr(legendretron, name) is not None
    assert set(legendretron.__all__) <= set(dir(legendretron))
    with pytest.raises(AttributeError, match="'legendretron' has no attribute 'LegendreTron'"):
        _ = legendretron.LegendreTron


@pytest.mark.parametrize("package", ["", ".datasets", ".diagnostics", ".estimators", ".preprocessing"])
def test_type_checkers_see_the_names_that_there_are(package):
    """The imports that are for them alone name the same objects, from the same places."""
    module = importlib.import_module(f"legendretron{package}")
    tree = ast.parse(inspect.getsource(module))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module.count(".")]
    imports = [node for node in found if "._" not in node.module]
    seen = {alias.name: node.module.removeprefix(f"{module.__name__}.") for node in imports for alias in node.names}
    (given,) = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    assert seen == {name: place for place, names in ast.literal_eval(given).items() for name in names}
    assert {*seen} == {*module.__all__} - {"__version__"}
    assert all(getattr(module, name) is not None for name in module.__all__)


@pytest.mark.parametrize("name", LINKS_OF_MANY)
def test_outputs_follow_the_device_of_the_input(name):
    """On the meta device any tensor made on a fixed device would clash."""
    link = make_link(name, 4).to("meta")
    z = torch.empty(5, 3, device="meta", dtype=torch.float64)
    assert link(z).device.type == "meta"
    assert link.inverse(z).device.type == "meta"
    assert link.jacobian(z).device.type == "meta"
