"""Tables in Markdown and CSV, pictures, and the provenance of a report's numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np

from legendretron._internal.files import write_atomically
from legendretron.experiments.experiment import Record
from legendretron.experiments.results import Mean
from legendretron.experiments.store import round_floats
from legendretron.plots.axes import COLORS, LINES, MARKERS, axes_or_new, picture_bytes


def panels_for(titles: Sequence[str], size: tuple[float, float], columns: int = 0, **options: Any) -> list[Any]:
    """Return axes with titles, side by side, or in rows of so many; needs matplotlib."""
    columns = min(columns or len(titles), len(titles))
    rows = -(-len(titles) // columns)
    panels = axes_or_new(None, nrows=rows, ncols=columns, figsize=size, squeeze=False, **options).ravel()
    for panel in panels[len(titles) :]:
        panel.set_visible(False)
    for panel, title in zip(panels, titles, strict=False):
        panel.set_title(title.replace(" (", "\n(").replace(", ", ",\n"))
    return list(panels[: len(titles)])


def save_panels(panels: Sequence[Any], path: Path, **legend: Any) -> Path:
    """Put everything that has a label into one legend, once, write the picture and close it."""
    figure = panels[0].figure
    found: dict[str, Any] = {}
    for panel in panels:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    figure.legend(list(found.values()), list(found), loc="outside lower center", frameon=False, **legend)
    return save_picture(figure, path)


#: By the title of a panel and the name of a model: means at places of the horizontal axis, or in rows by their names.
Curves = Mapping[str, Mapping[str, Sequence[tuple[float, Mean]]]]
Dots = Mapping[str, Mapping[str, Mapping[str, Mean]]]


def draw_curves(curves: Curves, path: Path, axes: tuple[str, str], ticks: Mapping[float, str], **axis: Any) -> Path:
    """Draw a panel for every title and a curve for every model, with bars of two standard errors.

    Models are apart by a little, so that bars of those that agree can be told apart; a mean that is NaN interrupts a curve.
    """
    rows = -(-len(curves) // 4)
    panels = panels_for(list(curves), (1.2 + 3.6 * min(len(curves), 4), 3.2 * rows + 1.0), 4)
    models = list(dict.fromkeys(model for own in curves.values() for model in own))
    width = max(ticks) - min(ticks)
    for panel, own in zip(panels, curves.values(), strict=True):
        for model, points in own.items():
            m = models.index(model)
            shift = m - (len(models) - 1) / 2
            places = np.array([place for place, _ in points], dtype=float)
            panel.errorbar(
                places * 1.04**shift if axis.get("xscale") == "log" else places + 0.008 * width * shift,
                [mean.value for _, mean in points], yerr=[2.0 * np.nan_to_num(mean.error) for _, mean in points],
                color=COLORS[m % len(COLORS)], marker=MARKERS[m % len(MARKERS)], linestyle=LINES[m % len(LINES)],
                markersize=5, linewidth=1.5, elinewidth=1.2, capsize=2.5, label=model,
            )  # fmt: skip
        panel.set(xlabel=axes[0], **axis)
        panel.set_xticks(list(ticks), list(ticks.values()), rotation=30, ha="right")
        panel.minorticks_off()
        panel.grid(color="0.9")
    panels[0].set_ylabel(axes[1])
    return save_panels(panels, path, ncols=min(4, 1 + len(panels)), title="means; bars: two standard errors")


def draw_dots(dots: Dots, path: Path, label: str, **axis: Any) -> Path:
    """Draw a panel for every title, with a row for every name and a dot for every model; those of the paper are hollow."""
    names = list(dict.fromkeys(name for own in dots.values() for means in own.values() for name in means))
    models = list(dict.fromkeys(model.removesuffix(", paper") for own in dots.values() for model in own))
    size = (2.0 + 3.4 * len(dots), 1.6 + 0.12 * (2 + len(models)) * len(names))
    panels = panels_for(list(dots), size, sharey=True, sharex="xlim" in axis)
    for panel, own in zip(panels, dots.values(), strict=True):
        for model, means in own.items():
            m, hollow = models.index(model.removesuffix(", paper")), model.endswith("paper")
            panel.errorbar(
                [mean.value for mean in means.values()],
                [names.index(name) + (m - (len(models) - 1) / 2) * 0.17 for name in means],
                xerr=[2.0 * np.nan_to_num(mean.error) for mean in means.values()],
                color=COLORS[m % len(COLORS)], marker=MARKERS[m % len(MARKERS)], linestyle="", elinewidth=1,
                # hollow ones go around what they are compared with
                markersize=8 if hollow else 4, markerfacecolor="none" if hollow else None, label=model,
            )  # fmt: skip
        panel.set(xlabel=label, **axis)
        panel.set_yticks(range(len(names)), [name.replace(" (", "\n(") for name in names])
        panel.grid(axis="x", color="0.9")
    panels[0].invert_yaxis()
    repeated = any(mean.error > 0.0 for own in dots.values() for means in own.values() for mean in means.values())
    return save_panels(panels, path, ncols=3, title="bars: two standard errors" if repeated else None)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def as_text(mean: Mean | None, digits: int = 2, sign: str = "") -> str:
    """A mean with its standard error, ``"76.91 ± 0.65"``, with its sign if that is ``"+"``; empty for None."""
    if mean is None:
        return ""
    return f"{mean.value:{sign}.{digits}f}" + ("" if mean.n < 2 else f" ± {mean.error:.{digits}f}")


def write_text(path: Path, text: str) -> Path:
    """Write a text file atomically."""
    write_atomically(path, text.rstrip("\n").encode() + b"\n")
    return path


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows with the same names as CSV; missing values are empty, numbers as in :func:`round_floats`.

    A :class:`~legendretron.experiments.results.Mean` is two columns, the second one for its standard error.
    """
    flat: list[dict[str, Any]] = []
    for row in rows:
        flat.append({})
        for name, value in row.items():
            flat[-1] |= value.columns(name) if isinstance(value, Mean) else {name: value}
    names = list(dict.fromkeys(name for row in flat for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(round_floats, flat))
    return write_text(path, buffer.getvalue())


def read_csv(path: Path | Traversable) -> list[dict[str, str]]:
    """Rows of a CSV file by the names of its first line."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def write_report(
    folder: Path, name: str, sections: Iterable[str], rows: Sequence[Mapping[str, Any]], *pictures: Path
) -> list[Path]:
    """Write a report as ``name.md`` and its numbers as ``name.csv``; return these files, then the pictures."""
    text = "\n\n".join(section for section in sections if section)
    return [write_text(folder / f"{name}.md", text), write_csv(folder / f"{name}.csv", rows), *pictures]


def report_of(
    name: str,
    comparison: Callable[[Sequence[Record]], list[dict[str, Any]]],
    markdown: Callable[[list[dict[str, Any]], Sequence[Record]], list[str]],
    picture: Callable[[list[dict[str, Any]], Path], Path],
) -> Callable[[list[Record], Path], list[Path]]:
    """The ``report`` of an experiment: rows from the records, text from both, and a picture of the rows."""

    def report(records: list[Record], folder: Path) -> list[Path]:
        rows = comparison(records)
        return write_report(folder, name, markdown(rows, records), rows, picture(rows, folder / f"{name}.png"))

    return report


def save_picture(figure: Any, path: Path) -> Path:
    """Write a figure atomically, and close it."""
    write_atomically(path, picture_bytes(figure))
    return path


def is_trial(records: Sequence[Record]) -> bool:
    """Whether some runs have other settings than the recipe's, for instance by :meth:`Experiment.shorten`."""
    return any(record["trial"] for record in records)


def described(records: Sequence[Record]) -> str:
    """Return a paragraph on how the runs of a report were made: commands, devices, commits, versions, time."""

    def all_of(name: str) -> str:
        return ", ".join(dict.fromkeys(str(record[name]) for record in records))

    versions = dict.fromkeys(
        ", ".join(f"{name} {version}" for name, version in record["versions"].items()) for record in records
    )
    commands = ", ".join(f"`{command}`" for command in dict.fromkeys(record["command"] for record in records))
    seconds = sum(record["seconds"] / record["batch_runs"] for record in records)
    trial = "**A trial with other settings, such as fewer epochs, not the recipe.** " if is_trial(records) else ""
    return trial + (
        f"{len(records):,} runs by {commands}; device {all_of('device')}; threads {all_of('threads')}; "
        f"commit {all_of('commit')}; {'; '.join(versions)}; {seconds:,.0f} s in all."
    )
