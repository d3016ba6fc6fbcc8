"""What a fit has chosen, what became of columns, and wrong labels: in words, and as files."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from legendretron._internal.columns import quoted
from legendretron._internal.labels import label_text, similar_words
from legendretron._internal.parameters import ParameterError
from legendretron.cli.options import wrong
from legendretron.cli.outputs import PICTURES, frames_to, write_picture
from legendretron.cli.terminal import Terminal, grid
from legendretron.preprocessing.statistics import StrayTextError

if TYPE_CHECKING:
    from legendretron.datasets.tables import Table
    from legendretron.estimators.base import LinearLinkClassifier
    from legendretron.preprocessing.column import FittedColumn


def choice_of(estimator: LinearLinkClassifier) -> dict[str, Any]:
    """Return the strengths of a fitted estimator, how they came about, and a sentence that says so.

    The log-losses are those of labels as they are, right or wrong, on held-out rows; None where nothing was tried.
    ``logistic_log_loss`` is that of the logistic regression that learned links were compared with, if they were: the best
    one, which knows of wrong labels if that was borne out.
    """
    choice = dict.fromkeys(("model", "alpha", "link_alpha", "log_loss", "logistic_log_loss"))
    if hasattr(estimator, "is_linear_"):
        return choice | _choice_of_networks(estimator)
    alpha, link_alpha = estimator.alpha_, estimator.link_alpha_
    learned = math.isfinite(link_alpha)
    kind = "learned link" if learned else "logistic regression"
    used = f"{kind}, alpha {alpha:.2g}" + (f", link_alpha {link_alpha:.2g}" if learned else "")
    choice |= {"model": kind, "alpha": alpha, "link_alpha": link_alpha if learned else None}
    if not hasattr(estimator, "tuning_"):
        return {**choice, "text": f"{used}, as given"}
    tried = estimator.tuning_
    if not len(tried):
        return {**choice, "text": f"{used}: there are too few rows to try others"}
    chosen = tried[tried["chosen"]].iloc[0]
    links, logistic = (tried[tried["model"] == name] for name in ("learned link", "logistic regression"))
    choice["log_loss"] = float(chosen["log_loss"])
    observed = " of labels as they are" if getattr(estimator, "noise_rate_", 0.0) > 0.0 else ""
    text = f"{used}; log-loss{observed} on held-out rows {chosen['log_loss']:.3f}"
    if len(links) and len(logistic):
        # differences are those to the logistic regression that a link had to beat
        base = logistic[logistic["difference"] == 0.0].iloc[0] if learned else chosen
        choice["logistic_log_loss"] = float(base["log_loss"])
        if learned:
            knowing = " with wrong labels" if base["label_noise"] > chosen["label_noise"] == 0.0 else ""
            text += f", logistic regression{knowing} {base['log_loss']:.3f}"
        elif any(map(math.isfinite, links["log_loss"])):
            text += ": a learned link was not better by more than its standard error"
        else:
            text = f"{used}: all learned links have diverged; lower --learning-rate"
    return {**choice, "text": text}


def _choice_of_networks(estimator: Any) -> dict[str, Any]:
    """The same of an estimator that compares networks with logistic regression."""
    networks, linear = estimator.network_log_loss_, estimator.linear_log_loss_
    kind, loss = ("logistic regression", linear) if estimator.is_linear_ else ("networks", networks)
    if math.isnan(networks):
        return {"model": kind, "text": f"{kind}: there are too few rows to try networks"}
    other = f", logistic regression {linear:.3f}"
    if estimator.is_linear_:
        other = f": networks, {networks:.3f}, were not better by more than their standard error"
    text = f"{kind}; log-loss on held-out rows {loss:.3f}{other}"
    return {"model": kind, "log_loss": loss, "logistic_log_loss": linear, "text": text}


def write_tuning(estimator: LinearLinkClassifier, path: Path) -> None:
    """Write the candidates as a table or as a picture, by the file's extension."""
    if path.suffix.lower() in PICTURES:
        from legendretron.plots import TuningDisplay

        write_picture(path, lambda: TuningDisplay.from_estimator(estimator))
        return
    with frames_to(path) as write:
        write(estimator.tuning_)


class FitScores(NamedTuple):
    """Scores on all rows of the table."""

    rows: int
    log_loss: float
    accuracy: float
    left_out: int
    counts: np.ndarray  #: rows of each class
    unlabelled: int  #: how many of those left out have no label
    leading_share: float | None = None  #: mean of the largest share of a row, if labels are shares of the classes

    @classmethod
    def of(
        cls, parts: Iterable[tuple[np.ndarray, np.ndarray]], n_classes: int, incomplete: int, unlabelled: int
    ) -> FitScores:
        """Score parts of the rows: labels as places of classes, and log-probabilities."""
        loss, hits, counts = 0.0, 0, np.zeros(n_classes, dtype=np.int64)
        for places, log_p in parts:
            loss -= float(log_p[np.arange(len(places)), places].sum(dtype=np.float64))
            hits += int((log_p.argmax(1) == places).sum())
            counts += np.bincount(places, minlength=n_classes)
        rows = int(counts.sum())
        return cls(rows, loss / rows, hits / rows, incomplete + unlabelled, counts, unlabelled)


