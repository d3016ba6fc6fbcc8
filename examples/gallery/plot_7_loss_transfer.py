"""
A loss learned on one table, used on another
============================================

Where rows are few, a loss can be learned elsewhere: on a larger table whose labels arise in the same way. The loss is
kept, and only the weights are trained, which is a convex problem as in logistic regression.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier

WEIGHTS = np.random.default_rng(1).normal(size=(2, 6))


def data(rows, weights, seed):
    """Labels from scores in another way than by the softmax: mostly decided by the larger score, but never surely."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6))
    z = np.c_[X @ weights.T, np.zeros(rows)]
    softmax = [np.exp(t * z) / np.exp(t * z).sum(1, keepdims=True) for t in (0.2, 6.0)]
    p = 0.5 * softmax[0] + 0.5 * softmax[1]
    return X, (rng.random((rows, 1)) > p.cumsum(1)).sum(1)


# %%
# The first table is large. Its loss is learned together with its weights.

first = LegendreTronClassifier("canonical", alpha=1e-4, link_alpha=1e-4, random_state=0).fit(
    *data(10_000, WEIGHTS, seed=0)
)
loss = first.loss_

# %%
# The second one has other weights and few rows. Mean over ten draws of the rows, penalties chosen by cross-validation
# for both.

other = np.random.default_rng(2).normal(size=(2, 6))
X_test, y_test = data(20_000, other, seed=99)
sizes, draws = [50, 100, 200, 400], 10
scores = {"logistic regression": [], "weights by the transferred loss": []}
for size in sizes:
    for name in scores:
        of_draws = []
        for seed in range(draws):
            model = (
                MultinomialLogisticClassifier() if name.startswith("logistic") else LegendreTronClassifier(link=loss)
            )
            model.fit(*data(size, other, seed=seed))
            of_draws.append(log_loss(y_test, model.predict_proba(X_test)))
        scores[name].append(of_draws)

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, values in scores.items():
    values = np.array(values)
    ax.errorbar(sizes, values.mean(1), values.std(1, ddof=1) / np.sqrt(draws), marker="o", capsize=3, label=name)
ax.set(
    xscale="log", xlabel="rows of the second table", ylabel="test log-loss", xticks=sizes, xticklabels=map(str, sizes)
)
ax.minorticks_off()
ax.legend()
plt.show()

# %%
# Here both tables are simulated in the same way. On :doc:`four real tasks </results/loss_transfer/loss_transfer>`, a
# transferred loss did not help.
