"""Training and tuning curves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from legendretron.diagnostics import LinkTest
from legendretron.plots.training import by_link_alpha, heights, logistic_curves
from legendretron.report.charts import Chart
from legendretron.report.markup import grid, note, number, paragraph, section
from legendretron.training import History

_TITLE = "Training and tuning"


def training(classifier: Any) -> Markup:
    """Return the section on how the classifier was fitted, as far as it knows."""
    said, pictures = [], []
    history = getattr(classifier, "history_", None)
    if isinstance(history, History) and len(history):
        steps = int(getattr(classifier, "n_iter_", len(history)))
        said.append(f"Training took {steps:,} {'pass' if steps == 1 else 'passes'} or iterations.")
        if len(history) > 1:
            pictures.append(_history(history))
    else:
        said.append(f"{type(classifier).__name__} keeps no record of its training.")
    try:
        tuning = getattr(classifier, "tuning_", None)
    except ImportError:  # the table of candidates is a data frame
        tuning = None
        said.append("The strengths that were tried are not drawn: that needs pandas.")
    if tuning is not None:
        found = _tuning(tuning)
        if found:
            pictures.append(found)
        chosen = tuning[tuning["chosen"].astype(bool)]
        if len(chosen):
            alpha, link = float(chosen["alpha"].iloc[0]), float(chosen["link_alpha"].iloc[0])
            what = "logistic regression" if math.isinf(link) else f"a learned link with link_alpha {link:.3g}"
            said.append(
                f"Of {len(tuning)} candidates tried on held-out training rows, {what} and alpha {alpha:.3g} was chosen."
            )
        if hasattr(classifier, "link_test_"):
            said.append(_link_test(classifier.link_test_, learned=math.isfinite(classifier.link_alpha_)))
    elif isinstance(history, History) and hasattr(classifier, "alpha_"):
        said.append("The strengths of the penalties were given, so none were tried.")
    more = []
    if tuning is not None:
        more.append(note("Bars are one standard error of the difference to the best logistic regression."))
        if (tuning["label_noise"] > 0).any():
            more.append(
                note(
                    "Candidates that take some labels to be wrong need more than a lower loss to be chosen: the labels must "
                    "look wrong by accident, and not because the model does not fit."
                )
            )
    return section("training", _TITLE, paragraph(" ".join(said)), grid(pictures) if pictures else "", *more)


def _link_test(test: LinkTest, *, learned: bool) -> str:
    """Whether softmax is right, in a sentence."""
    rejected = [str(name) for name in test.rejected_classes]
    which = f", most clearly for {', '.join(rejected[:5])}" if rejected and len(test.classes) > 2 else ""
    less = "" if learned or test.p_value >= 0.05 else ", but a learned link gained too little to be chosen"
    return f"On held-out rows, {test}{which}{less}."


def _history(history: History) -> Markup:
    run = history.select_run(0)
    epoch, train, held = run["epoch"], run["train_loss"], run["validation_loss"]
    both = np.concatenate([train, held[np.isfinite(held)]])
    both = both[np.isfinite(both)]
    low, high = float(both.min()), float(np.quantile(both, 0.995))
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    chart = Chart(
        "pass over the training rows", "log-loss", (float(epoch[0]), float(epoch[-1])), (low - room, high + room)
    )
    kept = np.unique(np.linspace(0, len(epoch) - 1, min(len(epoch), 300)).astype(int))
    for name, colour, loss in (("training rows", "c0", train), ("held-out rows", "c1", held)):
        if np.isfinite(loss).any():
            tips = [f"pass {a:.0f}, {name}: {number(b, 4)}" for a, b in zip(epoch[kept], loss[kept], strict=True)]
            chart.line(epoch[kept], loss[kept], colour, name, tips=tips)
    return chart.figure("Training")


def _tuning(tuning: Any) -> Markup:
    table, _ = heights(tuning)
    table = table[table["alpha"] > 0]  # zero has no place on a logarithmic axis
    if len(table) < 2:
        return Markup("")
    value, bar = table["height"].to_numpy(dtype=float), table["bar"].to_numpy(dtype=float)
    low, high = float(np.nanmin(value)), float(np.nanmax(value))
    high = (
        min(high, low + 6 * (float(np.nanmedian(value)) - low))
        if len(value) > 3 and np.nanmedian(value) > low
        else high
    )
    room = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    alphas = table["alpha"].to_numpy(dtype=float)
    ends = float(alphas.min()) / 1.5, float(alphas.max()) * 1.5
    chart = Chart(
        "alpha: penalty on the weights", "log-loss on held-out rows", ends, (low - room, high + room), xlog=True
    )
    links = table[~np.isinf(table["link_alpha"].to_numpy(dtype=float))]
    complete = links[links["steps"] == links["steps"].max()]  # others were given up on the way
    groups = logistic_curves(table) + [(f"learned link, {name}", own) for name, own in by_link_alpha(complete)]
    for place, (shown, own) in enumerate(groups):
        if not len(own):
            continue
        own, colour = own.sort_values("alpha"), f"c{place % 7}"
        x, y, error = (own[column].to_numpy(dtype=float) for column in ("alpha", "height", "bar"))
        tips = [f"{shown}\nalpha {a:.3g}: {number(b, 4)}" for a, b in zip(x, y, strict=True)]
        chart.line(x, y, colour, shown)
        chart.points(x.tolist(), y.tolist(), colour, tips, error.tolist() if np.isfinite(bar).any() else ())
    chosen = table[table["chosen"].astype(bool)]
    if len(chosen):
        chart.ring(float(chosen["alpha"].iloc[0]), float(chosen["height"].iloc[0]), "chosen")
    return chart.figure("Strengths tried; a ring is around the chosen one")
