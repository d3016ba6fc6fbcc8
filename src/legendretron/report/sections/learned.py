"""The learned link and loss, drawn and in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup
from scipy.special import expit

from legendretron.links import Link
from legendretron.report.charts import Chart
from legendretron.report.learned_link import (
    FORECASTS,
    SCORES,
    LinkSection,
    LossSection,
    is_softmax,
    link_sections,
    loss_sections,
)
from legendretron.report.markup import grid, note, number, paragraph, percent, section
from legendretron.report.rows import Rows

#: Classes that are drawn, those furthest from the sigmoid.
_DRAWN = 4
#: A link that stays so close to the sigmoid is no different in practice.
_CLOSE = 0.01
_TITLE = "What was learned: link and loss"


def learned(classifier: Any, features: Any, rows: Rows) -> Markup:
    """Return the section on the learned link and loss."""
    if is_softmax(classifier):
        wanted, strength = getattr(classifier, "link", "softmax"), getattr(classifier, "link_alpha_", 0.0)
        tried = wanted != "softmax" and np.isinf(strength)
        chosen = " The fit found no learned link that was better on held-out rows." if tried else ""
        return section(
            "learned",
            _TITLE,
            paragraph(
                "The link of this model is the softmax (the sigmoid, if there are two classes), as in logistic regression, "
                f"and the loss that belongs to it is the log-loss: there is no learned shape to draw.{chosen}"
            ),
        )
    if not isinstance(getattr(classifier, "link_", None), Link) and not hasattr(classifier, "inverse_link"):
        return section(
            "learned",
            _TITLE,
            paragraph(f"{type(classifier).__name__} learns no link, so there is none to draw."),
        )
    mean = np.asarray(rows.weight @ features / len(rows)).reshape(1, -1)
    if hasattr(features, "columns"):
        mean = type(features)(mean, columns=features.columns)
    centre = np.asarray(classifier.linear_predictor(mean)).ravel()
    sections = link_sections(classifier, centre, rows.share)
    if not sections:
        return section(
            "learned", _TITLE, paragraph("The link does not rise from 1/4 to 3/4 for any class, so it cannot be drawn.")
        )
    losses = loss_sections(classifier, [one.place for one in sections[:_DRAWN]], rows.share)
    names = rows.spoken
    two = len(names) == 2
    moved = "" if two else " One class is moved at a time, from the average row."
    return section(
        "learned",
        _TITLE,
        paragraph(_link_in_words(sections[0], names)),
        paragraph(_loss_in_words(losses[0], names) if losses else _composite_in_words(classifier)),
        grid(
            [
                _link_chart(sections[:_DRAWN], names),
                _loss_chart(losses, names) if losses else _score_loss_chart(sections[:_DRAWN], names),
            ]
        ),
        note(
            "The link turns the score of a class into its probability; logistic regression always uses the sigmoid, in grey. "
            "Scores are shifted and scaled so that both agree at probabilities of 1/4 and 3/4: what differs is the shape."
            f"{moved}"
        ),
    )


def _link_in_words(one: LinkSection, names: list[str]) -> str:
    name = names[one.place]
    low, high = np.interp([-np.log(19), np.log(19)], SCORES, one.p).tolist()
    if one.gap < _CLOSE:
        most = (
            f"at most {100 * one.gap:.1f} percentage points" if one.gap >= 5e-4 else "less than 0.1 percentage points"
        )
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
        f"The learned link differs from the sigmoid by up to {100 * one.gap:.1f} percentage points, most for {name}: "
        f"{words(high, 0.95)}; {words(low, 0.05)}."
    )


def _loss_in_words(one: LossSection, names: list[str]) -> str:
    found = float(np.interp(0.1, FORECASTS, one.loss))
    usual = float(-np.log(0.1))
    change = found / usual - 1
    kind = "more" if change > 0 else "less"
    amount = f"{percent(abs(change), 0)} {kind} than" if abs(change) >= 0.01 else "the same as"
    return (
        f"The learned loss is what a forecast costs once the truth is known. If {names[one.place]} is true and was "
        f"given 10 %, it costs {number(found, 2)}, {amount} the log-loss ({number(usual, 2)}). "
        + ("Bold mistakes weigh more." if change >= 0.01 else "Bold mistakes weigh less." if change <= -0.01 else "")
    )


def _composite_in_words(classifier: Any) -> str:
    if not isinstance(getattr(classifier, "link_", None), Link):
        return "This model learns a link only; it has no loss of its own to draw."
    return (
        "With three classes or more, a link of this kind (composite) has no loss of its own: it is trained by the log-loss "
        "of its probabilities. That is drawn against the score, where it differs from the one of logistic regression."
    )


def _link_chart(sections: list[LinkSection], names: list[str]) -> Markup:
    chart = Chart("score of the class, in the sigmoid's unit", "probability of the class", (-6, 6), (0, 1))
    usual = expit(SCORES)
    chart.line(SCORES, usual, "grey", "sigmoid")
    for place, one in enumerate(sections):
        name = names[one.place]
        tips = [
            f"{name}\nscore {number(z, 1)}: {percent(p)}, sigmoid {percent(q)}"
            for z, p, q in zip(SCORES.tolist(), one.p.tolist(), usual.tolist(), strict=True)
        ]
        chart.line(SCORES, one.p, f"c{place}", name, tips=tips)
    return chart.figure("Learned link")


def _loss_chart(sections: list[LossSection], names: list[str]) -> Markup:
    chart = Chart("forecast for the true class", "loss, scaled to the log-loss", (0, 1), (0, 4.6))
    usual = -np.log(FORECASTS)
    chart.line(FORECASTS, usual, "grey", "log-loss")
    for place, one in enumerate(sections):
        name = names[one.place]
        tips = [
            f"{name} true, forecast {percent(q, 0)}\nloss {number(own, 2)}, log-loss {number(log, 2)}"
            for q, own, log in zip(FORECASTS.tolist(), one.loss.tolist(), usual.tolist(), strict=True)
        ]
        chart.line(FORECASTS, one.loss, f"c{place}", f"if {name} is true", tips=tips)
    return chart.figure("Learned loss")


def _score_loss_chart(sections: list[LinkSection], names: list[str]) -> Markup:
    chart = Chart("score of the class, in the sigmoid's unit", "loss if the class is true", (-6, 6), (0, 6.5))
    chart.line(SCORES, np.log1p(np.exp(-SCORES)), "grey", "logistic regression")
    for place, one in enumerate(sections):
        name = names[one.place]
        with np.errstate(divide="ignore"):
            loss = -np.log(one.p)
        tips = [
            f"{name} true, score {number(z, 1)}\nloss {number(own, 2)}"
            for z, own in zip(SCORES.tolist(), loss.tolist(), strict=True)
        ]
        chart.line(SCORES, loss, f"c{place}", f"if {name} is true", tips=tips)
    return chart.figure("Loss against the score")
