"""The picture of named and learned proper losses: their partial losses, and how these differ from the log-loss."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from legendretron.experiments.rendering import save_picture
from legendretron.paper.proper_losses.curves import Curve
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
