"""Predictions in plain numpy are those of the classifiers themselves, and what is out of order is left to these."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_classification

from legendretron import LegendreTronClassifier, TableClassifier, load
from legendretron.estimators.numpy_predictor import load_predictor
from tests.saved_files import forge

LINKS = {
    "softmax": {},
    "canonical": {"link_params": {"n_nests": 3}},
    "composite": {"link_params": {"hidden": 3, "depth": 2, "n_blocks": 2}},
    "composite of one layer": {"link_params": {"hidden": 2, "depth": 1, "n_blocks": 1}},
}


def fitted(link, n_classes, dtype=np.float64, names=None):
    """A classifier with parameters of the link that are far from softmax."""
    X, y = make_classification(200, 4, n_informative=4, n_redundant=0, n_classes=n_classes, n_clusters_per_class=1,
                               random_state=0)  # fmt: skip
    X = X.astype(dtype) if names is None else pd.DataFrame(X.astype(dtype), columns=names)
    given = {} if link == "softmax" else {"link_alpha": 0.01, "max_epochs": 3}
    model = LegendreTronClassifier(link.partition(" ")[0], alpha=0.01, random_state=0, **LINKS[link], **given)
    model.fit(X, y)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.link_.parameters():
        parameter.add_(0.7 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return model, X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("link", LINKS)
def test_predictions_are_those_of_the_classifier(link, n_classes, dtype, tmp_path):
    model, X = fitted(link, n_classes, dtype)
    model.save(tmp_path / "m")
    quick = load_predictor(tmp_path / "m")
    X = np.concatenate([X, 300 * X])  # also where probabilities underflow
    log_p = quick._predict_all(quick._check_features(X), log=True)
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(log_p, model.predict_log_proba(X), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(
        quick._predict_all(X, log=False), model.predict_proba(X), rtol=100 * tolerance, atol=tolerance
    )
    assert log_p.dtype == dtype
    np.testing.assert_array_equal(quick.classes_, model.classes_)
    assert "model" not in vars(quick)  # it was not asked


def table(n=120):
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({
        "age": generator.normal(40.0, 10.0, n),
        "city": generator.choice(["Rome", "Bern", "Oslo"], n),
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 1000, n), unit="D"),
        "name": [f"row {row}" for row in range(n)],
    })  # fmt: skip
    y = np.where(frame["age"] + 10 * (frame["city"] == "Rome") > 42, "old", "young")
    frame.loc[::7, "age"] = np.nan
    frame.loc[::11, "city"] = None
    return frame, y


@pytest.mark.filterwarnings("ignore:column 'name' is left out")
def test_tables_are_encoded_as_by_the_encoder(tmp_path):
    frame, y = table()
    model = TableClassifier(LegendreTronClassifier("canonical", alpha=0.01, link_alpha=0.01, max_epochs=3))
    model.fit(frame, y).save(tmp_path / "m")
    quick = load_predictor(tmp_path / "m")
    frame.loc[3, "city"] = "Paris"  # unknown
    X = quick._check_features(frame[["age", "city", "since"]])
    np.testing.assert_allclose(quick._predict_all(X, log=False), model.predict_proba(frame), rtol=1e-9)
    assert list(quick.feature_names_in_) == list(model.feature_names_in_)
    assert quick.n_features_in_ == model.n_features_in_


def test_what_is_refused_is_refused_by_the_classifier(tmp_path):
    model, X = fitted("softmax", 3, names=list("abcd"))
    model.save(tmp_path / "m")
    quick = load_predictor(tmp_path / "m")
    for bad, message in (
        (X.assign(a=np.inf), "infinity"),
        (X.assign(a="x"), "holds text, such as"),
        (X[["a"]], "feature names"),
    ):
        with pytest.raises(ValueError, match=message):
            quick._check_features(bad)
    with pytest.raises(ValueError, match="features so large"):
        quick._predict_all(quick._check_features(X * (1e308 / np.abs(X).max(axis=None))), log=True)


@pytest.mark.parametrize("change", [
    lambda state: state["link"].update(kind="piecewise-linear"),
    lambda state: state["link"]["settings"].update(n_blocks=0),
    lambda state: state["link"].update(n_classes=7),
    lambda state: state["classes"]["values"].reverse(),
    lambda state: state["coef"].fill_(torch.nan),
    lambda state: state["link"]["tensors"].pop("blocks.1.bias"),
    lambda state: state.update(link=None),
])  # fmt: skip
def test_files_that_are_out_of_order_are_left_to_the_classifier(change, tmp_path):
    fitted("composite", 3)[0].save(tmp_path / "m")
    assert load_predictor(tmp_path / "m") is not None
    forge(tmp_path / "m", change)
    assert load_predictor(tmp_path / "m") is None
    with pytest.raises(ValueError, match="can be loaded"):
        load(tmp_path / "m")
