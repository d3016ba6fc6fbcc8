"""``legendretron fit``: from a table to a model file."""

from __future__ import annotations

import dataclasses
import json
import os
import time
import warnings
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Self

import numpy as np

from legendretron._internal.columns import quoted
from legendretron._internal.parameters import spell
from legendretron._internal.sklearn_compat import validate_parameters
from legendretron._internal.validation import check_device
from legendretron.cli.command_options import EstimatorOptions, FitOptions, Model
from legendretron.cli.models import LeftOut, check_target, find_table, log_probability_parts
from legendretron.cli.options import find_given, wrong, wrong_usage_of
from legendretron.cli.outputs import check_outputs, save_model
from legendretron.cli.streamed_fit import fit_in_batches
from legendretron.cli.suggestion import suggest_auto
from legendretron.cli.summaries import (
    FitScores,
    check_named,
    choice_of,
    column_facts,
    column_view,
    found_noise,
    in_words,
    join_texts,
    naming_data,
    noise_in_words,
    read_matrix,
    warn_of_similar_labels,
    write_tuning,
)
from legendretron.cli.terminal import Terminal, grid
from legendretron.datasets.table_files import header_of
from legendretron.datasets.tables import Table, as_numbers, check_finite, has_only_numbers, read_columns
from legendretron.datasets.text_form import TextForm
from legendretron.estimators import (
    LegendreNetClassifier,
    LegendreTronClassifier,
    MultinomialLogisticClassifier,
    TableClassifier,
)
from legendretron.estimators.base import LinearLinkClassifier
from legendretron.estimators.fit_data import SoftLabels
from legendretron.estimators.label_noise import read_label_noise
from legendretron.estimators.settings import checkpoint_path
from legendretron.links import link_names
from legendretron.links.registry import names_without_settings
from legendretron.preprocessing import TableEncoder


class BetterClassifier(LegendreNetClassifier):
    """Networks and the linear default: :attr:`better_` has the lower log-loss on rows that were held out."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit both."""
        own = self.get_params()
        shared = ("label_noise", "class_weight", "device", "dtype", "random_state", "verbose")
        models = {
            "linear": LegendreTronClassifier(**{name: own[name] for name in shared}),
            "networks": LegendreNetClassifier(**own),
        }
        #: log-losses on held-out rows, by model
        self.log_losses_ = {
            name: choice_of(m.fit(X, y, sample_weight, groups))["log_loss"] for name, m in models.items()
        }
        tried = {name: loss for name, loss in self.log_losses_.items() if loss is not None}
        self.better_: Any = models[min(tried, key=lambda name: tried[name]) if len(tried) > 1 else "linear"]
        return self


_FEW = 20  #: fewer rows give a warning


