"""``legendretron fit``: from a table to a model file."""

from __future__ import annotations

import dataclasses
import json
import math
import time
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legendretron._internal.extras import import_extra
from legendretron.cli.choice import PICTURES, TABLES, choice_of, write_tuning
from legendretron.cli.cluster import (
    Address,
    BackendOption,
    CheckpointSteps,
    ClassParallel,
    MaxFailures,
    Shards,
    Storage,
    Workers,
    cluster_of,
    fit_by_cluster,
)
from legendretron.cli.columns import check_named, column_facts, column_view, in_words, listed, warn_of_similar_labels
from legendretron.cli.defaults import default_of
from legendretron.cli.fit_scores import FitScores
from legendretron.cli.label_noise import check_rate, found_noise, noise_in_words, parse_noise, read_matrix
from legendretron.cli.left_out import LeftOut
from legendretron.cli.options import (
    DataFile,
    DecimalOption,
    EncodingOption,
    FormatOption,
    Missing,
    MissingLabels,
    MissingLabelsOption,
    MissingOption,
    NaOption,
    SepOption,
    SkipOption,
    StreamOption,
    ThousandsOption,
    count_or_auto,
    number_or_auto,
    wrong_usage_of,
)
from legendretron.cli.outputs import check_outputs, check_suffix, frame_bytes, naming, write_output
from legendretron.cli.report import Report, grid
from legendretron.cli.suspicious import folds_for, judged, suspicious_frame
from legendretron.cli.wording import saying_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from legendretron.datasets.tables import Table
    from legendretron.datasets.text_form import TextForm, TextOptions
    from legendretron.estimators.base import LinearLinkClassifier
    from legendretron.preprocessing import TableEncoder

__all__ = ["fit"]


Model = StrEnum("Model", ["legendretron", "logistic"])


#: A larger number is a typing error: memory or time would run out.
_MOST_UNITS, _MOST_EPOCHS = 10_000, 10**9
_FEW = 20  #: fewer rows are worth a word
_CATEGORIES = 32  #: as in TableEncoder
_COUNT = {"min": 1, "max": _MOST_EPOCHS}
_SEED = {"min": 0, "max": 2**32 - 1}  # accepted by numpy

Solver = StrEnum("Solver", ["auto", "adam", "lbfgs"])
ClassWeight = StrEnum("ClassWeight", ["balanced"])
Precision = StrEnum("Precision", ["float32", "float64"])


def _option(panel: str, help: str, *names: str, parameter: str | None = None, **limits: Any) -> Any:
    """An option; if not given, the estimator's default applies, which the help shows."""
    shown = "" if parameter is None else f" (default: {default_of(parameter)})"
    return typer.Option(*names, help=help + shown, rich_help_panel=panel, show_default=False, **limits)


def _data(help: str, *names: str) -> Any:
    return _option("Data", help, *names)


def _model(help: str, *names: str, parameter: str, **limits: Any) -> Any:
    return _option("Model", help, *names, parameter=parameter, **limits)


def _training(help: str, *names: str, parameter: str | None = None, **limits: Any) -> Any:
    return _option("Training", help, *names, parameter=parameter, **limits)


