"""
The other plots
===============

The displays in :mod:`legendretron.plots` follow scikit-learn's conventions. ``from_estimator`` takes fitted models,
also inside a pipeline or a search; ``from_predictions`` takes the predictions of any model. Several models, in a dict,
share one axes where that makes sense. ``ax=`` draws into your own figure, and ``display.figure_`` can be saved.

Other examples show the plots of links, losses, calibration and label quality; the rest are here.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris, make_blobs, make_classification
from sklearn.naive_bayes import GaussianNB

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.plots import (
    ClasswiseReliabilityDisplay,
    PredictionSetDisplay,
    TrainingDisplay,
    TriangleDisplay,
    TuningDisplay,
)

# %%
# **A loss of three classes.** Each point of the triangle is a predicted distribution. The panels show the Bayes risk
# and the partial loss of each class.

X, y = make_blobs(450, centers=[[0, 0], [2, 0], [1, 1.7]], cluster_std=[1.2, 0.6, 0.8], random_state=0)
y = np.array(["cat", "dog", "eel"])[y]
canonical = LegendreTronClassifier("canonical", alpha=1e-3, link_alpha=1e-3, random_state=0).fit(X, y)
TriangleDisplay.from_estimator(canonical)
plt.show()

# %%
# **Calibration of each class.** Smooth curves need no bins. The legend has the calibration error.

X, y = make_classification(4000, 8, n_informative=5, n_classes=4, n_clusters_per_class=1, random_state=1)
X, X_test, y, y_test = X[:2000], X[2000:], y[:2000], y[2000:]
logistic = MultinomialLogisticClassifier(random_state=0).fit(X, y)
models = {"naive Bayes": GaussianNB().fit(X, y), "logistic regression": logistic}
ClasswiseReliabilityDisplay.from_estimator(models, X_test, y_test, strategy="smooth")
plt.show()

# %%
# **Prediction sets.** Their coverage and mean size, for every coverage one may ask for.

PredictionSetDisplay.from_estimator(logistic, X_test, y_test, score="probability")
plt.show()

# %%
# **The search for penalties.** Held-out log-loss of every candidate, relative to logistic regression.

X, y = load_iris(return_X_y=True)
TuningDisplay.from_estimator(LegendreTronClassifier(random_state=0).fit(X, y))
plt.show()

# %%
# **Training.** With early stopping, the dot marks the best epoch, whose weights are kept.

stopped = LegendreTronClassifier(
    alpha=1e-4, link_alpha=1e-4, solver="adam", max_epochs=100, early_stopping=True, random_state=0
)
TrainingDisplay.from_estimator(stopped.fit(X, y))
plt.show()