def fit(terminal: Terminal, options: FitOptions) -> None:
    """See :class:`~legendretron.cli.command_options.FitOptions`."""
    if "RANK" in os.environ and "MASTER_ADDR" in os.environ:
        raise ValueError("the command line fits in one process; with torchrun, call fit_torchrun in Python.")
    _check_columns(options)
    matrix_file = _matrix_file(options)
    outputs = {"--out": options.out, "--checkpoint": options.checkpoint, "--tuning": options.tuning}
    inputs = {"DATA": options.data, **({} if matrix_file is None else {"--label-noise": matrix_file})}
    check_outputs(outputs, inputs)
    in_memory = options.model in (Model.network, Model.auto)
    for name in find_given(options, "tuning") if in_memory else ():
        raise wrong(name, "it is for --model linear or logistic; leave it out.")
    estimator: Any = make_estimator(options)
    for name in find_given(options, "cv", "tuning"):
        if hasattr(estimator, "_strengths") and estimator._strengths().fixed:
            raise wrong(
                name,
                "it applies only if penalties are chosen automatically, but all are given; leave it out, or give "
                "--alpha auto.",
            )
    parts = find_table(options.data, options.format, options.stream, outputs)
    check_target(parts, options, "which column should be predicted?")
    if not parts.whole:
        if in_memory:
            raise wrong("--model", "networks are fitted to tables in memory; give --model linear.")
        began = time.perf_counter()
        scores, encoder, forms = fit_in_batches(
            terminal, options, estimator, parts, lambda classes: _set_noise(estimator, classes, options)
        )
        _finish(terminal, options, estimator, encoder, scores, forms, time.perf_counter() - began)
        return
    if options.skip_bad_rows:
        reason = "it is for tables that are read in batches; give --stream, or --missing drop-rows instead."
        raise wrong("--skip-bad-rows", reason)
    table = _read(options, parts.format)
    LeftOut(table).tell(terminal)
    warn_of_similar_labels(table.classes, options.data, table.target, terminal)
    table, encoder = _encode(table, options.categorical or [], options.max_categories)
    _set_noise(estimator, table.classes, options)
    began = time.perf_counter()
    _fit(estimator, table, terminal)
    compared = getattr(estimator, "log_losses_", None)
    estimator = getattr(estimator, "better_", estimator)
    seconds = time.perf_counter() - began
    assert table.y is not None
    places = np.searchsorted(estimator.classes_, table.y)
    judged = ((places[rows], log_p) for rows, log_p in log_probability_parts(estimator, table))
    scores = FitScores.of(judged, len(estimator.classes_), table.left_out, table.unlabelled)
    if table.kept is not None:
        leading = float(table.kept.to_numpy(dtype=float).max(1).mean())
        scores = scores._replace(log_loss=_soft_loss(estimator, table), leading_share=leading)
    forms = [] if table.form is None else [table.form]
    suggestion = None
    if options.model == Model.linear and table.kept is None and (terminal.json or not terminal.quiet):
        suggestion = suggest_auto(estimator, table.X, table.y)
    _finish(terminal, options, estimator, encoder, scores, forms, seconds, compared, suggestion)


def _matrix_file(options: FitOptions) -> Path | None:
    """The file that ``--label-noise`` names, if it names one."""
    given = options.label_noise
    return Path(given) if isinstance(given, str) and given.lower().endswith((".csv", ".tsv")) else None


def _check_columns(options: FitOptions) -> None:
    """Raise a usage error for columns that are named twice."""
    for name, columns in find_given(options, "features", "drop", "categorical", "numeric").items():
        if options.target is not None and options.target in columns:
            raise wrong(name, f"{options.target!r} is the target; leave it out here.")
    if both := set(options.categorical or ()) & set(options.numeric or ()):
        raise wrong("--numeric", f"{min(both)!r} is in --categorical as well; choose one.")


def make_estimator(options: FitOptions) -> LinearLinkClassifier:
    """Return an estimator with the parameters that were given, checked, and its own defaults."""
    kinds: dict[Model, type[Any]] = {
        Model.linear: LegendreTronClassifier,
        Model.network: LegendreNetClassifier,
        Model.auto: BetterClassifier,
        Model.logistic: MultinomialLogisticClassifier,
    }
    kind = kinds[options.model]
    names = [field.name for field in dataclasses.fields(EstimatorOptions)]
    parameters = {name: getattr(options, name) for name in names if getattr(options, name) not in (None, [])}
    for name, called in zip(parameters, find_given(options, *parameters), strict=True):
        if name not in kind._get_param_names():
            takers = [model.value for model, other in kinds.items() if name in other._get_param_names()]
            raise wrong(called, f"it is for --model {' or '.join(takers)}; leave it out.")
    # the value of an enum, as messages show it
    parameters = {name: value.value if isinstance(value, Enum) else value for name, value in parameters.items()}
    if "link_params" in parameters:
        parameters["link_params"] = _settings(parameters["link_params"])
    if _matrix_file(options) is not None:  # read once the classes are known
        del parameters["label_noise"]
    elif options.label_noise == "none":
        parameters["label_noise"] = None
    estimator = kind(**parameters)
    validate_parameters(estimator)
    if hasattr(estimator, "checkpoint"):
        checkpoint_path(estimator)
    if isinstance(estimator, LegendreTronClassifier):
        _check_link(estimator)
    check_device(estimator.device)
    return estimator


