"""The figure of named and learned proper losses: Markdown, CSV and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from legendretron.experiments.experiment import Record
from legendretron.experiments.rendering import as_text, described, markdown_table, save_picture, write_report
from legendretron.experiments.results import Results
from legendretron.experiments.statistics import mean_of
from legendretron.experiments.store import rounded_difference
from legendretron.paper.auc.methods import in_order
from legendretron.paper.proper_losses.curves import NAMED, Curve, learned_losses, named_losses
from legendretron.plots.axes import COLOURS, axes_or_new

#: Dashes and widths; of lines close to each other, a thin broken one is drawn on a thick one.
_STYLES: tuple[tuple[Any, float], ...] = (
    ("-", 1.8),
    ("--", 1.8),
    ("-.", 1.8),
    (":", 2.0),
    ("-", 3.2),
    ((0, (6, 2, 1, 2, 1, 2)), 1.6),
    ((0, (1, 1.5)), 1.8),
)
#: Losses closer than this are drawn as one line.
_SAME = 1e-4
_HIGHEST, _FURTHEST = 4.0, 1.0


def picture(named: Sequence[Curve], learned: Sequence[Curve], missing: Sequence[tuple[str, str]], path: Path) -> Path:
    """Draw the named losses, and those learned on each problem, on the same axes."""
    axes_or_new(None)  # raises an error if matplotlib is missing
    import matplotlib.pyplot as plt
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    plt.close()
    log = named[0]
    problems = list(dict.fromkeys([curve.problem for curve in learned] + [problem for problem, _ in missing]))
    columns = 1 + len(problems)
    figure, panels = plt.subplots(
        2, columns, figsize=(1.2 + 3.8 * columns, 8.2), sharex=True, sharey="row", squeeze=False,
        height_ratios=(3, 2), layout=ConstrainedLayoutEngine(w_pad=0.12),
    )  # fmt: skip
    _column(panels[:, 0], "Named losses", named, log, [curve.name for curve in named[1:]])
    # a method has the same colour in all panels
    methods = list(dict.fromkeys(curve.name for curve in learned if curve.distance(log) >= _SAME))
    for column, problem in zip(panels[:, 1:].T, problems, strict=True):
        own = [log, *(curve for curve in learned if curve.problem == problem)]
        absent = dict.fromkeys(name for where, name in missing if where == problem)
        _column(column, f"Learned on {problem}", own, log, methods, [f"({name}: no loss)" for name in absent])
    panels[0, 0].set(ylim=(0, _HIGHEST), ylabel="loss if class 1 is true, ℓ₁\n(scaled: log 2 at ½)")
    panels[1, 0].set(ylim=(-_FURTHEST, _FURTHEST), xlim=(0, 1), ylabel="ℓ₁ less the log-loss")
    for panel in panels[1]:
        panel.set_xlabel("predicted probability of class 1")
    return save_picture(figure, path)


def _column(
    panels: Any, title: str, curves: Sequence[Curve], log: Curve, names: Sequence[str], notes: Sequence[str] = ()
) -> None:
    """Losses above, and below by how much they exceed the log-loss; ``names`` says whose colour is which."""
    top, bottom = panels
    seen: set[str] = set()
    for group in _groups(curves):
        first = group[0]
        if first is log:
            style: dict[str, Any] = {"color": "0.65", "linewidth": 5, "zorder": 1}
        else:
            index = names.index(first.name)
            dashes, width = _STYLES[index % len(_STYLES)]
            style = {"color": COLOURS[index % len(COLOURS)], "linestyle": dashes, "linewidth": width}
        fresh = [curve.name for curve in group if curve.name not in seen]
        label = ", ".join("log-loss" if name == "log" else name for name in dict.fromkeys(fresh))
        top.plot(first.probability, first.loss_1, label=label or None, **style)
        bottom.plot(first.probability, first.loss_1 - log.loss_1, **style)
        seen.update(fresh)
    for note in notes:
        top.plot([], [], " ", label=note)
    top.set_title(title, fontsize=11)
    top.legend(frameon=False, fontsize=8.5, handlelength=2.6, loc="upper right")
    for panel in panels:
        panel.grid(color="0.92")
        panel.set_axisbelow(True)


def _groups(curves: Sequence[Curve]) -> list[list[Curve]]:
    """Group curves that cannot be distinguished."""
    groups: list[list[Curve]] = []
    for curve in curves:
        near = next((group for group in groups if group[0].distance(curve) < _SAME), None)
        if near is None:
            groups.append([curve])
        else:
            near.append(curve)
    return groups


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
    distances = {other.name: curves[0].distance(other) for other in named}
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
            "loss_1": rounded_difference(loss_1),
            "loss_0": rounded_difference(loss_0),
        }
        for curve in curves
        for p, loss_1, loss_0 in zip(curve.probability, curve.loss_1, curve.loss_0, strict=True)
    ]


def report(records: list[Record], folder: Path) -> list[Path]:
    """Write ``figure_proper_losses.md``, ``.csv`` and ``.png`` into a folder."""
    records = in_order(records)
    named, learned = named_losses(), learned_losses(records)
    missing = [(record["data"]["label"], record["model"]) for record in records if "loss_1" not in record]
    name = "figure_proper_losses"
    drawn = picture(named, learned, missing, folder / f"{name}.png")
    return write_report(folder, name, markdown(records), _csv_rows([*named, *learned]), drawn)
