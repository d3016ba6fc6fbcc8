"""
Five minutes: from a table to a report
======================================

A real table with numbers, text and missing values: the 1,309 passengers of the Titanic. We read it, fit the linear model
and the network, compare them with logistic regression and gradient boosting, check the probabilities, predict sets of
classes, look for wrong labels, save a model and write a report.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import legendretron
from legendretron import EvaluationReport, LegendreNetClassifier, LegendreTronClassifier, TableClassifier
from legendretron.plots import ReliabilityDisplay

# %%
# Read
# ----
# The file is installed with scikit-learn, as part of its tests, so nothing is downloaded. It is data set 40945 of OpenML.
# To use your own table, replace these lines by ``table = pd.read_csv("your.csv")``.

data = Path(sklearn.__file__).parent / "datasets/tests/data/openml/id_40945"
names = "pclass survived name sex age sibsp parch ticket fare cabin embarked boat body home.dest"
table = pd.read_csv(
    data / "data-v1-dl-16826755.arff.gz",
    skiprows=17,
    names=names.split(),
    na_values="?",
    escapechar="\\",
)
table["home.dest"] = table["home.dest"].str.split().str.join(" ")  # one name has two spaces
table[["pclass", "survived", "sex", "age", "fare", "cabin", "embarked"]].head()

# %%
# The columns ``boat`` and ``body`` were recorded afterwards and give the answer away. Names and tickets identify
# passengers. We drop all four.

X = table.drop(columns=["survived", "boat", "body", "name", "ticket"])
y = table["survived"].map({0: "died", 1: "survived"})
parts = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
X_train, X_test, y_train, y_test = parts
X_train.isna().sum()

# %%
# Fit
# ---
# :class:`~legendretron.estimators.TableClassifier` encodes text, dates and missing values for a classifier of this
# library or of scikit-learn. All four models are fitted to the same columns.

tune = {"scoring": "neg_log_loss", "max_iter": 1000}
tune |= {"l1_ratios": (0,), "use_legacy_attributes": False}  # the defaults of later versions
logistic = LogisticRegressionCV(**tune)
models = {
    "logistic regression": TableClassifier(make_pipeline(StandardScaler(), logistic)),
    "gradient boosting": TableClassifier(HistGradientBoostingClassifier(random_state=0)),
    "linear": TableClassifier(LegendreTronClassifier(random_state=0)),
    "network": TableClassifier(LegendreNetClassifier(random_state=0)),
}
scores = {}
for name, model in models.items():
    model.fit(X_train, y_train)
    loss = log_loss(y_test, model.predict_proba(X_test))
    scores[name] = {"accuracy": model.score(X_test, y_test), "log-loss": loss}
pd.DataFrame(scores).T.round(3)

# %%
# Differences of one or two percent mean little with 393 test rows; the report below says so, too. The linear model
# first tests whether the softmax, which logistic regression always uses, fits the data:

linear, network = models["linear"], models["network"]
print(linear.link_test_)

# %%
# Check the probabilities
# -----------------------
# On the diagonal, predictions are right as often as their probabilities say. The legend shows the calibration error.

ReliabilityDisplay.from_estimator(models, X_test, y_test, strategy="smooth")
plt.show()

# %%
# Predict sets
# ------------
# Where one class is not certain enough, predict a set that contains the label with a given probability.

sets = network.predict_set(X_test, coverage=0.9)
place = np.searchsorted(network.classes_, y_test)
held, single = sets[np.arange(len(y_test)), place].mean(), np.mean(sets.sum(1) == 1)
print(f"{held:.1%} of the sets contain the label, {single:.1%} are a single class")

# %%
# Find wrong labels
# -----------------
# ``fit`` estimates the share of labels that are wrong, or as random as wrong ones. Here it is zero: survival was partly
# chance, but a share of labels at random does not explain it better. ``label_quality`` is the probability that a label is
# correct, estimated by models that were not trained on the row. These five rows would be the first to check:

issues = linear.find_label_issues(X_train, y_train)
print(f"wrong or random labels: {linear.noise_rate_:.0%}, suspicious rows: {len(issues)}")
quality = linear.label_quality(X_train, y_train, cv=5)
first = X_train.index[np.argsort(quality)[:5]]
rows = table.loc[first, ["name", "pclass", "sex", "age"]]
rows.assign(label=y[first], quality=np.sort(quality)[:5].round(3))

# %%
# :doc:`Another example </auto_examples/plot_3_suspicious_labels>` finds labels that are wrong.
#
# Save, and write a report
# ------------------------
# Saved models contain numbers and text only, and loading one never runs code. The report is one HTML file that loads
# nothing from elsewhere. This is how it begins:

folder = Path(tempfile.mkdtemp())
network.save(folder / "titanic.safetensors")
again = legendretron.load(folder / "titanic.safetensors")
assert (again.predict(X_test) == network.predict(X_test)).all()

report = EvaluationReport(again, X_test, y_test)
report.save(folder / "report.html")
print(report.summary)

# %%
# The command line does the same with files:
#
# .. code-block:: sh
#
#     legendretron fit train.csv --target survived --model network --out titanic.safetensors
#     legendretron evaluate titanic.safetensors test.csv --target survived --report report.html