def fit(
    report: Report,
    data: DataFile,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="File for the model; an existing one is replaced.", show_default=False),
    ],
    target: Annotated[
        str | None, _data("Column to predict: whole numbers or text. LIBSVM text needs none.", "--target", "-t")
    ] = None,
    features: Annotated[
        list[str] | None, _data("Column to predict from; repeat it for several. All but the target if not given.")
    ] = None,
    drop: Annotated[list[str] | None, _data("Column to leave out; repeat it for several.")] = None,
    categorical: Annotated[
        list[str] | None,
        _data(
            "Column whose values are categories although they look like numbers or dates, or are nearly all different; "
            "repeat it for several. Other text is categories anyway."
        ),
    ] = None,
    numeric: Annotated[
        list[str] | None,
        _data(
            "Column of numbers although they are written with leading zeros, such as 007; repeat it for several. Others of "
            "that kind in text files are categories."
        ),
    ] = None,
    max_categories: Annotated[
        int,
        typer.Option(
            help="Most categories of a column: the most frequent, and one for all others together.",
            min=2,
            max=_MOST_UNITS,
            rich_help_panel="Data",
        ),
    ] = _CATEGORIES,
    missing: MissingOption = Missing.impute,
    missing_labels: MissingLabelsOption = MissingLabels.error,
    sep: SepOption = None,
    decimal: DecimalOption = None,
    thousands: ThousandsOption = None,
    encoding: EncodingOption = None,
    na: NaOption = None,
    format: FormatOption = None,
    stream: StreamOption = None,
    skip_bad_rows: SkipOption = 0,
    model: Annotated[
        Model,
        typer.Option(
            help="legendretron learns how scores become probabilities; logistic is ordinary logistic regression.",
            rich_help_panel="Model",
        ),
    ] = Model.legendretron,
    link: Annotated[
        str | None,
        _model(
            "Kind of link to learn: composite is flexible, canonical simpler and convex; or the name of a link from an "
            "installed package.",
            parameter="link",
        ),
    ] = None,
    link_param: Annotated[
        list[str] | None,
        _option(
            "Model",
            "Setting of the link, as NAME=VALUE; repeat it for several. composite: hidden=8 units (4 below 300 rows), "
            "depth=4 layers, n_blocks=2 networks; canonical: n_nests=4 softmaxes.",
            "--link-param",
        ),
    ] = None,
    alpha: Annotated[
        str | None,
        _model(
            "Penalty on the weights: larger is simpler. auto: several are tried on held-out rows.",
            parameter="alpha",
            metavar="auto|NUMBER",
        ),
    ] = None,
    link_alpha: Annotated[
        str | None,
        _model(
            "Penalty on the link. auto: several are tried on held-out rows, and no link is learned unless that is better.",
            parameter="link_alpha",
            metavar="auto|NUMBER",
        ),
    ] = None,
    cv: Annotated[
        int | None,
        _option(
            "Model",
            "Number of parts, each held out once, to choose penalties that are auto. (default: 5; from 50,000 rows on, "
            "one fifth is held out once)",
            min=2,
            max=_MOST_UNITS,
        ),
    ] = None,
    label_noise: Annotated[
        str | None,
        _model(
            "Wrong labels: the model learns from labels as they are, and predicts true ones. auto: tried on held-out rows, "
            "where penalties are. none: all are right. symmetric: some are wrong at random, how many is estimated. "
            "class-conditional: for each pair of classes; needs many rows. NUMBER: the share of wrong labels. FILE: a matrix "
            "(.csv, .tsv), a line for each true class with the probabilities of labels.",
            "--label-noise",
            parameter="label_noise",
            metavar="KIND|NUMBER|FILE",
        ),
    ] = None,
    standardize: Annotated[
        bool | None, _model("Standardise the features.", "--standardize/--no-standardize", parameter="standardize")
    ] = None,
    class_weight: Annotated[
        ClassWeight | None, _training("balanced: rare classes count as much as frequent ones.")
    ] = None,
    solver: Annotated[
        Solver | None,
        _training(
            "adam: minibatches; lbfgs: all rows at once, for small data. auto: adam for a learned link, an exact solver for "
            "logistic regression.",
            parameter="solver",
        ),
    ] = None,
    epochs: Annotated[
        str | None,
        _training(
            "Maximum number of passes over the data. auto: by the number of rows, more passes for fewer rows.",
            parameter="max_epochs",
            metavar="auto|N",
        ),
    ] = None,
    learning_rate: Annotated[
        str | None,
        _training("Initial learning rate of adam. auto: 0.03.", parameter="learning_rate", metavar="auto|NUMBER"),
    ] = None,
    batch_size: Annotated[int | None, _training("Rows per step of adam.", parameter="batch_size", **_COUNT)] = None,
    validation: Annotated[
        float | None,
        _training(
            "Share of rows to hold out, such as 0.1: fitting stops when the log-loss on them no longer improves."
        ),
    ] = None,
    seed: Annotated[int | None, _training("Random seed; the same seed gives the same model.", **_SEED)] = None,
    device: Annotated[str | None, _training("cpu, cuda, cuda:1, or auto.", parameter="device")] = None,
    dtype: Annotated[Precision | None, _training("Precision; that of the data if not given.")] = None,
    checkpoint: Annotated[
        Path | None, _training("File to resume from if the fit is stopped; needs --seed. Removed at the end.")
    ] = None,
    tuning: Annotated[
        Path | None,
        typer.Option(
            help="File for the penalties that were tried: a table (.csv, .tsv, .parquet) or a picture (.png, .svg, .pdf).",
            show_default=False,
            rich_help_panel="Output",
        ),
    ] = None,
    suspicious: Annotated[
        Path | None,
        typer.Option(
            help="File for the rows whose labels are probably wrong (.csv, .tsv, .parquet), each judged by a model that has "
            "not seen it; see 'legendretron suspicious --help'.",
            show_default=False,
            rich_help_panel="Output",
        ),
    ] = None,
    backend: BackendOption = None,
    workers: Workers = None,
    address: Address = None,
    storage: Storage = None,
    max_failures: MaxFailures = None,
    shards: Shards = None,
    class_parallel: ClassParallel = None,
    checkpoint_steps: CheckpointSteps = None,
) -> None:
    """Fit a model to a table and write it to a file.

    By default, penalties are chosen on held-out rows, and ordinary logistic regression is preferred unless a learned link is
    clearly better. It is also tried out whether some labels are wrong. The summary tells what was chosen, and found.

    Columns may be numbers, text, dates (as 2024-05-31, 31.05.2024 or 05/31/2024) or true and false, with missing values; the
    summary tells what became of each, and the file remembers it. Numbers with leading zeros, such as postal codes, are
    categories: see --numeric. The file is safe to share: loading it runs no code.

    Tables larger than memory are read in batches, again and again: see --stream. Penalties are chosen on a sample of their
    rows, and missing values are only filled in if some columns are text.

    Ctrl-C ends the command with exit code 130 and writes no model, so that a partly fitted one is never mistaken for a
    finished one; with --checkpoint the same command resumes.
    """
    from legendretron.cli.models import format_for, make_model
    from legendretron.cli.streamed_fit import fit_in_batches
    from legendretron.cli.streams import check_streamable, streamed_parts
    from legendretron.datasets.streams import forms_of
    from legendretron.datasets.text_form import TextOptions

    for name, columns in (
        ("--features", features), ("--drop", drop), ("--categorical", categorical), ("--numeric", numeric)
    ):  # fmt: skip
        if target is not None and target in (columns or ()):
            raise typer.BadParameter(f"{target!r} is the target; leave it out here.", param_hint=f"'{name}'")
    if both := set(categorical or ()) & set(numeric or ()):
        raise typer.BadParameter(f"{min(both)!r} is in --categorical as well; choose one.", param_hint="'--numeric'")
    if validation is not None and not 0 < validation < 1:
        raise typer.BadParameter(f"it must be between 0 and 1, got {validation}.", param_hint="'--validation'")
    if checkpoint is not None and seed is None:
        raise typer.BadParameter("it needs --seed, without which a fit cannot be resumed.", param_hint="'--checkpoint'")
    if tuning is not None:
        check_suffix(tuning, (*TABLES, *PICTURES), "--tuning")
    if suspicious is not None:
        check_suffix(suspicious, TABLES, "--suspicious")
    noise = parse_noise(label_noise)
    cluster = cluster_of(
        backend=backend, workers=workers, address=address, storage=storage, max_failures=max_failures, shards=shards,
        class_parallel=class_parallel, checkpoint_steps=checkpoint_steps,
        unsuitable={
            "--suspicious": suspicious, "--label-noise": noise if isinstance(noise, Path) else None,
            "--checkpoint": checkpoint if backend is not None else None, "--format": format, "--sep": sep,
            "--decimal": decimal, "--thousands": thousands, "--encoding": encoding, "--na": na or None,
            "--categorical": categorical or None, "--numeric": numeric or None,
            "--missing-labels": missing_labels if missing_labels == MissingLabels.drop else None,
        },
    )  # fmt: skip
    matrix_file = noise if isinstance(noise, Path) else None
    outputs = {"--out": out, "--checkpoint": checkpoint, "--tuning": tuning, "--suspicious": suspicious}
    check_outputs(
        outputs,
        {"DATA": data} if matrix_file is None else {"DATA": data, "--label-noise": matrix_file},
    )
    estimator = make_model(model, {
        "link": link, "link_params": _settings(link_param), "alpha": number_or_auto(alpha, "--alpha"),
        "link_alpha": number_or_auto(link_alpha, "--link-alpha"), "cv": cv,
        "label_noise": None if matrix_file is not None else noise,
        "standardize": standardize, "class_weight": class_weight, "solver": solver,
        "max_epochs": count_or_auto(epochs, "--epochs", _MOST_EPOCHS),
        "learning_rate": number_or_auto(learning_rate, "--learning-rate"), "batch_size": batch_size,
        "early_stopping": validation, "random_state": seed, "device": device, "dtype": dtype,
        "checkpoint": None if cluster is not None else checkpoint,
    })  # fmt: skip
    if checkpoint is not None and estimator.solver == "lbfgs":
        reason = "it needs --solver adam or auto, not lbfgs."
        raise typer.BadParameter(reason, param_hint="'--checkpoint'")
    for name, given in (("--cv", cv), ("--tuning", tuning)):
        if given is not None and estimator._strengths().fixed:
            reason = "it is for penalties that are chosen, but all are given; leave it out, or give --alpha auto."
            raise typer.BadParameter(reason, param_hint=f"'{name}'")
    import_extra("safetensors", "writing a model", "cli")
    if tuning is not None and tuning.suffix.lower() in PICTURES:
        import_extra("matplotlib", "drawing", "plots")
    if any(path is not None and path.suffix.lower() == ".parquet" for path in (tuning, suspicious)):
        import_extra("pyarrow", "writing Parquet", "cli")
    if cluster is not None:
        roles = {"target": target, "features": features or None, "drop": tuple(drop or ())}
        fit_by_cluster(report, cluster, estimator, data, roles, out, checkpoint, tuning, skip_bad_rows or 0)
        return
    text = TextOptions(sep, decimal, encoding, tuple(na or ()), thousands)
    parts = streamed_parts(data, format, stream, outputs)
    if parts is not None:
        check_streamable({"--suspicious": suspicious})
        began = time.perf_counter()
        try:
            scores, encoder = fit_in_batches(
                estimator, parts, target, features=features or None, drop=drop, text=text, missing=str(missing),
                missing_labels=str(missing_labels), categorical=categorical or [], numeric=numeric or [],
                max_categories=max_categories, skip_bad_rows=skip_bad_rows, report=report,
                set_noise=(lambda classes: _set_noise(estimator, classes, noise)) if label_noise is not None else None,
            )  # fmt: skip
        except KeyboardInterrupt as stopped:
            raise KeyboardInterrupt("interrupted, no model was written") from stopped
        forms = forms_of(parts, text)
        _finish(estimator, encoder, scores, forms, model, time.perf_counter() - began, out, tuning, None, report)
        return
    if skip_bad_rows:
        reason = "it is for tables that are read in batches; give --stream, or --missing drop-rows instead."
        raise typer.BadParameter(reason, param_hint="'--skip-bad-rows'")
    table = _read(
        data, target, features, drop, format_for(data, format), text, categorical or [], numeric or [], missing,
        missing_labels,
    )  # fmt: skip
    LeftOut(table).tell(report)
    warn_of_similar_labels(table.classes, data, table.target, report)
    table, encoder = _encoded(table, categorical or [], max_categories)
    _set_noise(estimator, table.classes, noise)
    folds = None if suspicious is None else _folds(estimator, table)
    began = time.perf_counter()
    _fit(estimator, table, report)
    seconds = time.perf_counter() - began
    wrong = None if suspicious is None else (lambda: _write_suspicious(estimator, table, folds, suspicious))
    scores = _scores(estimator, table)
    forms = [] if table.form is None else [table.form]
    _finish(estimator, encoder, scores, forms, model, seconds, out, tuning, wrong, report)


