"""``legendretron calibrate``: better probabilities from a finished model, ours or any other."""

from __future__ import annotations

import dataclasses
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from legendretron._internal.columns import quoted
from legendretron._internal.labels import label_text
from legendretron._internal.sklearn_compat import validate_parameters
from legendretron.cli.command_options import CalibrateOptions
from legendretron.cli.evaluate import score_view, write_reliability
from legendretron.cli.models import (
    LeftOut,
    check_target,
    features_for,
    find_table,
    is_model,
    load_estimator,
    log_probabilities,
    read_labeled_table,
    without_names,
)
from legendretron.cli.options import find_given, wrong
from legendretron.cli.outputs import check_outputs, save_model
from legendretron.cli.summaries import noise_in_words
from legendretron.cli.terminal import Terminal, grid
from legendretron.datasets.table_files import header_of
from legendretron.datasets.tables import Table, read_table
from legendretron.diagnostics.scores import scores_of
from legendretron.estimators import LegendreCalibrator
from legendretron.estimators.scores import ScoreReader
from legendretron.links.noise_models import replaced_share
from legendretron.preprocessing.drift import DriftWatch

#: A column as ``predict --proba`` names it.
_P_OF = re.compile(r"p\((.*)\)", re.DOTALL)


def _classes_of_columns(table: Table, *, meant: bool) -> dict[str, Any]:
    """The class of each column. Columns that are ``meant`` to be of classes may be of classes without rows."""
    labels = _by_text(table)
    found: dict[str, Any] = {}
    others = []
    for name in table.feature_names or ():
        inside = _P_OF.fullmatch(name)
        text = name if name in labels or inside is None else inside[1]
        if text in labels:
            label = labels[text]
        elif meant and (parsed := _as_label(text, table.classes)) is not None:
            label = parsed
        else:
            others.append(name)
            continue
        if (twin := next((other for other, known in found.items() if known == label), None)) is not None:
            raise ValueError(
                f"{str(table.path)!r} has two columns for class {label_text(label)!r}: {twin!r} and {name!r}; leave out one "
                "(--drop)."
            )
        found[name] = label
    if others:
        raise ValueError(
            f"{str(table.path)!r} has columns that are not named after a label of {table.target!r}: "
            f"{quoted(others)}; labels are {quoted(map(label_text, table.classes))}. Leave them out (--drop), or, if "
            "they belong to classes without rows, name all columns p(class)."
        )
    return found


def _by_text(table: Table) -> dict[str, Any]:
    """Labels by their text, as parsed and as written."""
    assert table.y is not None
    labels = {label_text(label): label for label in table.classes}
    if table.written is not None:
        written, first = np.unique(table.written.astype(str), return_index=True)
        labels = {**dict(zip(written.tolist(), table.y[first], strict=True)), **labels}
    return labels


def _as_label(text: str, labels: np.ndarray) -> Any:
    """A class that has no rows as a label like the others; None if it cannot be one."""
    if labels.dtype.kind == "i":
        return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else None
    if labels.dtype.kind == "b":
        return {"true": True, "false": False}.get(text.lower())
    return text


def _all_classes(table: Table, columns: dict[str, Any]) -> np.ndarray:
    """All classes, sorted, after a check that each has a column."""
    name, labels = repr(str(table.path)), table.classes
    classes = np.unique(np.concatenate([labels, np.array(list(columns.values()), dtype=labels.dtype)]))
    if len(classes) < 2:
        raise ValueError(
            f"the labels in target column {table.target!r} of {name} are all {str(labels[0])!r}, and no other class has a "
            "column; at least two classes are needed."
        )
    lacking = np.setdiff1d(labels, list(columns.values()))
    if len(columns) == 1 and len(classes) == 2:
        ((only, label),) = columns.items()
        if label == classes[1]:
            return classes
        raise ValueError(
            f"{name} has one column of predictions, {only!r}, but if there is only one, it must be that of the second class, "
            f"{label_text(classes[1])!r}; add a column for it."
        )
    if len(lacking):
        raise ValueError(
            f"{name} has labels without a column of predictions: {quoted(map(label_text, lacking))}; a column is named as "
            f"the class, or p(class). There are columns for {quoted(map(label_text, columns.values()))}."
        )
    return classes


#: A temperature that differs from 1 by less says nothing.
_NEAR_ONE = 0.05


