"""Fixtures of the tests of saved models."""

import pytest

from tests.estimators.tiny_models import FITTED, contents


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Tensors and header of every kind of model."""
    path = tmp_path_factory.mktemp("models") / "m"
    found = {}
    for name, fitted in FITTED.items():
        fitted().save(path)
        found[name] = contents(path)
    return found