def _check_link(estimator: LegendreTronClassifier) -> None:
    """Raise a usage error for a link that there is not, or for settings that it does not have."""
    if estimator.link not in link_names():
        raise wrong("--link", f"there is no link {estimator.link!r}; there are {', '.join(names_without_settings())}.")
    estimator._link_class()
    with wrong_usage_of("--link-param"):
        estimator._strengths()  # builds such a link


def _finish(
    terminal: Terminal,
    options: FitOptions,
    estimator: LinearLinkClassifier,
    encoder: TableEncoder | None,
    scores: FitScores,
    forms: Sequence[TextForm],
    seconds: float,
    compared: dict[str, float | None] | None = None,
    suggestion: dict[str, Any] | None = None,
) -> None:
    """Write the model, and what was tried, and print the summary."""
    _warn_of_few_rows(estimator.classes_, scores.counts, terminal)
    model = estimator if encoder is None else TableClassifier.from_fitted(estimator, encoder)
    save_model(terminal, model, options.out)
    tuning = options.tuning
    if tuning is not None:
        write_tuning(estimator, tuning)
    summary = {
        **_summary(estimator, scores, options.model, seconds, options.out),
        "read_as": [form._asdict() for form in forms] or None,
        "columns": None if encoder is None else column_facts(encoder.columns_),
        "rows_left_out": scores.left_out,
        "rows_without_label": scores.unlabelled,
        "tuning": None if tuning is None else str(tuning),
        "compared": compared,
        "suggestion": suggestion,
    }
    lines = [f"model: {summary['choice']['text']}"]
    if compared is not None:
        losses = [f"{name} {'not known' if loss is None else f'{loss:.3f}'}" for name, loss in compared.items()]
        lines.append(f"log-loss on held-out rows: {', '.join(losses)}")
    if summary["link_test"] is not None:
        lines.append(f"link: {estimator.link_test_}")
    if scores.leading_share is not None:
        lines.append(f"shares: the leading class of a row has {100 * scores.leading_share:.0f} % on average")
    if summary["label_noise"] is not None:
        lines.append(f"wrong labels: {noise_in_words(summary['label_noise'])}")
    if suggestion is not None:
        lines.append(f"suggestion: {suggestion['text']}")
    views = [] if encoder is None else [column_view(encoder.columns_)]
    terminal.result(summary, *views, _view(summary), *lines, even_if_quiet=False)


def _warn_of_few_rows(classes: np.ndarray, counts: np.ndarray, terminal: Terminal) -> None:
    """Say if there are hardly any rows, of the table or of a class."""
    rows, alone = int(counts.sum()), classes[counts < 2]
    if rows < _FEW:
        terminal.warning(f"{rows} rows are hardly enough to learn from: what the model found may be due to chance")
    if len(alone):
        terminal.warning(
            f"there is only one row of {quoted(alone)}: the model can hardly learn this class, or be evaluated on "
            "it; add rows, or leave this one out"
        )


def _settings(given: list[str]) -> dict[str, Any]:
    """Parse settings of a link; a value is a number, true, false or text."""
    settings = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise wrong("--link-param", f"it must be NAME=VALUE, got {text!r}.")
        if name in settings:
            raise wrong("--link-param", f"{name} is given twice.")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def _read(options: FitOptions, format: str) -> Table:
    data, numeric = options.data, options.numeric or []
    shares = _share_columns(options, format)
    table = read_columns(
        data, None if shares else options.target, features=[*options.features, *shares] if options.features else None,
        drop=options.drop, format=format, as_text=options.categorical or [], numeric=numeric, **options.reading,
    )  # fmt: skip
    check_named("--numeric", numeric, table)
    if shares:
        return _with_shares(table, shares, options)
    if len(table.classes) < 2:
        place = "the labels" if table.target is None else f"the labels in target column {table.target!r}"
        raise ValueError(
            f"{place} of {str(data)!r} are all {str(table.classes[0])!r}; at least two classes are needed."
        )
    return table