def _finish(
    estimator: LinearLinkClassifier,
    encoder: TableEncoder | None,
    scores: FitScores,
    forms: Sequence[TextForm],
    model: Model,
    seconds: float,
    out: Path,
    tuning: Path | None,
    write_suspicious: Callable[[], dict[str, Any]] | None,
    report: Report,
) -> None:
    """Write what was asked for, and tell what came out."""
    from legendretron.estimators import TableClassifier

    _warn_of_few_rows(estimator.classes_, scores.counts, report)
    with naming(out):
        (estimator if encoder is None else TableClassifier.from_fitted(estimator, encoder)).save(out)
    if tuning is not None:
        with saying_options():
            write_tuning(estimator, tuning)
    summary = {
        **_summary(estimator, scores, model, seconds, out),
        "read_as": [form._asdict() for form in forms] or None,
        "columns": None if encoder is None else column_facts(encoder.columns_),
        "rows_left_out": scores.left_out,
        "rows_without_label": scores.unlabelled,
        "tuning": None if tuning is None else str(tuning),
        "suspicious": None if write_suspicious is None else write_suspicious(),
    }
    lines = [f"model: {summary['choice']['text']}"]
    if summary["label_noise"] is not None:
        lines.append(f"wrong labels: {noise_in_words(summary['label_noise'])}")
    views = [] if encoder is None else [column_view(encoder.columns_)]
    report.result(summary, *views, _view(summary), *lines, even_if_quiet=False)


