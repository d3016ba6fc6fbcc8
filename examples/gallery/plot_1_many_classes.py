"""
Many classes with curved boundaries
===================================

Ten kinds of handwritten digits, each image reduced to five numbers. Logistic regression can only draw flat boundaries
between the classes. :class:`~legendretron.estimators.LegendreTronClassifier` uses the same kind of scores, weighted
sums of the features, but learns how scores become probabilities, so its boundaries can bend.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legendretron import LegendreTronClassifier

images, digit = load_digits(return_X_y=True)
train, test, y, y_test = train_test_split(images, digit, test_size=1 / 3, random_state=0, stratify=digit)
pca = PCA(5, random_state=0).fit(train)
X, X_test = pca.transform(train), pca.transform(test)

# %%
# Both models choose their penalties by cross-validation.

settings = {"scoring": "neg_log_loss", "max_iter": 1000, "l1_ratios": (0,), "use_legacy_attributes": False}
models = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegressionCV(**settings)).fit(X, y),
    "LegendreTron": LegendreTronClassifier(random_state=0).fit(X, y),
}
right = {name: np.mean(model.predict(X_test) == y_test) for name, model in models.items()}
for name, model in models.items():
    loss = log_loss(y_test, model.predict_proba(X_test))
    print(f"{name:20} {right[name]:.1%} of the test images right, log-loss {loss:.3f}")

# %%
# The boundaries: predictions in the plane of the first two of the five numbers, where the other three are at
# their mean.

first, second = np.meshgrid(*(np.linspace(X[:, k].min(), X[:, k].max(), 200) for k in (0, 1)))
plane = np.tile(X.mean(0), (first.size, 1))
plane[:, 0], plane[:, 1] = first.ravel(), second.ravel()
figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    predicted = model.predict(plane)
    ax.pcolormesh(first, second, predicted.reshape(first.shape), cmap="tab10", vmin=-0.5, vmax=9.5, alpha=0.7)
    ax.set(title=f"{name}: {right[name]:.1%} right", xlabel="first component")
    for k in np.unique(predicted):
        here = predicted == k
        if here.mean() > 0.02:
            ax.text(*np.median(plane[here][:, :2], axis=0), str(k), ha="center", va="center", fontsize=14)
axes[0].set_ylabel("second component")
plt.show()

# %%
# With all 64 pixels, planes separate the digits well, and there is little left to gain: ``fit`` then often keeps
# logistic regression. :doc:`How the default model is chosen </choosing>` explains it.