def _share_columns(options: FitOptions, format: str) -> list[str]:
    """Columns of the shares of the classes; none if the target is a column of labels."""
    target = options.target
    if (
        target is None
        or "," not in target
        or format == "libsvm"
        or target in header_of(options.data, format, options.text)
    ):
        return []
    return [name.strip() for name in target.split(",")]


def _with_shares(table: Table, shares: list[str], options: FitOptions) -> Table:
    """The table, with columns of shares as what is kept beside the features, and the class of the largest as the label."""
    check_named("--target", shares, table)
    whole = table.X[shares].notna().all(axis=1).to_numpy()
    if not whole.all():
        if str(options.missing_labels) == "error" or not whole.any():
            raise ValueError(
                f"{int((~whole).sum())} of {len(whole)} rows of {str(table.path)!r} lack a share of a class in columns "
                f"{quoted(shares)}, the first in {table.place_of(int(whole.argmin()))}; fill it in, or leave such rows out "
                f"({spell('missing_labels', 'drop')})."
            )
        rows = table.numbers_of(np.flatnonzero(whole))
        table = dataclasses.replace(table, X=table.X[whole], rows=rows, unlabelled=int((~whole).sum()))
    kept, X = table.X[shares], table.X.drop(columns=shares)
    SoftLabels.read(kept, f"the target, columns {quoted(shares)} of {str(table.path)!r},", table.place_of)
    y = np.array(shares)[kept.to_numpy(dtype=float).argmax(1)]
    return dataclasses.replace(table, X=X, y=y, feature_names=tuple(X), target=options.target, kept=kept)


def _encode(table: Table, categorical: list[str], max_categories: int) -> tuple[Table, TableEncoder | None]:
    """The table as numbers, and what encoded it; None if there is nothing to encode."""
    if not categorical and has_only_numbers(table):
        table = as_numbers(table)
        for note in [] if table.feature_names is None else TableEncoder().partial_fit(table.X).notes_:
            warnings.warn(note, stacklevel=2)
        return table, None
    check_named("--categorical", categorical, table)
    check_finite(table)
    encoder = TableEncoder(categorical=categorical, max_categories=max_categories)
    with naming_data([table.path], lambda: [table]):
        encoder.set_output(transform="pandas").fit(table.X)
    return dataclasses.replace(table, X=encoder.transform(table.X)), encoder


def _set_noise(estimator: LinearLinkClassifier, classes: np.ndarray, options: FitOptions) -> None:
    """Check, and read, what ``--label-noise`` says about the classes of the data."""
    if (path := _matrix_file(options)) is not None:
        estimator.set_params(label_noise=read_matrix(path, classes))
    read_label_noise(estimator.label_noise, len(classes))


def _fit(estimator: LinearLinkClassifier, table: Table, terminal: Terminal) -> None:
    """Fit, with a progress bar on a terminal."""
    estimator.set_params(verbose=0 if terminal.quiet else 1)
    try:
        estimator.fit(table.X, table.y if table.kept is None else table.kept)
    except KeyboardInterrupt as stopped:
        # while penalties are chosen there is none yet
        checkpoint = getattr(estimator, "checkpoint", None)
        started = checkpoint is not None and Path(checkpoint).exists()
        resume = "; the same command resumes from the checkpoint" if started else ""
        raise KeyboardInterrupt(f"interrupted, no model was written{resume}") from stopped
    estimator.set_params(verbose=0)  # the progress bar is not saved with the model