def _warn_of_few_rows(classes: np.ndarray, counts: np.ndarray, report: Report) -> None:
    """Say if there are hardly any rows, of the table or of a class."""
    from legendretron.datasets.table_files import quoted

    rows, alone = int(counts.sum()), classes[counts < 2]
    if rows < _FEW:
        report.warning(f"{rows} rows are hardly enough to learn from: what the model has found may be chance")
    if len(alone):
        report.warning(
            f"there is one row only of {quoted(alone)}: the model can hardly know what such rows are like, nor can it be "
            "judged; add rows, or leave those out"
        )


def _settings(given: list[str] | None) -> dict[str, Any] | None:
    """Parse settings of a link; a value is a number, true, false or text."""
    if not given:
        return None
    settings = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"it must be NAME=VALUE, got {text!r}.", param_hint="'--link-param'")
        if name in settings:
            raise typer.BadParameter(f"{name} is given twice.", param_hint="'--link-param'")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def _read(
    data: Path,
    target: str | None,
    features: list[str] | None,
    drop: list[str] | None,
    format: str,
    text: TextOptions,
    categorical: list[str],
    numeric: list[str],
    missing: str,
    missing_labels: str,
) -> Table:
    from legendretron.cli.models import missing_target
    from legendretron.datasets.tables import read_columns

    with saying_options():
        if target is None and format != "libsvm":
            raise missing_target("which column is to be predicted?", data, format, text)
        table = read_columns(
            data, target, features=features or None, drop=drop, format=format, text=text, as_text=categorical,
            missing=str(missing), missing_labels=str(missing_labels), find_codes=True, numeric=numeric,
        )  # fmt: skip
    check_named("--numeric", numeric, table)
    if len(table.classes) < 2:
        place = "the labels" if table.target is None else f"the labels in target column {table.target!r}"
        raise ValueError(
            f"{place} of {str(data)!r} are all {str(table.classes[0])!r}; at least two classes are needed."
        )
    return table