def calibrate(terminal: Terminal, options: CalibrateOptions) -> None:
    """See :class:`~legendretron.cli.command_options.CalibrateOptions`."""
    model, data, plot = options.model, options.data, options.plot
    inputs = {"PREDICTIONS": model} if data is None else {"MODEL": model, "DATA": data}
    check_outputs({"--out": options.out, "--plot": plot}, inputs)
    noise = None if options.label_noise == "none" else options.label_noise
    calibrator = LegendreCalibrator(
        order=options.order.value, strength=options.strength, label_noise=noise, cv=options.cv
    )
    validate_parameters(calibrator)
    if data is None and is_model(model):
        raise wrong("DATA", f"{str(model)!r} is a model; give a table to calibrate it on.")
    if data is None:
        calibrator.set_params(input="auto" if options.input is None else options.input.value)
        X, scores, y, classes = _read_scores(terminal, options)
    else:
        for name in find_given(options, "features", "drop", "input"):
            raise wrong(name, "it is for PREDICTIONS, not for MODEL; leave it out.")
        X, scores, y, classes, inner = _of_model(terminal, options, data)
        calibrator.set_params(estimator=inner)
    if len(y) < 2:
        raise ValueError(f"{str(data or model)!r} has one row; at least two are needed, and a few hundred are better.")
    if len(without := np.setdiff1d(classes, y)):
        terminal.warning(
            f"{str(data or model)!r} has no rows of {quoted(map(label_text, without))}; nothing can be learned about them."
        )
    began = time.perf_counter()
    try:
        before, after = _fit(calibrator, X, scores, y, classes)
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt("interrupted, no model was written") from stopped
    seconds = time.perf_counter() - began
    save_model(terminal, calibrator, options.out)
    _tell(terminal, options, calibrator, y, before, after, seconds)


def _read_scores(terminal: Terminal, options: CalibrateOptions) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """Scores with names and without, labels, and classes of a table of predictions.

    Its features are the columns of the classes, in sorted order; of two classes, a single column belongs to the second.
    """
    path, target, text = options.model, options.target, options.text
    parts = find_table(path, options.format)
    if parts.format == "libsvm":
        raise ValueError(
            f"{str(path)!r} is LIBSVM text, whose columns have no names; give a CSV, TSV or Parquet file of predictions."
        )
    check_target(parts, options, "which column contains the labels?")
    for name, columns in find_given(options, "features", "drop").items():
        if target in columns:
            raise wrong(name, f"{target!r} is the target; leave it out here.")
    names = options.features or [
        name
        for name in header_of(path, parts.format, text)
        if _P_OF.fullmatch(name) and name not in (target, *(options.drop or ()))
    ]
    table = read_table(
        path, target, features=names or None, drop=options.drop, format=parts.format, text=text,
        missing_labels=str(options.missing_labels),
    )  # fmt: skip
    class_of = _classes_of_columns(table, meant=bool(names))
    classes = _all_classes(table, class_of)
    X = table.X[sorted(class_of, key=lambda name: int(np.searchsorted(classes, class_of[name])))]
    LeftOut(table).tell(terminal)
    assert table.y is not None
    return X, X.to_numpy(), table.y, classes


def _of_model(
    terminal: Terminal, options: CalibrateOptions, data: Path
) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, Any]:
    """Features, probabilities, labels and classes of a table, and the model, frozen."""
    estimator = load_estimator(options.model)
    table, places = read_labeled_table(terminal, estimator, data, options)
    p = np.exp(log_probabilities(estimator, table)).astype(np.float64)
    classes = estimator.classes_
    return features_for(estimator, table), p, classes[places], classes, FrozenEstimator(estimator)


