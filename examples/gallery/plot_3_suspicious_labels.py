"""
Finding the wrong labels in a data set
======================================

A tenth of the labels of handwritten digits is replaced at random. Which rows would one look at first?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from legendretron import MultinomialLogisticClassifier
from legendretron.datasets import symmetric_noise

X, true = load_digits(return_X_y=True)
X, true = X[:1000], true[:1000]
y = symmetric_noise(true, 0.1, n_classes=10, random_state=0)

# %%
# ``find_label_issues`` returns the rows whose labels are probably wrong, the most suspicious one first, judged by
# models that have not seen the row (``cv=5``). ``label_quality`` is the probability that each label is right.

clf = MultinomialLogisticClassifier(label_noise="symmetric")
clf.fit(X, y)
rows = clf.find_label_issues(X, y, cv=5)
print(
    f"{np.sum(y != true)} labels are wrong, {len(rows)} are suspicious, {np.sum(y[rows] != true[rows])} of them wrong"
)
print(f"estimated share of wrong labels: {clf.noise_rate_:.1%}")

# %%
# The sixteen most suspicious images. The label is above each; green ones are wrong labels, and rightly suspicious.

figure, axes = plt.subplots(2, 8, figsize=(8, 2.9), layout="constrained")
for ax, row in zip(axes.flat, rows, strict=False):
    ax.imshow(X[row].reshape(8, 8), cmap="gray_r")
    ax.set_title(f'"{y[row]}"', color="tab:green" if y[row] != true[row] else "tab:red")
    ax.set_axis_off()
plt.show()

# %%
# :class:`~legendretron.plots.LabelQualityDisplay` draws the doubts about all rows, and ``legendretron suspicious``
# writes them to a table.