def _encoded(table: Table, categorical: list[str], max_categories: int) -> tuple[Table, TableEncoder | None]:
    """The table as numbers, and what encoded it; None if there is nothing to encode."""
    from legendretron.datasets.tables import as_numbers, has_only_numbers
    from legendretron.preprocessing import TableEncoder

    if not categorical and has_only_numbers(table):
        table = as_numbers(table)
        with saying_options():
            for note in [] if table.feature_names is None else TableEncoder().partial_fit(table.X).notes_:
                warnings.warn(note, stacklevel=2)
        return table, None
    check_named("--categorical", categorical, table)
    encoder = TableEncoder(categorical=categorical, max_categories=max_categories)
    with saying_options():
        encoder.set_output(transform="pandas").fit(table.X)
        return dataclasses.replace(table, X=encoder.transform(table.X)), encoder


def _set_noise(estimator: LinearLinkClassifier, classes: np.ndarray, noise: Any) -> None:
    """Check, and read, what ``--label-noise`` says about the classes of the data."""
    from legendretron.estimators.label_noise import read_label_noise

    if isinstance(noise, float):
        check_rate(noise, len(classes))
    elif isinstance(noise, Path):
        estimator.set_params(label_noise=read_matrix(noise, classes))
    with wrong_usage_of("--label-noise"), saying_options():
        read_label_noise(estimator.label_noise, len(classes))


def _folds(estimator: LinearLinkClassifier, table: Table) -> int:
    try:
        return folds_for(estimator, table.y)  # type: ignore[arg-type]
    except ValueError as error:
        raise typer.BadParameter(f"{error}; leave it out, or that row.", param_hint="'--suspicious'") from error


