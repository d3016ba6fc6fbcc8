import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import train_test_split

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.estimators import fit_splits
from tests.given import GIVEN

ESTIMATORS = [
    LegendreTronClassifier.from_paper("libsvm", max_epochs=6),
    MultinomialLogisticClassifier.from_paper("libsvm", max_epochs=6),
    LegendreTronClassifier(link="canonical", standardize=False, max_epochs=6, **GIVEN),
    MultinomialLogisticClassifier(alpha=0.1, standardize=False),
]


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: f"{type(e).__name__}-{e.solver}")
def test_each_split_comes_out_as_a_fit_of_its_own(estimator, load):
    X, y = load(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    train, test = zip(*(train_test_split(np.arange(len(y)), random_state=s) for s in range(3)), strict=True)
    results = fit_splits(estimator, X, y, np.stack(train), [0, 1, 2])
    loss, accuracy = results.evaluate(np.stack(test))
    for r in range(3):
        alone = clone(estimator).set_params(random_state=r).fit(X[train[r]], y[train[r]])
        p = alone.predict_log_proba(X[test[r]])
        assert loss[r] == pytest.approx(-p[np.arange(len(p)), y[test[r]]].mean(), rel=1e-6)
        assert accuracy[r] == pytest.approx(alone.score(X[test[r]], y[test[r]]))


@pytest.mark.parametrize("estimator", [
    LegendreTronClassifier.from_paper("libsvm", max_epochs=4),
    LegendreTronClassifier(standardize=False, max_epochs=4, link_alpha=0.3),
    MultinomialLogisticClassifier(standardize=False),
], ids=["link follows", "link has its own", "logistic"])  # fmt: skip
def test_a_strength_for_every_split(estimator):
    X, y = load_iris(return_X_y=True)
    rows = np.stack([np.arange(0, 150, 2)] * 3)
    alphas = [1e-3, 0.03, 1.0]
    labels = y[rows + 1]
    loss, accuracy = fit_splits(estimator, X, y, rows, [4, 4, 4], alphas=alphas).evaluate(rows, labels)
    for r, alpha in enumerate(alphas):
        alone = clone(estimator).set_params(random_state=4, alpha=alpha).fit(X[rows[r]], y[rows[r]])
        log_p = alone.predict_log_proba(X[rows[r]])
        assert loss[r] == pytest.approx(-log_p[np.arange(75), labels[r]].mean(), rel=1e-5)
        assert accuracy[r] == pytest.approx((log_p.argmax(1) == labels[r]).mean())
    with pytest.raises(ValueError, match="alphas must contain one strength per split, 3, got 1"):
        fit_splits(estimator, X, y, rows, [4, 4, 4], alphas=[0.1])
    with pytest.raises(ValueError, match="alphas must be finite and not negative"):
        fit_splits(estimator, X, y, rows, [4, 4, 4], alphas=[0.1, -1.0, 0.1])


def test_class_weights_and_precision_are_those_of_a_fit():
    X, y = load_iris(return_X_y=True)
    rows = np.arange(150)[None]
    estimator = MultinomialLogisticClassifier(alpha=0.1, standardize=False, class_weight={0: 1, 1: 1, 2: 50})
    loss = fit_splits(estimator, X, y, rows, [0]).evaluate(rows)[0][0]
    p = clone(estimator).fit(X, y).predict_log_proba(X)
    assert loss == pytest.approx(-p[np.arange(150), y].mean(), rel=1e-5)
    single = LegendreTronClassifier(standardize=False, max_epochs=2, **GIVEN)
    assert str(fit_splits(single, X.astype(np.float32), y, rows, [0]).model.flat.dtype) == "torch.float32"


@pytest.mark.parametrize(("parameters", "changes", "message"), [
    ({"warm_start": True}, {}, "estimator must have warm_start=False"),
    *(({other: value}, {}, r"for splits to be trained side by side, got .*; fit others one by one")
      for other, value in (("alpha", "auto"), ("standardize", True), ("early_stopping", True), ("label_noise", 0.1))),
    ({"alpha": -1}, {}, "alpha must be"),
    ({}, {"y": np.arange(150) + 1}, "y must contain 150 classes numbered from 0 without gaps"),
    ({}, {"X": np.full((150, 4), np.nan)}, "NaN"),
    ({}, {"random_states": [0, 1]}, "random_states must contain one seed per split, 1, got 2"),
])  # fmt: skip
def test_refusals(parameters, changes, message):
    X, y = load_iris(return_X_y=True)
    rows = np.arange(150)[None]
    estimator = MultinomialLogisticClassifier(**{"alpha": 0.1, "standardize": False, **parameters})
    noisy = fit_splits(clone(ESTIMATORS[3]), X, y, rows, [0], train_labels=(y[rows] + 1) % 3)
    assert noisy.evaluate(rows)[1] < 0.5
    with pytest.raises(ValueError, match=message):
        fit_splits(estimator, **{"X": X, "y": y, "train_rows": rows, "random_states": [0], **changes})
