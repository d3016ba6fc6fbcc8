"""
Finding the wrong labels in a data set
======================================

A tenth of the labels of handwritten digits is replaced at random. Which rows should be checked first?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from legendretron import MultinomialLogisticClassifier
from legendretron.datasets import symmetric_noise
from legendretron.plots import LabelQualityDisplay

X, true = load_digits(return_X_y=True)
X, true = X[:1000], true[:1000]
y = symmetric_noise(true, 0.1, n_classes=10, random_state=0)

# %%
# ``find_label_issues`` returns the rows whose labels are probably wrong, the most suspicious first, according to
# models that were not trained on the row (``cv=5``). ``label_quality`` is the probability that each label is right.
# ``label_noise="symmetric"`` says that some labels are wrong.

clf = MultinomialLogisticClassifier(label_noise="symmetric")
clf.fit(X, y)
rows = clf.find_label_issues(X, y, cv=5)
print(
    f"{np.sum(y != true)} labels are wrong, {len(rows)} are suspicious, {np.sum(y[rows] != true[rows])} of them wrong"
)
print(f"estimated share of wrong labels: {clf.noise_rate_:.1%}")

# %%
# The sixteen most suspicious images. The given label is above each image: green if it is indeed wrong, red if not.

figure, axes = plt.subplots(2, 8, figsize=(8, 2.9), layout="constrained")
for ax, row in zip(axes.flat, rows, strict=False):
    ax.imshow(X[row].reshape(8, 8), cmap="gray_r")
    ax.set_title(f'"{y[row]}"', color="tab:green" if y[row] != true[row] else "tab:red")
    ax.set_axis_off()
plt.show()

# %%
# The probability that each label is wrong, row by row. ``wrong=`` marks the labels that really are, which only an
# experiment knows. ``legendretron suspicious`` writes the rows to a table.

LabelQualityDisplay.from_estimator(clf, X, y, wrong=y != true)
plt.show()