def _fit(
    calibrator: LegendreCalibrator, X: Any, scores: np.ndarray, y: np.ndarray, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fit to all rows, and return log-probabilities of labels as they are, before and after, of rows held out."""
    with without_names(), DriftWatch():  # warned about when scores were computed
        if calibrator.estimator is None:
            calibrator.set_params(classes=classes)
        calibrator.fit(X, y)
        kind = "proba" if calibrator._form.is_proba else "logits"
        trial = clone(calibrator).set_params(estimator=None, input=kind, classes=classes)
        # by chance alone: with equal shares of a class in all folds, the held-out rows could be told from the others
        fold = np.random.RandomState(0).permutation(len(y)) % calibrator.cv
        before, after = np.empty((2, len(y), len(classes)))
        for held_out in (fold == number for number in range(min(calibrator.cv, len(y)))):
            fitted = trial.fit(scores[~held_out], y[~held_out])
            # probabilities of 0 count as a calibrator counts them
            read = ScoreReader(calibrator._form)(torch.as_tensor(scores[held_out])).log_softmax(1).numpy()
            before[held_out] = _add_noise(fitted, read)
            after[held_out] = _add_noise(fitted, fitted.predict_log_proba(scores[held_out]))
    return before, after


def _add_noise(calibrator: LegendreCalibrator, log_p: np.ndarray) -> np.ndarray:
    """Log-probabilities of labels as they are, some of them wrong."""
    n_classes = log_p.shape[1]
    if calibrator.noise_rate_ == 0.0:
        return log_p
    share = replaced_share(calibrator.noise_rate_, n_classes)
    observed: np.ndarray = np.logaddexp(log_p + np.log1p(-share), np.log(share / n_classes))
    return observed


def _tell(
    terminal: Terminal,
    options: CalibrateOptions,
    calibrator: LegendreCalibrator,
    y: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    seconds: float,
) -> None:
    """Draw the picture, and print the summary."""
    numbers = np.searchsorted(calibrator.classes_, y)
    scores = {"before": scores_of(numbers, before), "after": scores_of(numbers, after)}
    noise = None
    if calibrator.label_noise is not None:
        known = calibrator.label_noise != "symmetric"
        noise = {"rate": calibrator.noise_rate_, "low": None, "high": None, "known": known}
    if (plot := options.plot) is not None:
        write_reliability(plot, numbers, {"before": np.exp(before), "after": np.exp(after)})
        terminal.note(f"picture: {plot}")
    choice = _choice(calibrator)
    summary = {
        "out": str(options.out),
        "calibrates": "model" if calibrator.estimator is not None else "predictions",
        "rows": len(y),
        "classes": calibrator.classes_,
        "input": "proba" if calibrator._form.is_proba else "logits",
        "order": calibrator.order,
        "temperature": calibrator.temperature_,
        "choice": choice,
        "label_noise": noise,
        "folds": min(calibrator.cv, len(y)),
        **{when: dataclasses.asdict(found) for when, found in scores.items()},
        "plot": None if plot is None else str(plot),
        "seconds": seconds,
    }
    observed = " (labels as given, some of them wrong)" if noise is not None else ""
    view = score_view(f"on {len(y):,} rows held out{observed}", **scores)
    about = grid("calibrated", "the model" if calibrator.estimator is not None else f"predictions ({summary['input']})")
    about.add_row("rows, classes", f"{len(y):,}, {len(calibrator.classes_):,}")
    about.add_row("temperature", f"{calibrator.temperature_:.3g}")
    if noise is not None:
        about.add_row("wrong labels", noise_in_words(noise))
    about.add_row("seconds", f"{seconds:.1f}")
    about.add_row("written to", str(options.out))
    gain = f"log-loss on held-out rows: {scores['after'].log_loss:.4f}, before {scores['before'].log_loss:.4f}"
    if scores["after"].log_loss >= scores["before"].log_loss:
        gain += "; calibration did not help: keep the model as it is, or use more rows"
    terminal.result(summary, about, view, f"calibration: {choice['text']}", gain, even_if_quiet=False)


def _choice(calibrator: LegendreCalibrator) -> dict[str, Any]:
    """Return what the weights of the candidates are, in numbers and in words."""
    tried = calibrator.cv_results_
    by_class, shape = np.isfinite(tried["strength"]), tried["shape"].astype(bool)
    shares = {
        "temperature": float(tried["weight"][~shape].sum()),
        "shared": float(tried["weight"][shape & ~by_class].sum()),
        "by_class": float(tried["weight"][by_class].sum()),
    }
    temperature = calibrator.temperature_
    meaning = ""
    if abs(temperature - 1.0) > _NEAR_ONE:
        meaning = f": predictions were {'too certain' if temperature > 1.0 else 'not certain enough'}"
    if calibrator.strength != "auto":
        how = f"strength {calibrator.strength:g}, as given"
    else:
        names = {"temperature": "temperature alone", "shared": "shared scale and shape", "by_class": "by class"}
        parts = [f"{names[key]} {share:.0%}" for key, share in shares.items() if share > 0.0]
        how = f"weights by held-out log-loss: {', '.join(parts)}"
    return {**shares, "text": f"temperature {temperature:.3g}{meaning}; {how}"}
