"""Named proper losses of two classes, and on the same axes those that LegendreTron and other methods learned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from legendretron.diagnostics import monotonicity
from legendretron.experiments.experiment import Batch, Experiment, Outcome, Record, Resources
from legendretron.experiments.rendering import as_text, described, markdown_table, save_picture, write_report
from legendretron.experiments.results import Results, in_order, mean_of
from legendretron.experiments.store import round_difference
from legendretron.losses import LogLoss, MatsushitaLoss, ProperLoss, SphericalLoss, SquareLoss, ZeroOneLoss
from legendretron.paper.auc import (
    METHODS,
    PROBLEMS,
    SECONDS,
    BinaryImages,
    find_data,
    fit_method,
    load_problem,
    recipe,
    scores,
)  # fmt: skip
from legendretron.plots.axes import LINES, axes_or_new
from legendretron.plots.chart import Chart, Line
from legendretron.plots.models import inverse_link
from legendretron.trons import SlIsotronClassifier

#: Predicted probabilities of class 1 at which losses are tabulated, 1/2 in the middle.
GRID = np.arange(1, 200) / 200


def partial_losses(loss: ProperLoss, p: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    r"""Both partial losses of a loss of two classes, less what each is where the prediction is sure and right.

    These constants carry no meaning: a proper loss stays proper whatever is added to its partial losses. For the loss of a
    link they depend on where the zero of the predictor lies.

    At predicted probabilities ``p`` (m,) of class 1: the loss when it is true, and when it is not.
    """
    first = torch.as_tensor(np.asarray(p, dtype=np.float64))
    with torch.no_grad():
        values = loss.partial_losses(torch.stack([first, 1.0 - first], dim=-1)).numpy()
        sure = loss.partial_losses(torch.eye(2, dtype=torch.float64)).numpy()
    return values[:, 0] - sure[0, 0], values[:, 1] - sure[1, 1]


def partial_losses_of_table(knots: ArrayLike, values: ArrayLike, p: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    r"""As :func:`partial_losses`, for an inverse link in straight lines that may be flat, or reach 0 and 1.

    Where it is flat, its inverse is an interval and both losses jump; the midpoint is taken, so that ties are split evenly.
    It is 0 below the first knot and 1 beyond the last: predictions that never occur are not distinguished.

    ``values`` are probabilities of class 1 at ``knots``, at least two, which increase strictly; values do not decrease.
    """
    z, u, at = (np.asarray(array, dtype=np.float64) for array in (knots, values, p))
    areas = np.concatenate([[0.0], np.cumsum(np.diff(z) * (u[1:] + u[:-1]) / 2)])
    # of equal values np.interp takes the last, and backwards the first
    psi = (np.interp(at, u, z) + np.interp(-at, -u[::-1], z[::-1])) / 2
    k = np.clip(np.searchsorted(z, psi, side="right") - 1, 0, len(z) - 2)
    loss_0 = areas[k] + (psi - z[k]) * (u[k] + np.interp(psi, z, u)) / 2
    loss_1 = (z[-1] - psi) - (areas[-1] - loss_0)
    return np.maximum(loss_1, 0.0), loss_0


#: Named losses and their formulas for class 1, of predicting it with probability q: the paper's four, and the spherical.
NAMED: dict[str, tuple[ProperLoss, str]] = {
    "log": (LogLoss(), "-log q"),
    "square": (SquareLoss(), "(1 - q)²"),
    "Matsushita": (MatsushitaLoss(), "½ √((1 - q) / q)"),
    "0-1": (ZeroOneLoss(), "[q < ½]"),
    "spherical": (SphericalLoss(), "1 - q / √(q² + (1 - q)²)"),
}


@dataclass(frozen=True, eq=False)
class Curve:
    """A loss on the grid of predictions, scaled to log 2 at 1/2."""

    name: str  #: of the loss or method
    problem: str  #: that it was learned on; empty for named losses
    seed: int | None  #: of the training
    factor: float  #: what it was multiplied by
    probability: np.ndarray  #: (m,), predictions
    loss_1: np.ndarray  #: (m,), if class 1 is true
    loss_0: np.ndarray  #: (m,), if it is not

    def at(self, probability: float) -> float:
        """``loss_1`` at a prediction."""
        return float(np.interp(probability, self.probability, self.loss_1))

    def distance(self, loss_1: np.ndarray) -> float:
        """Largest difference of ``loss_1`` from another for predictions from 0.05 to 0.95."""
        shown = (self.probability >= 0.05) & (self.probability <= 0.95)
        return float(np.abs(self.loss_1 - loss_1)[shown].max())


def named_losses() -> list[Curve]:
    """Curves of :data:`NAMED`, at the predictions at which learned ones are tabulated."""
    curves = []
    for name, (loss, _) in NAMED.items():
        loss_1, loss_0 = partial_losses(loss, GRID)
        factor = float(np.log(2.0) / loss_1[len(GRID) // 2])
        curves.append(Curve(name, "", None, factor, GRID, factor * loss_1, factor * loss_0))
    return curves


def learned_losses(records: Iterable[Record]) -> list[Curve]:
    """Curves of the runs that learned a loss."""
    return [
        Curve(
            record["model"], record["data"]["label"], record["seed"], record["factor"],
            *(np.array(record[name]) for name in ("probability", "loss_1", "loss_0")),
        )
        for record in records
        if "loss_1" in record
    ]  # fmt: skip


#: Losses closer than this are drawn as one line.
_SAME = 1e-4


def picture(named: Sequence[Curve], learned: Sequence[Curve], missing: Sequence[tuple[str, str]], path: Path) -> Path:
    """Draw the named losses, and those learned on each problem beside the log-loss, on the same axes."""
    log = named[0]
    problems = list(dict.fromkeys([curve.problem for curve in learned] + [problem for problem, _ in missing]))
    groups = {"Named losses": named} | {
        f"Learned on {problem}": [log, *(curve for curve in learned if curve.problem == problem)]
        for problem in problems
    }
    # a method has the same color in all panels
    methods = list(dict.fromkeys(curve.name for curve in learned if curve.distance(log.loss_1) >= _SAME))
    axes = axes_or_new(None, ncols=len(groups), figsize=(1.2 + 3.8 * len(groups), 5.2), sharey=True, squeeze=False)[0]
    for ax, problem, (title, curves) in zip(axes, ["", *problems], groups.items(), strict=True):
        colors = methods if problem else [curve.name for curve in named[1:]]
        lines: list[Line] = []
        seen: set[str] = set()  # of several seeds, one is in the legend
        for curve in curves:
            name = "" if curve.name in seen else "log-loss" if curve is log else curve.name
            near = next((place for place, line in enumerate(lines) if curve.distance(line.y) < _SAME), None)
            if near is not None:  # cannot be told apart, so it is named with the other
                lines[near] = replace(lines[near], label=", ".join(filter(None, [lines[near].label, name])))
            elif curve is log:
                lines.append(Line(curve.probability, curve.loss_1, name, "0.65", width=5.0))
            else:
                n = colors.index(curve.name)
                lines.append(Line(curve.probability, curve.loss_1, name, n, LINES[n % len(LINES)]))
            seen.add(curve.name)
        nowhere = np.full(2, np.nan)
        notes = dict.fromkeys(name for where, name in missing if where == problem)
        absent = [Line(nowhere, nowhere, f"({name}: no loss)", style="none") for name in notes]
        label = "loss if class 1 is true, ℓ₁ (scaled: log 2 at ½)" if ax is axes[0] else ""
        axis = "predicted probability of class 1", label
        Chart(*axis, [*lines, *absent], title, (0.0, 1.0), (0.0, 4.0), legend="below").draw(ax)
    return save_picture(axes[0].figure, path)


#: Predictions that the tables show.
SHOWN = (0.05, 0.25, 0.75, 0.95)


def _values(curve: Curve) -> list[str]:
    return [*(f"{curve.at(p):.3f}" for p in SHOWN), f"{curve.loss_0[len(curve.loss_0) // 2]:.3f}"]


def _learned_row(runs: Sequence[Record], named: Sequence[Curve]) -> list[str]:
    """A method's scores over all its runs, and the loss of the first that has one."""
    scores = [as_text(mean_of([run["auc"] for run in runs])), as_text(mean_of([run["log_loss"] for run in runs]), 4)]
    curves = learned_losses(runs)
    if not curves:
        return [runs[0]["model"], *scores, *[""] * (len(SHOWN) + 3)]
    distances = {other.name: curves[0].distance(other.loss_1) for other in named}
    nearest = min(distances, key=distances.__getitem__)
    compared = [f"{distances['log']:.3f}", f"{nearest} ({distances[nearest]:.3f})"]
    return [runs[0]["model"], *scores, *_values(curves[0]), *compared]