#: Categories that are named, and letters of each.
_NAMED, _LETTERS = 4, 30
_MARKS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", ".": "point", " ": "space", "'": "apostrophe"}


def check_named(option: str, columns: Sequence[str], table: Table) -> None:
    """Raise a usage error for an option that names columns which are no features."""
    if columns and table.feature_names is None:
        reason = f"{str(table.path)!r} is LIBSVM text, whose features have no names; leave it out."
        raise wrong(option, reason)
    if unknown := [name for name in columns if name not in (table.feature_names or ())]:
        listed = ", ".join((table.feature_names or ())[:20])
        reason = f"there is no column {unknown[0]!r} among the features; there are {listed}."
        raise wrong(option, reason)


@contextmanager
def naming_data(files: Sequence[Path], tables: Callable[[], Iterable[Table]] = lambda: ()) -> Iterator[None]:
    """Say in errors about the data which file they are of, if there is only one.

    Where there is a stray text, say in which of the tables it is, and where.
    """
    try:
        yield
    except ParameterError:
        raise
    except ValueError as error:
        if isinstance(error, StrayTextError):
            for table in tables():
                if len(rows := np.flatnonzero([value == error.text for value in table.X[error.column]])):
                    raise ValueError(f"{str(table.path)!r}, {table.place_of(int(rows[0]))}: {error}") from error
        if len(files) > 1 or repr(str(files[0])) in str(error):
            raise
        raise ValueError(f"{str(files[0])!r}: {error}") from error


def warn_of_similar_labels(classes: Any, path: Path, target: str | None, terminal: Terminal) -> None:
    """Warn of classes that differ only by case or white space."""
    place = "the labels" if target is None else f"target column {target!r}"
    if words := similar_words(classes, f"{place} of {str(path)!r} has labels"):
        terminal.warning(f"{words} Spell them alike if they mean the same.")


def in_words(form: Mapping[str, str | None]) -> str:
    """Return how a text file is written.

    Examples
    --------
    >>> in_words({"encoding": "utf-8", "sep": ";", "decimal": ","})
    'separator: semicolon, decimal mark: comma, encoding: utf-8'
    """
    marks = {"separator": form["sep"], "decimal mark": form["decimal"], "thousands": form.get("thousands")}
    words = [f"{name}: {_MARKS.get(mark, mark)}" for name, mark in marks.items() if mark is not None]
    return ", ".join([*words, f"encoding: {form['encoding']}"])


def join_texts(texts: Iterable[str], most: int) -> str:
    """Return the first texts, separated by commas; in quotes where they could not be told apart otherwise."""
    texts = list(texts)
    shown = [repr(text) if "," in text or text != text.strip() or not text else text for text in texts[:most]]
    return ", ".join(shown) + (", ..." if len(texts) > most else "")


def column_facts(columns: Sequence[FittedColumn]) -> list[dict[str, Any]]:
    """Return what ``--json`` says about columns."""
    return [
        {
            "name": column.name,
            "kind": column.kind,
            "missing": column.gaps,
            "features": len(column.outputs),
            "pooled": column.pooled,
            "becomes": _becomes(column),
        }
        for column in columns
    ]


def column_view(columns: Sequence[FittedColumn]) -> Any:
    """Return a table of the columns that are not just numbers."""
    view = grid("column", "kind", "missing", "becomes")
    view.columns[1].justify = view.columns[3].justify = "left"
    plain = [column for column in columns if column.kind == "number" and not (column.gaps or column.constant)]
    for column in columns:
        if column not in plain:
            view.add_row(column.name, column.kind, f"{column.gaps:,}", _becomes(column))
    if plain:
        view.add_row(f"{len(plain):,} more", "number", "0", "itself")
    return view


def _becomes(column: FittedColumn) -> str:
    if column.kind == "identifier":
        return "left out: nearly all values are different"
    if column.kind == "empty":
        return "left out: no values"
    if column.kind == "categories":
        texts = ["(missing)" if text is None else text for text in column.categories]
        if column.pooled:
            return (
                f"{len(column.outputs)} columns: the {len(texts)} most frequent values, {column.pooled:,} others pooled"
            )
        named = [text if len(text) <= _LETTERS else f"{text[:_LETTERS]}..." for text in texts]
        return f"{len(texts)} column{'s' if len(texts) > 1 else ''}: {join_texts(named, _NAMED)}"
    words = "days since 1970-01-01" if column.is_date else {"number": "itself", "boolean": "1 and 0"}[column.kind]
    if column.constant:
        words += ", always the same"
    return f"{words}; missing: mean ({column.mean:.4g}) and an indicator column" if column.gaps else words


