"""Draw the picture of the first page, docs/figures/overview.png, from the record of networks and their peers.

    python docs/overview.py

The numbers drawn are kept in the file, so that a test can tell whether they are those of the record.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parent
PICTURE = DOCS / "figures" / "overview.png"
#: the paper's data sets and scikit-learn's
DATASETS = (
    "letter", "vowel", "vehicle", "glass", "wine", "svmguide2", "iris", "dna", "usps", "Sensorless", "digits",
    "breast cancer",
)  # fmt: skip
#: with colors that stay apart for color-blind readers; the library's own are filled
MODELS = {
    "LogisticRegressionCV": ("logistic regression", {"marker": "o", "facecolors": "white", "edgecolors": "#0072b2"}),
    "LegendreTronClassifier()": ("LegendreTronClassifier (linear)", {"marker": "D", "color": "#d55e00"}),
    "LegendreNetClassifier()": ("LegendreNetClassifier (network)", {"marker": "s", "color": "#009e73"}),
    "HistGradientBoostingClassifier()": ("gradient boosting", {"marker": "|", "color": "#555555", "s": 70}),
    "CatBoostClassifier()": ("CatBoost", {"marker": "x", "color": "#555555"}),
}


def accuracies() -> dict[str, dict[str, float]]:
    """Test accuracy in % by data set and model, with right labels."""
    found: dict[str, dict[str, float]] = {}
    with (DOCS / "results" / "network" / "network.csv").open() as file:
        for row in csv.DictReader(file):
            if row["model"] in MODELS and row["dataset"] in DATASETS and float(row["noise"]) == 0.0:
                label = f"{row['dataset']}, {row['classes']} classes"
                found.setdefault(label, {})[row["model"]] = float(row["accuracy"])
    return found


def draw(path: Path) -> dict[str, dict[str, float]]:
    """Draw the accuracies, the largest gain of the linear model first, and return what was drawn."""
    found = accuracies()
    ours, theirs = "LegendreTronClassifier()", "LogisticRegressionCV"
    order = sorted(found, key=lambda label: found[label][theirs] - found[label][ours])
    figure, ax = plt.subplots(figsize=(8, 4.4), layout="constrained")
    for place, label in enumerate(order):
        ends = [found[label][theirs], found[label][ours]]
        ax.plot(ends, [place, place], color="#bbbbbb", linewidth=3, zorder=1)
    for model, (name, style) in MODELS.items():
        values = [found[label][model] for label in order]
        ax.scatter(values, range(len(order)), label=name, zorder=2, **{"s": 36, **style})
    ax.set(yticks=range(len(order)), yticklabels=order, xlabel="test accuracy in %, mean of up to 5 splits")
    ax.invert_yaxis()
    ax.grid(axis="x", color="#eeeeee")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(left=False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=100, metadata={"Software": None, "Description": json.dumps(found)})
    plt.close(figure)
    return found


if __name__ == "__main__":
    draw(PICTURE)
    print(f"{PICTURE.name}: {PICTURE.stat().st_size / 1000:.0f} kB")
