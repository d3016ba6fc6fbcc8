"""Training and tuning curves."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup

from legendretron.diagnostics import LinkTest
from legendretron.plots import TrainingDisplay, TuningDisplay
from legendretron.report.charts import chart_figure
from legendretron.report.markup import grid, note, paragraph, section
from legendretron.training import History

_TITLE = "Training and tuning"


def training(classifier: Any) -> Markup:
    """Return the section on how the classifier was fitted, as far as it knows."""
    said, pictures = [], []
    history = getattr(classifier, "history_", None)
    if isinstance(history, History) and len(history):
        steps = int(getattr(classifier, "n_iter_", len(history)))
        unit = "steps" if hasattr(classifier, "network_log_loss_") else "passes or iterations"
        said.append(f"Training took {steps:,} {unit if steps != 1 else 'pass or iteration'}.")
        if len(history) > 1:
            pictures.append(chart_figure(TrainingDisplay({"log-loss": history.select_run(0)}).chart(), "Training"))
    else:
        said.append(f"{type(classifier).__name__} keeps no record of its training.")
    try:
        tuning = getattr(classifier, "tuning_", None)
    except ImportError:  # the table of candidates is a data frame
        tuning = None
        said.append("The penalties that were tried are not plotted, because this needs pandas.")
    if tuning is not None:
        if len(tuning) > 1:
            tried = "Penalties that were tried; the chosen one has a ring"
            pictures.append(chart_figure(TuningDisplay(tuning).chart(), tried))
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
        said.append("The penalties were given, so no others were tried.")
    more = []
    if tuning is not None:
        more.append(note("Bars are one standard error of the difference to the best logistic regression."))
        if (tuning["label_noise"] > 0).any():
            more.append(
                note(
                    "Candidates that assume label noise are compared like all others, by the log-loss of held-out labels "
                    "as they are recorded."
                )
            )
    return section("training", _TITLE, paragraph(" ".join(said)), grid(pictures) if pictures else "", *more)


def _link_test(test: LinkTest, *, learned: bool) -> str:
    """Whether softmax is right, in a sentence."""
    rejected = [str(name) for name in test.rejected_classes]
    which = f", most clearly for {', '.join(rejected[:5])}" if rejected and len(test.classes) > 2 else ""
    less = "" if learned or test.p_value >= 0.05 else ", but a learned link gained too little to be chosen"
    return f"On held-out rows, {test}{which}{less}."
