"""
Training on noisy labels
========================

A share of the training labels is replaced by other classes. How well are the *true* classes predicted? By default,
models predict labels like the ones they are trained on. With ``label_noise="symmetric"``,
:class:`~legendretron.estimators.LegendreTronClassifier` estimates how many labels are wrong, and predicts the true ones.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss

from legendretron import LegendreTronClassifier
from legendretron.datasets import symmetric_noise

X, true = make_blobs(2000, centers=5, n_features=8, cluster_std=3.5, random_state=3)
X, X_test, true, true_test = X[:800], X[800:], true[:800], true[800:]

# %%
# ``fit`` estimates the rate, and we say that some labels are wrong. Only we can know that: labels that are a matter of
# chance look the same.

settings = {"scoring": "neg_log_loss", "max_iter": 1000, "l1_ratios": (0,), "use_legacy_attributes": False}
shares = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
log_losses = {"logistic regression": [], "LegendreTron": []}
rates = []
for share in shares:
    y = symmetric_noise(true, share, n_classes=5, random_state=0)
    models = {
        "logistic regression": LogisticRegressionCV(**settings),
        "LegendreTron": LegendreTronClassifier(label_noise="symmetric", random_state=0),
    }
    right = {}
    for name, model in models.items():
        model.fit(X, y)
        right[name] = np.mean(model.predict(X_test) == true_test)
        log_losses[name].append(log_loss(true_test, model.predict_proba(X_test)))
    rates.append((models["LegendreTron"].noise_rate_, *models["LegendreTron"].noise_rate_interval_))
    print(f"{share:.0%} wrong labels:", ", ".join(f"{name} {value:.1%} right" for name, value in right.items()))

# %%
# Label noise hardly changes which class is predicted here. But logistic regression predicts the probabilities of
# observed labels: it becomes underconfident, and its log-loss on true labels rises.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for name, values in log_losses.items():
    axes[0].plot(shares, values, "o-", label=name)
axes[0].set(xlabel="share of wrong training labels", ylabel="test log-loss, true classes")
axes[0].legend()
estimate, low, high = np.array(rates).T
axes[1].axline((0, 0), slope=1, color="grey", linestyle=":", label="true share")
axes[1].errorbar(shares, estimate, [estimate - low, high - estimate], fmt="o", color="C1", capsize=3, label="estimate")
axes[1].set(xlabel="share of wrong training labels", ylabel="noise_rate_ and its interval")
axes[1].legend()
plt.show()
