"""Tables in Markdown and CSV, pictures, and the provenance of a report's numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from legendretron._internal.files import write_atomically
from legendretron.experiments.experiment import Record
from legendretron.experiments.results import Mean
from legendretron.experiments.store import round_floats
from legendretron.plots.axes import axes_or_new, picture_bytes


def panels_for(titles: Sequence[str], size: tuple[float, float], **options: Any) -> list[Any]:
    """Return axes with titles, side by side; needs matplotlib."""
    panels = axes_or_new(None, ncols=len(titles), figsize=size, squeeze=False, **options)[0]
    for panel, title in zip(panels, titles, strict=True):
        panel.set_title(title.replace(" (", "\n(").replace(", ", ",\n"))
    return list(panels)


def save_panels(panels: Sequence[Any], path: Path, **legend: Any) -> Path:
    """Put everything that has a label into one legend, once, write the picture and close it."""
    figure = panels[0].figure
    found: dict[str, Any] = {}
    for panel in panels:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    figure.legend(list(found.values()), list(found), loc="outside lower center", frameon=False, **legend)
    return save_picture(figure, path)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def as_text(mean: Mean | None, digits: int = 2) -> str:
    """A mean with its standard error, ``"76.91 ± 0.65"``; empty for None."""
    if mean is None:
        return ""
    return f"{mean.value:.{digits}f}" + ("" if mean.n < 2 else f" ± {mean.error:.{digits}f}")


def mark(text: str, verdict: str) -> str:
    """A text in bold where a verdict is ``"better"``, in italics where it is ``"worse"``."""
    stars = {"better": "**", "worse": "*"}.get(verdict, "")
    return f"{stars}{text}{stars}"


def write_text(path: Path, text: str) -> Path:
    """Write a text file atomically."""
    write_atomically(path, text.rstrip("\n").encode() + b"\n")
    return path


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows with the same names as CSV; missing values are empty, numbers as in :func:`round_floats`."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(round_floats(dict(row)) for row in rows)
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