def _missing(records: Sequence[Record]) -> list[str]:
    """Why runs have no loss, one line per run."""
    return [
        f"- {record['model']} on {record['data']['label']}, seed {record['seed']}: "
        + (
            f"what it learned falls on {record['falling_share']:.1%} of the predictor's range, so it is no link and has no "
            "loss; not drawn."
            if record["falling_share"] > 0.0
            else "what it learned costs nothing at 1/2, so its loss cannot be scaled; not drawn."
        )
        for record in records
        if "loss_1" not in record
    ]


def markdown(records: Sequence[Record]) -> list[str]:
    """Tables in Markdown: the named losses, then the learned ones for each problem."""
    named = named_losses()
    values = [*(f"ℓ₁({p:g})" for p in SHOWN), "ℓ₀(½)"]
    parts = [
        "# Named and learned proper losses",
        "ℓ₁(q) is the loss of predicting class 1 with probability q if it is true, ℓ₀(q) if it is not. A method that learns "
        "an increasing inverse link has learned a proper loss, the canonical one of that link, up to a factor, since the "
        "unit of its predictor is arbitrary. All losses are therefore scaled so that ℓ₁(½) = log 2, as for the log-loss; "
        "named ones are multiplied by the factor given. Distances are the largest difference of ℓ₁ for q from 0.05 to 0.95.",
        "![partial losses](figure_proper_losses.png)",
        "## Named losses",
        markdown_table(
            ["loss", "ℓ₁(q)", "factor", *values],
            [[curve.name, NAMED[curve.name][1], f"{curve.factor:.4f}", *_values(curve)] for curve in named],
        ),
    ]
    results = Results(records, "dataset", "model")
    head = ["method", "test AUC (%)", "test log-loss", *values, "distance to log-loss", "nearest named loss"]
    for problem in results.values_of("dataset"):
        rows = [_learned_row(results.records(*cell), named) for cell in results.cells if cell[0] == problem]
        parts += [f"## Learned on {results.facts(problem)['label']}", markdown_table(head, rows)]
    if missing := _missing(records):
        parts.append("\n".join(missing))
    return [*parts, described(records)]


