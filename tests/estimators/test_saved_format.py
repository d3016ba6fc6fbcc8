"""Files of models outlive the code that wrote them: those in ``saved_models.zip`` still mean what they meant.

When a test here fails because what is written has changed, or what the numbers in a file mean, raise the number in
``legendretron/_internal/artifacts.py``, and write the files anew by ``python -m tests.estimators.test_saved_format``.
"""

import json
import tempfile
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd
import pytest
import torch

from legendretron import MultinomialLogisticClassifier, TableClassifier, load
from tests.estimators.tiny_models import FITTED
from tests.saved_files import forge, read

FILES = Path(__file__).with_name("saved_models.zip")
FRAME = pd.DataFrame({"age": [30.0, None, 50.0, 40.0], "city": ["Rome", "Bern", None, "Rome"]})
MODELS = {
    **FITTED,
    "table": lambda: TableClassifier(MultinomialLogisticClassifier(alpha=1e-3, tol=0.1)).fit(FRAME, [0, 1, 1, 0]),
}
TOLD = ("alpha_", "link_alpha_", "n_iter_", "noise_rate_", "noise_rate_interval_", "gradient_norm_", "converged_")


def disturb(state):
    """Move parameters away from where links are softmax, and probabilities equal."""
    state = state["estimator"]["state"] if "estimator" in state else state
    tensors = [state["coef"], state["intercept"], *state["link"]["tensors"].values()]
    for place, tensor in enumerate(tensor for tensor in tensors if tensor.is_floating_point()):
        tensor += 0.5 * torch.sin(place + torch.arange(float(tensor.numel()))).reshape(tensor.shape).to(tensor.dtype)


def tell(model):
    """What a model that was loaded says, as JSON has it."""
    rows = FRAME if isinstance(model, TableClassifier) else np.array([[0.5, -1.5], [1.0, 2.0]])
    told = {name: getattr(model, name) for name in TOLD if hasattr(model, name)}
    told |= {"proba": model.predict_proba(rows).tolist(), "classes": model.classes_.tolist()}
    if hasattr(model, "noise_matrix_"):
        told["noise_matrix"] = model.noise_matrix_.tolist()
    if hasattr(model, "tuning_"):
        told["tuning"] = model.tuning_.iloc[0].drop(["model", "steps"]).to_list()
    return json.loads(json.dumps(told, default=float))


def structure(value):
    """Names, types and shapes of all that a state holds."""
    if isinstance(value, dict):
        columns = "train_loss" in value  # as many as there were epochs
        return {name: str(part.dtype) if columns else structure(part) for name, part in value.items()}
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [structure(value[0])]
    return type(value).__name__


def take_parameters(state):
    """Remove the parameters of an estimator, and of that inside, and return them."""
    inner = state["estimator"]["state"] if "estimator" in state else state
    return inner.pop("parameters")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    with ZipFile(FILES) as files:
        files.extractall(folder)
    return folder, json.loads((folder / "told.json").read_text())


@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_is_what_was_written(name, written, tmp_path):
    MODELS[name]().save(tmp_path / "m")
    new, old = read(tmp_path / "m"), read(written[0] / name)
    # one more parameter has a default, so that files without it can be read
    assert set(take_parameters(new)) >= set(take_parameters(old))
    assert structure(new) == structure(old)


@pytest.mark.parametrize("name", MODELS)
def test_what_the_numbers_in_a_file_mean(name, written):
    told = tell(load(written[0] / name))
    expected = written[1][name]
    assert told.keys() == expected.keys()
    for key, value in expected.items():
        if key == "classes":
            assert told[key] == value
        else:
            np.testing.assert_allclose(told[key], value, rtol=1e-4, err_msg=key)


def main():
    """Write the files anew."""
    told = {}
    with tempfile.TemporaryDirectory() as folder, ZipFile(FILES, "w", ZIP_DEFLATED) as files:
        for name, make in MODELS.items():
            path = Path(folder) / name
            make().save(path)
            forge(path, disturb)
            told[name] = tell(load(path))
            files.write(path, name)
        files.writestr("told.json", json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
