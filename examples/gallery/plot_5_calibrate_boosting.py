"""
Calibrating gradient boosting
=============================

Gradient boosting is accurate but overconfident. :class:`~legendretron.estimators.LegendreCalibrator` learns, on
rows that the model has not seen, how its scores should become probabilities.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from legendretron import LegendreCalibrator
from legendretron.plots import ReliabilityDisplay

X, y = make_classification(
    6000, n_features=12, n_informative=8, n_classes=4, n_clusters_per_class=2, flip_y=0.1, random_state=0
)
X, X_rest, y, y_rest = train_test_split(X, y, test_size=0.6, random_state=0)
X_held_out, X_test, y_held_out, y_test = train_test_split(X_rest, y_rest, test_size=2 / 3, random_state=0)

boosting = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(X, y)
calibrated = LegendreCalibrator(FrozenEstimator(boosting)).fit(X_held_out, y_held_out)
models = {"gradient boosting": boosting, "calibrated": calibrated}
for name, model in models.items():
    loss = log_loss(y_test, model.predict_proba(X_test))
    print(f"{name:20} {model.score(X_test, y_test):.1%} right, log-loss {loss:.3f}")

# %%
# On the diagonal, predictions are right as often as their probabilities say. The legend shows the calibration error.

ReliabilityDisplay.from_estimator(models, X_test, y_test, strategy="smooth")
plt.show()

# %%
# :doc:`The report on calibration </results/calibration/calibration>` compares it with other calibrators, on the
# predictions of 27 classifiers.
