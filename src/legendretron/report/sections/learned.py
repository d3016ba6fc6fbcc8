"""The learned link and loss, one class at a time, in the unit of the sigmoid: drawn and in words."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

from legendretron.links import Link, SoftmaxLink, clean_link
from legendretron.plots import LinkDisplay
from legendretron.plots.chart import Chart, Line
from legendretron.plots.models import inverse_link, link_of, partial_losses, scale_to_log, sigmoid_unit
from legendretron.report.charts import chart_figure
from legendretron.report.markup import grid, note, number, paragraph, percent, section
from legendretron.report.rows import EvaluationRows

#: Predictors in the sigmoid's unit at which links are drawn, and forecasts at which losses are.
PREDICTORS, FORECASTS = np.linspace(-6.0, 6.0, 97), (np.arange(99) + 1) / 100
#: Most classes that are looked at, the most frequent ones.
_MOST = 30
#: Classes that are drawn, those furthest from the sigmoid.
_DRAWN = 4
#: A link that stays so close to the sigmoid is no different in practice.
_CLOSE = 0.01


def describe_link(classifier: Any, features: Any, rows: EvaluationRows) -> Markup:
    """Return the section on the learned link and loss."""
    return section("learned", "What was learned: link and loss", *_describe(classifier, features, rows))


def _describe(classifier: Any, features: Any, rows: EvaluationRows) -> list[Markup]:
    if is_softmax(classifier):
        wanted, strength = getattr(classifier, "link", "softmax"), getattr(classifier, "link_alpha_", 0.0)
        tried = wanted != "softmax" and np.isinf(strength)
        chosen = " The fit found no learned link that was better on held-out rows." if tried else ""
        return [
            paragraph(
                "The link of this model is the softmax (the sigmoid, if there are two classes), as in logistic regression, "
                f"and the loss that belongs to it is the log-loss: there is no learned shape to draw.{chosen}"
            )
        ]
    if not isinstance(getattr(classifier, "link_", None), Link) and not hasattr(classifier, "inverse_link"):
        return [paragraph(f"{type(classifier).__name__} learns no link, so there is none to draw.")]
    mean = np.asarray(rows.weight @ features / len(rows)).reshape(1, -1)
    if hasattr(features, "columns"):
        mean = type(features)(mean, columns=features.columns)
    centre = np.asarray(classifier.linear_predictor(mean)).ravel()
    sections = link_sections(classifier, centre, rows.share)
    if not sections:
        return [paragraph("The link does not rise from 1/4 to 3/4 for any class, so it cannot be drawn.")]
    drawn = dict([*sections.items()][:_DRAWN])
    losses = loss_sections(classifier, [*drawn], rows.share)
    names = rows.spoken
    two = len(names) == 2
    moved = "" if two else " One class is moved at a time, from the average row."
    return [
        paragraph(_link_in_words(*next(iter(sections.items())), names)),
        paragraph(_loss_in_words(*next(iter(losses.items())), names) if losses else _composite_in_words(classifier)),
        grid([_link_chart(drawn, names), _loss_chart(losses, names) if losses else _score_loss_chart(drawn, names)]),
        note(
            "The link turns the predictor of a class into its probability; logistic regression always uses the sigmoid, in "
            "gray. Predictors are shifted and scaled so that both agree at probabilities of 1/4 and 3/4: what differs is the "
            f"shape.{moved}"
        ),
    ]


def _link_in_words(place: int, p: np.ndarray, names: list[str]) -> str:
    name, far = names[place], gap(p)
    low, high = np.interp([-np.log(19), np.log(19)], PREDICTORS, p).tolist()
    if far < _CLOSE:
        most = f"at most {100 * far:.1f} percentage points" if far >= 5e-4 else "less than 0.1 percentage points"
        if len(names) == 2:
            nearly = f"The learned link is nearly the sigmoid: it differs by {most}."
            return f"{nearly} The model is close to a logistic regression."
        return (
            f"From the average row, the learned link is nearly the sigmoid: it differs by {most}, the most for {name}. For "
            "other rows, where several classes compete, it may differ more."
        )

    def words(told: float, sigmoid: float) -> str:
        kind = "surer" if abs(told - 0.5) > abs(sigmoid - 0.5) else "more cautious"
        return f"where the sigmoid says {percent(sigmoid, 0)}, the link says {percent(told)}, {kind}"

    return (
        f"The learned link differs from the sigmoid by up to {100 * far:.1f} percentage points, most for {name}: "
        f"{words(high, 0.95)}; {words(low, 0.05)}."
    )


def _loss_in_words(place: int, loss: np.ndarray, names: list[str]) -> str:
    found = float(np.interp(0.1, FORECASTS, loss))
    usual = float(-np.log(0.1))
    change = found / usual - 1
    kind = "more" if change > 0 else "less"
    amount = f"{percent(abs(change), 0)} {kind} than" if abs(change) >= 0.01 else "the same as"
    return (
        f"The learned loss is what a forecast costs once the truth is known. If {names[place]} is true and was "
        f"given 10 %, it costs {number(found, 2)}, {amount} the log-loss ({number(usual, 2)}). "
        + ("Bold mistakes weigh more." if change >= 0.01 else "Bold mistakes weigh less." if change <= -0.01 else "")
    )


def _composite_in_words(classifier: Any) -> str:
    if not isinstance(getattr(classifier, "link_", None), Link):
        return "This model learns a link only; it has no loss of its own to draw."
    return (
        "With three classes or more, a link of this kind (composite) has no loss of its own: it is trained by the log-loss "
        "of its probabilities. That is drawn against the predictor, where it differs from the one of logistic regression."
    )


def _link_chart(sections: dict[int, np.ndarray], names: list[str]) -> Markup:
    curves = {names[k]: p for k, p in sections.items()}
    return chart_figure(LinkDisplay(PREDICTORS, curves, of="the class", unit="sigmoid").chart(), "Learned link")


def _loss_chart(sections: dict[int, np.ndarray], names: list[str]) -> Markup:
    axes = "forecast for the true class", "loss, scaled to the log-loss"
    lines = [Line(FORECASTS, -np.log(FORECASTS), "log-loss"), *_if_true(FORECASTS, sections, names)]
    return chart_figure(Chart(*axes, lines, xlim=(0.0, 1.0), ylim=(0.0, 4.6)), "Learned loss")


def _score_loss_chart(sections: dict[int, np.ndarray], names: list[str]) -> Markup:
    axes = "predictor, in the sigmoid's unit", "loss if the class is true"
    with np.errstate(divide="ignore"):
        losses = {k: -np.log(p) for k, p in sections.items()}
    lines = [
        Line(PREDICTORS, np.log1p(np.exp(-PREDICTORS)), "logistic regression"),
        *_if_true(PREDICTORS, losses, names),
    ]
    return chart_figure(Chart(*axes, lines, xlim=(-6.0, 6.0), ylim=(0.0, 6.5)), "Loss against the predictor")


def _if_true(x: np.ndarray, losses: dict[int, np.ndarray], names: list[str]) -> list[Line]:
    return [Line(x, loss, f"if {names[k]} is true", place) for place, (k, loss) in enumerate(losses.items())]


def gap(p: np.ndarray) -> float:
    """Return the largest distance of a link from the sigmoid."""
    return float(np.abs(p - expit(PREDICTORS)).max())


def is_softmax(model: Any) -> bool:
    """Whether the link of a model is the softmax, so that its loss is the log-loss."""
    link = getattr(model, "link_", None)
    return isinstance(link, Link) and isinstance(clean_link(link), SoftmaxLink)


def is_logistic_regression(model: Any) -> bool:
    """Whether a model of this library, or of scikit-learn, is logistic regression that takes all labels to be right."""
    linear = getattr(model, "is_linear_", True) and not getattr(model, "noise_rate_", 0.0) > 0.0
    return (linear and is_softmax(model)) or isinstance(model, LogisticRegression | LogisticRegressionCV)


def link_sections(model: Any, centre: np.ndarray, share: np.ndarray) -> dict[int, np.ndarray]:
    """Return how the probability of each class, by its place, rises with its predictor, from the average row.

    The class furthest from the sigmoid is first; those that do not reach probabilities of 1/4 and 3/4 are left out.
    """
    n_classes = len(model.classes_)
    probabilities: dict[int, Any]
    if hasattr(model, "inverse_link") and n_classes == 2:
        probabilities = {1: lambda t: np.asarray(model.inverse_link(t), dtype=float)}
    elif n_classes == 2:  # a link of two classes has the second first
        probabilities = {1: partial(_along, clean_link(link_of(model)), np.zeros(1), np.ones(1), 0)}
    else:
        link, basis = clean_link(link_of(model)), np.vstack([np.eye(n_classes - 1), -np.ones(n_classes - 1)])
        frequent = np.argsort(-share, kind="stable")[:_MOST].tolist()
        probabilities = {k: partial(_along, link, centre, basis[k], k) for k in frequent}
    units = {k: sigmoid_unit(of) for k, of in probabilities.items()}
    found = {k: probabilities[k](unit[0] + unit[1] * PREDICTORS) for k, unit in units.items() if unit is not None}
    return dict(sorted(found.items(), key=lambda one: -gap(one[1])))


def _along(link: Link, centre: np.ndarray, direction: np.ndarray, place: int, t: np.ndarray) -> np.ndarray:
    """Probability of a class at predictors on a line."""
    return inverse_link(link, centre + t[:, None] * direction)[:, place]


def loss_sections(model: Any, places: list[int], share: np.ndarray) -> dict[int, np.ndarray] | None:
    """Return the canonical loss of classes, each if it is true, against its forecast; None if there is no canonical loss.

    The other classes share the rest of the forecast by their frequencies. Losses are scaled to the Bayes risk of the
    log-loss where all classes are equally probable.
    """
    link = getattr(model, "link_", None)
    if not isinstance(link, Link) or not clean_link(link).is_canonical:
        return None
    of, n = clean_link(link), len(share)
    order = [1, 0] if n == 2 else list(range(n))  # of the link
    forecasts = [np.full((1, n), 1.0 / n)]
    for k in places:
        others = np.maximum(share, 1e-3 / n)
        others[k] = 0.0
        q = (1 - FORECASTS)[:, None] * (others / others.sum())
        q[:, k] = FORECASTS
        forecasts.append(q)
    losses = partial_losses(of, np.concatenate(forecasts)[:, order])[:, order]
    factor = scale_to_log(float(losses[0].mean()), n)
    parts = np.split(losses[1:], len(places))
    return {k: factor * part[:, k] for k, part in zip(places, parts, strict=True)}
