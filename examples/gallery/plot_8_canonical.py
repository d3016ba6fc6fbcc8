"""
Two kinds of learned links
==========================

For three or more classes there are two kinds of links to learn. The *composite* link, the default, follows the data
more closely. The *canonical* link belongs to one convex loss, which can be kept and used elsewhere: with it, raising
a score never lowers the probability of its class. :doc:`The theory </theory>` says what each can do and cannot.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from legendretron import LegendreTronClassifier
from legendretron.plots import CanonicalityDisplay, ProbabilityMapDisplay

iris = load_iris()
X, X_test, y, y_test = train_test_split(
    iris.data, iris.target_names[iris.target], test_size=0.5, random_state=0, stratify=iris.target
)

models = {
    "composite": LegendreTronClassifier("composite", alpha=1e-3, link_alpha=1e-2, random_state=0).fit(X, y),
    "canonical": LegendreTronClassifier("canonical", alpha=1e-3, link_alpha=1e-2, random_state=0).fit(X, y),
}
for name, model in models.items():
    loss = log_loss(y_test, model.predict_proba(X_test))
    print(f"{name:10} {model.score(X_test, y_test):.1%} of the test flowers right, log-loss {loss:.3f}")

# %%
# Probabilities over the plane of the two scores, as mixed colors. Where the plane is hatched, the link is not the
# gradient of a convex function: some step in the scores raises one of them and lowers its probability.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    ProbabilityMapDisplay.from_estimator(model, X_test, y_test, ax=ax)
    ax.set_title(name)
plt.show()

# %%
# The same for any number of classes, measured at the rows of the data.

CanonicalityDisplay.from_estimator(models, X_test)
plt.show()
