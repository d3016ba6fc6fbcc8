"""All displays draw models inside pipelines, searches and classifiers of tables."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legendretron import MultinomialLogisticClassifier, TableClassifier, TableEncoder
from legendretron.plots import (
    CanonicalityDisplay,
    ClasswiseReliabilityDisplay,
    LabelQualityDisplay,
    LinkDisplay,
    LossDisplay,
    PredictionSetDisplay,
    ProbabilityMapDisplay,
    ReliabilityDisplay,
    TrainingDisplay,
    TriangleDisplay,
    TuningDisplay,
)

NUMBERS, Y = load_iris(return_X_y=True)
FRAME = pd.DataFrame(NUMBERS[:, :3], columns=["a", "b", "c"]).assign(d=np.where(NUMBERS[:, 3] > 1.0, "wide", "narrow"))
NOISY = MultinomialLogisticClassifier(label_noise="symmetric", cv=2, random_state=0)
WRAPPED = {
    "table": lambda: TableClassifier(NOISY),
    "pipeline": lambda: make_pipeline(TableEncoder(), NOISY),
    "pipeline of a table": lambda: make_pipeline(TableClassifier(NOISY)),
    "search": lambda: GridSearchCV(TableClassifier(NOISY), {"encoder__max_categories": [2]}, cv=2),
    "search in a table": lambda: TableClassifier(GridSearchCV(NOISY, {"tol": [1e-4]}, cv=2)),
}
DRAW = {
    "link": lambda model, X, y: LinkDisplay.from_estimator(model, X),
    "loss": lambda model, X, y: LossDisplay.from_estimator(model),
    "canonicality": lambda model, X, y: CanonicalityDisplay.from_estimator(model, X),
    "reliability": ReliabilityDisplay.from_estimator,
    "classwise": ClasswiseReliabilityDisplay.from_estimator,
    "labels": LabelQualityDisplay.from_estimator,
    "sets": PredictionSetDisplay.from_estimator,
    "training": lambda model, X, y: TrainingDisplay.from_estimator(model),
    "tuning": lambda model, X, y: TuningDisplay.from_estimator(model),
}
OF_THREE = {
    "triangle": lambda model, X, y: TriangleDisplay.from_estimator(model),
    "map": ProbabilityMapDisplay.from_estimator,
}


#: made of the others
ALIKE = ("pipeline of a table", "search")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.exhaustive if kind in ALIKE else ()) for kind in WRAPPED]
)
def test_displays_look_inside(kind):
    two = Y > 0
    model = WRAPPED[kind]().fit(FRAME[two], Y[two])
    for name, draw in DRAW.items():
        assert draw(model, FRAME[two], Y[two]).figure_ is not None, name


def test_displays_of_three_classes_look_inside():
    model = WRAPPED["table"]().fit(FRAME, Y)
    for name, draw in OF_THREE.items():
        assert draw(model, FRAME, Y).figure_ is not None, name


def test_models_that_lack_what_is_drawn_are_named():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(NUMBERS, Y)
    with pytest.raises(ValueError, match="got LogisticRegression without label_quality"):
        LabelQualityDisplay.from_estimator(model, NUMBERS, Y)
    with pytest.raises(ValueError, match="got LogisticRegression without tuning_"):
        TuningDisplay.from_estimator(model)
