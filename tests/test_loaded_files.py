"""What was loaded does not depend on its file any more; a file that is not there is a FileNotFoundError, for all loaders."""

import os

import numpy as np
import pandas as pd
import pytest
import torch

import legendretron
from legendretron import LegendreCalibrator, LegendreTronClassifier, MultinomialLogisticClassifier, TableClassifier
from legendretron.links import load_link, save_link
from legendretron.losses import CanonicalLoss, load_loss, save_loss
from legendretron.training import History
from legendretron.training.checkpoint import load_checkpoint, save_checkpoint
from tests.catalogue import make_link, normal
from tests.estimators.tiny_models import FITTED

Z = normal(5, 2, key="files")
X = normal(12, 2, key="files").numpy()
Y = np.arange(12) % 3
FRAME = pd.DataFrame({"number": X[:, 0], "word": np.array(["a", "b", "c"])[Y]})
NOTES = {"fingerprint": "this fit", "epoch": 3, "step": 12, "seconds": 1.0, "history": History().to_dict()}


def probabilities(model):
    return model.predict_proba(X)


def save_table(path):
    TableClassifier(MultinomialLogisticClassifier(alpha=0.1)).fit(FRAME, Y).save(path)


def progress_of(path):
    return load_checkpoint(path, "this fit", {"weight": Z})[0]


def save_progress(path):
    save_checkpoint(path, {"weight": Z}, NOTES)


#: how a file is made, how it is loaded, and what is asked of what was loaded
LOADERS = {
    "link": (
        lambda path: save_link(make_link("composite_ficnn", 3), path),
        load_link,
        lambda link: link.inverse(Z).detach(),
    ),
    "loss": (
        lambda path: save_loss(CanonicalLoss(make_link("canonical", 3), normalized=True, weight=torch.ones(3)), path),
        load_loss,
        lambda loss: loss(Z, torch.zeros(5, dtype=torch.int64)),
    ),
    "classifier": (lambda path: FITTED["ficnn"]().save(path), LegendreTronClassifier.load, probabilities),
    "logistic": (lambda path: FITTED["matrix"]().save(path), MultinomialLogisticClassifier.load, probabilities),
    "any model": (lambda path: FITTED["canonical"]().save(path), legendretron.load, probabilities),
    "table": (save_table, TableClassifier.load, lambda model: model.predict_proba(FRAME)),
    "calibrator": (lambda path: LegendreCalibrator().fit(X, Y > 0).save(path), LegendreCalibrator.load, probabilities),
    "checkpoint": (save_progress, progress_of, lambda tensors: tensors["weight"].clone()),
}


@pytest.mark.parametrize("name", LOADERS)
def test_what_was_loaded_stays_when_its_file_is_overwritten_or_cut_short(name, tmp_path):
    save, load, ask = LOADERS[name]
    path = tmp_path / "file"
    save(path)
    loaded = load(path)
    before = np.asarray(ask(loaded))
    with open(path, "r+b") as file:  # in place, as cp does
        file.write(bytes(255 - byte for byte in path.read_bytes()))
    assert np.array_equal(ask(loaded), before)
    os.truncate(path, 0)
    assert np.array_equal(ask(loaded), before)


@pytest.mark.parametrize("name", [name for name in LOADERS if name != "checkpoint"])
def test_a_file_that_is_not_there_is_said_as_python_says_it(name, tmp_path):
    load = LOADERS[name][1]
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: .*nothing"):
        load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        load(tmp_path)