#: If neither as few wrong labels nor as many can be ruled out, rows are too few to tell.
_NONE, _MANY = 0.01, 0.1
#: How far the sum of probabilities that were written down may be from 1.
_ROUNDING = 1e-4


def read_matrix(path: Path, classes: np.ndarray) -> list[list[float]]:
    """Read a transition matrix, a line for each true class and a column for each label, with their names, in any order."""

    def refuse(reason: str) -> Exception:
        return wrong("--label-noise", f"{str(path)!r} {reason}.")

    names, mark = [label_text(label) for label in classes], "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise refuse("is not UTF-8 text; convert it") from error
    read = enumerate(csv.reader(lines, delimiter=mark, skipinitialspace=True), start=1)
    rows = [(line, [field.strip() for field in fields]) for line, fields in read if any(fields)]
    labels, body = rows[0][1][1:] if rows else [], rows[1:]
    true = [fields[0] for _, fields in body]
    for place, there in (("first row", labels), ("first column", true)):
        if wrongly := [name for name in names if there.count(name) != 1]:
            raise refuse(
                f"must have the names of the classes, {quoted(names)}, in its first row and its first column, and a "
                f"probability in every other field, but {wrongly[0]!r} is "
                f"{'more than once' if wrongly[0] in there else 'not'} in its {place}"
            )
    matrix = []
    for line, fields in (body[true.index(name)] for name in names):
        try:
            p = [float(fields[1 + labels.index(name)]) for name in names]
        except (ValueError, IndexError):
            p = []
        if len(fields) != 1 + len(labels) or not all(one >= 0.0 for one in p) or abs(sum(p) - 1.0) > _ROUNDING:
            raise refuse(
                "must have a probability for each label, from 0 to 1 and with sum 1, "
                f"but line {line} is {mark.join(fields)!r}"
            )
        matrix.append(p)
    return matrix


def found_noise(estimator: LinearLinkClassifier) -> dict[str, Any] | None:
    """Return the share of wrong labels, where it lies, and whether it was given; None if it was not looked for."""
    if not hasattr(estimator, "noise_rate_"):
        return None
    low, high = estimator.noise_rate_interval_
    given = not isinstance(estimator.label_noise, str)
    return {
        "rate": estimator.noise_rate_,
        "low": low,
        "high": high,
        "known": given,
        "predicted": "recorded labels" if estimator.predicts_recorded_ else "true labels",
    }


def noise_in_words(noise: dict[str, Any]) -> str:
    """Say what :func:`found_noise` returns, or without ``predicted`` only how much noise there is.

    Examples
    --------
    >>> noise_in_words({"rate": 0.12, "low": 0.08, "high": 0.151, "known": False})
    'about 12 % (8 to 15 %)'
    >>> noise_in_words({"rate": 0.0, "low": 0.0, "high": 0.004, "known": False})
    'none found (at most 0.4 %)'
    >>> noise_in_words({"rate": 0.0, "low": 0.0, "high": 0.22, "known": False})
    'none found (too few rows to tell)'
    >>> noise_in_words({"rate": 0.12, "low": None, "high": None, "known": False})  # where it lies is not known
    'about 12 %'
    >>> noise_in_words({"rate": 0.1, "low": 0.1, "high": 0.1, "known": False, "predicted": "true labels"})
    'about 10 % (10 to 10 %); predictions are of true labels'
    """
    if "predicted" in noise:
        share = noise_in_words({name: value for name, value in noise.items() if name != "predicted"})
        if noise["rate"] == 0.0:
            return share
        if noise["predicted"] == "true labels":
            return f"{share}; predictions are of true labels"
        return (
            f"{share}, or a matter of chance; predictions are of labels as they are recorded, and of true ones with "
            "--label-noise symmetric"
        )
    rate = _percent(noise["rate"])
    if noise["known"]:
        return f"{rate} %, as given"
    if noise["low"] is None:
        return f"about {rate} %"
    low, high = _percent(noise["low"]), _percent(noise["high"])
    untold = noise["low"] < _NONE and noise["high"] > _MANY
    if noise["rate"] == 0.0:
        return "none found (too few rows to tell)" if untold else f"none found (at most {high} %)"
    return f"about {rate} % ({low} to {high} %{': too few rows to tell' if untold else ''})"


def _percent(share: float) -> str:
    percent = 100.0 * share
    return f"{percent:.0f}" if percent >= 1.0 or percent == 0.0 else f"{percent:.1g}"