def _write_suspicious(estimator: LinearLinkClassifier, table: Table, folds: int | None, path: Path) -> dict[str, Any]:
    """Judge each row by a model that has not seen it, and write those whose labels are probably wrong."""
    assert table.y is not None
    try:
        frame = suspicious_frame(table, table.y, *judged(estimator, table, table.y, folds))
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt("interrupted; the model was written, the suspicious rows were not") from stopped
    write_output(path, frame_bytes(frame, path.suffix.lower()))
    return {"rows": len(frame), "file": str(path)}


def _fit(estimator: LinearLinkClassifier, table: Table, report: Report) -> None:
    """Fit, with a progress bar on a terminal."""
    from legendretron.estimators.validation_split import ValidationSplitError

    estimator.set_params(verbose=0 if report.quiet else 1)
    with saying_options():
        try:
            estimator.fit(table.X, table.y)
        except ValidationSplitError as error:
            reason = _why_not_held_out(table.y, estimator.early_stopping)
            raise typer.BadParameter(reason, param_hint="'--validation'") from error
        except KeyboardInterrupt as stopped:
            # while penalties are chosen there is none yet
            started = estimator.checkpoint is not None and Path(estimator.checkpoint).exists()
            resume = "; the same command resumes from the checkpoint" if started else ""
            raise KeyboardInterrupt(f"interrupted, no model was written{resume}") from stopped
    estimator.set_params(verbose=0)  # the progress bar is not saved with the model


def _why_not_held_out(y: Any, share: float) -> str:
    """Return why a share of the rows cannot be held out, stratified by class."""
    import numpy as np

    classes, counts = np.unique(y, return_counts=True)
    rarest, rows = counts.argmin(), counts.sum()
    if counts[rarest] < 2:
        return (
            f"class {str(classes[rarest])!r} has one row, but needs two: one to hold out, and one to fit; leave out "
            "--validation, or that row."
        )
    return (
        f"{share} of {rows} rows is {math.ceil(share * rows)}, but at least {len(classes)} are needed, one of each class, "
        "and as many to fit; choose another share, or leave out --validation."
    )


def _scores(estimator: LinearLinkClassifier, table: Table) -> FitScores:
    """How good the model is on the rows of the fit."""
    import numpy as np

    from legendretron.cli.models import log_probability_parts

    assert table.y is not None
    places = np.searchsorted(estimator.classes_, table.y)
    losses, hits = np.empty(len(places)), np.empty(len(places), dtype=bool)
    for rows, log_p in log_probability_parts(estimator, table):
        losses[rows] = -log_p[np.arange(len(log_p)), places[rows]]
        hits[rows] = log_p.argmax(1) == places[rows]
    counts = np.bincount(places, minlength=len(estimator.classes_))
    left_out = table.left_out + table.unlabelled
    return FitScores(len(places), float(losses.mean()), float(hits.mean()), left_out, counts, table.unlabelled)


def _summary(
    estimator: LinearLinkClassifier, scores: FitScores, model: Model, seconds: float, out: Path
) -> dict[str, Any]:
    import numpy as np

    history, held_out = estimator.history_, None
    if estimator.early_stopping:
        best = int(np.nanargmin(history["validation_loss"]))
        held_out = {
            "share": estimator.early_stopping,
            "log_loss": history["validation_loss"][best],
            "accuracy": history["accuracy"][best],
            "epoch": int(history["epoch"][best]),
        }
    return {
        "model": model.value,
        "out": str(out),
        "rows": scores.rows,
        "features": estimator.n_features_in_,
        "classes": estimator.classes_,
        "choice": choice_of(estimator),
        "label_noise": found_noise(estimator),
        "epochs": estimator.n_iter_,
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
    table.add_row("classes", f"{len(summary['classes'])}: {listed(map(str, summary['classes']), most=6)}")
    table.add_row("epochs", str(summary["epochs"]))
    noise = summary["label_noise"]
    as_they_are = ", wrong labels among them" if noise is not None and noise["rate"] > 0.0 else ""
    table.add_row(f"accuracy, log-loss on the training rows{as_they_are}", scores(summary))
    if summary["held_out"] is not None:
        table.add_row("accuracy, log-loss on the rows held out", scores(summary["held_out"]))
    table.add_row("seconds", f"{summary['seconds']:.1f}")
    table.add_row("written to", summary["out"])
    if summary["tuning"] is not None:
        table.add_row("penalties tried", summary["tuning"])
    if summary["suspicious"] is not None:
        found = summary["suspicious"]
        table.add_row("rows with suspicious labels", f"{found['rows']:,}, written to {found['file']}")
    return table
