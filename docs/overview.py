"""Draw the picture of the first page, docs/figures/overview.png, from the records of the defaults and of networks.

    python docs/overview.py

The numbers drawn are kept in the file, so that a test can tell whether they are those of the records.
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
#: with colours that stay apart for colour-blind readers
MODELS = {
    "LogisticRegressionCV": ("logistic regression", "o", "#0072b2"),
    "LegendreTronClassifier()": ("LegendreTronClassifier()", "D", "#d55e00"),
    "LegendreNetClassifier()": ("LegendreNetClassifier()", "s", "#009e73"),
    "HistGradientBoosting": ("gradient boosting", "|", "#666666"),
}


def accuracies() -> dict[str, dict[str, float]]:
    """Test accuracy in % by data set and model."""
    found: dict[str, dict[str, float]] = {}
    with (DOCS / "results" / "defaults" / "defaults.csv").open() as file:
        for row in csv.DictReader(file):
            if row["model"] in MODELS:
                label = f"{row['dataset']}, {row['classes']} classes"
                found.setdefault(label, {})[row["model"]] = float(row["accuracy"])
    with (DOCS / "results" / "network" / "network.csv").open() as file:
        for row in csv.DictReader(file):
            label = f"{row['dataset']}, {row['classes']} classes"
            if row["model"] == "LegendreNetClassifier()" and float(row["noise"]) == 0.0 and label in found:
                found[label][row["model"]] = float(row["accuracy"])
    return found


def draw(path: Path) -> dict[str, dict[str, float]]:
    """Draw the accuracies, the largest gain first, and return what was drawn."""
    found = accuracies()
    ours, theirs = "LegendreTronClassifier()", "LogisticRegressionCV"
    order = sorted(found, key=lambda label: found[label][theirs] - found[label][ours])
    figure, ax = plt.subplots(figsize=(8, 4.4), layout="constrained")
    for place, label in enumerate(order):
        ends = [found[label][theirs], found[label][ours]]
        ax.plot(ends, [place, place], color="#bbbbbb", linewidth=3, zorder=1)
    for model, (name, marker, colour) in MODELS.items():
        places = [place for place, label in enumerate(order) if model in found[label]]
        values = [found[order[place]][model] for place in places]
        ax.scatter(values, places, marker=marker, color=colour, label=name, zorder=2, s=60 if marker == "|" else 36)
    ax.set(
        yticks=range(len(order)),
        yticklabels=order,
        xlabel="test accuracy in %, mean of 20 splits (news20: 2, networks: 5)",
    )
    ax.invert_yaxis()
    ax.grid(axis="x", color="#eeeeee")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(left=False)
    ax.legend(loc="lower left")
    figure.savefig(path, dpi=100, metadata={"Software": None, "Description": json.dumps(found)})
    plt.close(figure)
    return found


if __name__ == "__main__":
    draw(PICTURE)
    print(f"{PICTURE.name}: {PICTURE.stat().st_size / 1000:.0f} kB")