def _soft_loss(estimator: LinearLinkClassifier, table: Table) -> float:
    """Mean log-loss on the rows of the fit, whose labels are shares of the classes."""
    assert table.kept is not None
    shares = table.kept[list(estimator.classes_)].to_numpy(dtype=float)
    return -float(sum((shares[rows] * log_p).sum() for rows, log_p in log_probability_parts(estimator, table))) / len(
        shares
    )


def _summary(
    estimator: LinearLinkClassifier, scores: FitScores, model: Model, seconds: float, out: Path
) -> dict[str, Any]:
    held_out: dict[str, Any] | None = None
    of_networks = isinstance(estimator, LegendreNetClassifier)
    if of_networks:  # all rows are held out by turns
        loss = estimator.linear_log_loss_ if estimator.is_linear_ else estimator.network_log_loss_
        held_out = {"share": 1.0, "log_loss": loss, "accuracy": estimator.oof_score_, "epoch": None}
    elif estimator.early_stopping and np.isfinite(estimator.history_["validation_loss"]).any():
        history = estimator.history_
        best = int(np.nanargmin(history["validation_loss"]))
        held_out = {
            "share": estimator.early_stopping,
            "log_loss": history["validation_loss"][best],
            "accuracy": history["accuracy"][best],
            "epoch": int(history["epoch"][best]),
        }
    test, noise = getattr(estimator, "link_test_", None), found_noise(estimator)
    return {
        "model": model.value,
        "out": str(out),
        "rows": scores.rows,
        "features": estimator.n_features_in_,
        "classes": estimator.classes_,
        "choice": choice_of(estimator),
        "link_test": {"p_value": test.p_value, "gain": test.gain, "rejected_classes": test.rejected_classes}
        if test
        else None,
        "leading_share": scores.leading_share,
        # a fit to shares that finds no wrong labels says nothing about the votes behind them
        "label_noise": None if noise and scores.leading_share and not noise["rate"] else noise,
        "epochs": None if of_networks else estimator.n_iter_,
        "steps": estimator.n_iter_ if of_networks else None,
        "log_loss": scores.log_loss,
        "accuracy": scores.accuracy,
        "held_out": held_out,
        "seconds": seconds,
        "parameters": {key: value for key, value in estimator.get_params(deep=False).items() if key != "verbose"},
    }


def _view(summary: dict[str, Any]) -> Any:
    def scores(of: dict[str, Any]) -> str:
        return f"{of['accuracy']:.2%}, {of['log_loss']:z.4f}"

    table = grid("fitted", summary["model"])
    if summary["read_as"] is not None:
        table.add_row("text read as", "; ".join(map(in_words, summary["read_as"])))
    table.add_row("rows, features", f"{summary['rows']:,}, {summary['features']:,}")
    if summary["rows_left_out"]:
        of_them = f", {summary['rows_without_label']:,} without a label" if summary["rows_without_label"] else ""
        table.add_row("rows left out", f"{summary['rows_left_out']:,}{of_them}")
    table.add_row("classes", f"{len(summary['classes'])}: {join_texts(map(str, summary['classes']), most=6)}")
    table.add_row(*next((unit, str(summary[unit])) for unit in ("epochs", "steps") if summary[unit] is not None))
    noise = summary["label_noise"]
    as_they_are = " (recorded labels, predicted true ones)" if noise and noise["predicted"] == "true labels" else ""
    table.add_row(f"accuracy, log-loss on the training rows{as_they_are}", scores(summary))
    if summary["held_out"] is not None:
        table.add_row("accuracy, log-loss on the rows held out", scores(summary["held_out"]))
    table.add_row("seconds", f"{summary['seconds']:.1f}")
    table.add_row("written to", summary["out"])
    if summary["tuning"] is not None:
        table.add_row("penalties tried", summary["tuning"])
    return table
