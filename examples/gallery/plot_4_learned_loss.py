"""
The learned loss, drawn
=======================

Every way to turn a score into a probability (a *link*) has a loss that fits it, in the way cross-entropy fits the
sigmoid. Here labels are drawn from a link that is known and is not the sigmoid. With more rows, the learned loss
comes close to the loss of that link.
"""

import matplotlib.pyplot as plt
import numpy as np

from legendretron import LegendreTronClassifier
from legendretron.plots import LinkDisplay, LossDisplay


def data(rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3))
    p = 1 - np.exp(-np.exp(1.5 * X @ [1.0, -1.0, 0.5]))  # the complementary log-log link
    return X, (rng.random(rows) < p).astype(int)


models = {
    f"learned from {rows:,} rows": LegendreTronClassifier(alpha=1e-3, link_alpha=1e-4, random_state=0).fit(*data(rows))
    for rows in (200, 2000, 10000)
}

# %%
# Left: probability against score, in the unit of the sigmoid. Right: what a forecast costs if the event happens
# (falling curves) and if it does not (rising ones), scaled alike. If the event happens, the learned
# loss penalizes a confident "no" more than the log-loss; if it does not, it penalizes a confident "yes" less.

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
LinkDisplay.from_estimator(models, data(2000)[0], ax=axes[0])
z = np.linspace(-4, 4, 200)
quarter, three_quarters = (np.log(-np.log(1 - p)) for p in (0.25, 0.75))
scale = (three_quarters - quarter) / (2 * np.log(3))
truth = 1 - np.exp(-np.exp(quarter + scale * (z + np.log(3))))
axes[0].plot(z, truth, color="black", linestyle=":", label="the link that drew the labels")
axes[0].legend(fontsize=8)
LossDisplay.from_estimator(models["learned from 10,000 rows"], ax=axes[1], name="learned from 10,000 rows")
plt.show()
