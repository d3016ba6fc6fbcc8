"""Fixtures of the tests of saved models."""

import pytest

from tests.estimators.tiny_models import FITTED
from tests.saved_files import read


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """The class and the state of every kind of model."""
    path = tmp_path_factory.mktemp("models") / "m"
    found = {}
    for name, fitted in FITTED.items():
        model = fitted()
        model.save(path)
        found[name] = type(model).__name__, read(path)
    return found