def _csv_rows(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    return [
        {
            "loss": curve.name,
            "learned on": curve.problem,
            "seed": "" if curve.seed is None else curve.seed,
            "factor": curve.factor,
            "probability": float(p),
            # less what a sure and right prediction costs
            "loss_1": round_difference(loss_1),
            "loss_0": round_difference(loss_0),
        }
        for curve in curves
        for p, loss_1, loss_0 in zip(curve.probability, curve.loss_1, curve.loss_0, strict=True)
    ]


def report(records: list[Record], folder: Path) -> list[Path]:
    """Write ``figure_proper_losses.md``, ``.csv`` and ``.png`` into a folder."""
    records = in_order(records, dataset=list(PROBLEMS), model=list(METHODS))
    named, learned = named_losses(), learned_losses(records)
    missing = [(record["data"]["label"], record["model"]) for record in records if "loss_1" not in record]
    name = "figure_proper_losses"
    drawn = picture(named, learned, missing, folder / f"{name}.png")
    return write_report(folder, name, markdown(records), _csv_rows([*named, *learned]), drawn)


#: Number of points at which a learned function is checked for decreases.
_POINTS = 10_001


def learned_loss(estimator: BaseEstimator) -> dict[str, Any]:
    r"""Tabulate the canonical loss that a fitted method has learned, scaled so that :math:`\ell_1(1/2) = \log 2`.

    Lists have six digits, and ``factor`` is what losses were multiplied by. Nothing is returned if there is no such loss: if
    the learned function falls somewhere, or costs nothing at 1/2.
    """
    if isinstance(estimator, SlIsotronClassifier):
        # rounding of the regression must not look like a fall
        values = np.maximum.accumulate(np.clip(estimator.values_, 0.0, 1.0))
        curves = partial_losses_of_table(estimator.knots_, values, GRID)
    elif hasattr(estimator, "loss_"):
        curves = partial_losses(estimator.loss_, GRID)
    else:
        return {}
    at_half = float(curves[0][len(GRID) // 2])
    if at_half <= 0.0:
        return {}
    factor = float(np.log(2.0)) / at_half
    loss_1, loss_0 = (np.round(factor * curve, 6).tolist() for curve in curves)
    return {"factor": factor, "probability": GRID.tolist(), "loss_1": loss_1, "loss_0": loss_0}


def shape_of_link(estimator: BaseEstimator, data: BinaryImages) -> dict[str, float]:
    """Shares of the predictor's range on which the learned function falls, and on which it is flat.

    The range is that of the test images or, of a method whose link lives on an interval, this interval.
    """
    if hasattr(estimator, "prior_"):
        low, high = estimator.prior_.interval
    else:
        z = estimator.linear_predictor(data.X_test)
        low, high = z.min(), z.max()
    # near 0 and 1 probabilities would hide a fall
    name = next((name for name in ("log_odds", "inverse_link") if hasattr(estimator, name)), None)
    increasing = getattr(estimator, name) if name else lambda z: inverse_link(estimator.link_, z[:, None])[:, 0]
    found = monotonicity(increasing, np.linspace(low, high, _POINTS))
    return {"falling_share": round(found.falling_share, 6), "flat_share": round(found.flat_share, 6)}


def execute(batch: Batch, resources: Resources) -> Outcome:
    """Train on the CPU, score the test images, and tabulate the learned loss."""
    data = load_problem(batch, resources)
    runs = []
    for run in batch.runs:
        estimator, about = fit_method(batch.settings, data, run.seed)
        measured = {**scores(estimator, data), **about, **shape_of_link(estimator, data)}
        runs.append({**measured, **learned_loss(estimator)})
    return Outcome(data.facts, runs)


FIGURE_PROPER_LOSSES = Experiment(
    name="figure_proper_losses",
    title="Partial losses of named proper losses, and of those learned on binary problems of MNIST and Fashion-MNIST",
    datasets=("MNIST, class 0", "Fashion-MNIST, odd against even"),
    models=(
        "LegendreTron", "ISGP-Linkgistic", "GP-Linkgistic", "GLMTron", "BregmanTron", "BregmanTron_label",
        "BregmanTron_approx", "SlIsotron",
    ),
    settings=recipe,
    execute=execute,
    report=report,
    find_data=find_data,
    cost=lambda run: SECONDS[run.model],
)  # fmt: skip
