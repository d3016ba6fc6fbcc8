"""Options of the commands; the text at the top of a class is the help of its command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import typer

from legendretron.cli.options import (
    AUTO_NUMBER,
    REQUIRED,
    LabelledTableOptions,
    TableOptions,
    any_model_argument,
    argument,
    data_argument,
    data_option,
    keep_option,
    number_or_nan,
    option,
    output_option,
    parse_calibration_noise,
    parse_noise,
    stream_option,
)

#: A larger number is a typing error: memory or time would run out.
_MOST_UNITS, _MOST_EPOCHS = 10_000, 10**9

ClusterBackend = StrEnum("ClusterBackend", ["ray"])
Model = StrEnum("Model", ["linear", "network", "auto", "logistic"])
Solver = StrEnum("Solver", ["auto", "adam", "lbfgs"])
ClassWeight = StrEnum("ClassWeight", ["balanced"])
Precision = StrEnum("Precision", ["float32", "float64"])

_model, _training = partial(option, panel="Model"), partial(option, panel="Training")
_many = partial(option, panel="Many machines")


def _parse_epochs(text: str) -> str | int:
    """Parse ``auto`` or a whole number."""
    if text == "auto":
        return text
    if not (text.isdecimal() and 1 <= int(text) <= _MOST_EPOCHS):
        raise typer.BadParameter(f"it must be auto or a whole number from 1 to {_MOST_EPOCHS:,}, got {text!r}.")
    return int(text)


def _parse_share(text: str) -> float:
    """Parse a number between 0 and 1."""
    share = number_or_nan(text)
    if not 0 < share < 1:
        raise typer.BadParameter(f"it must be a number between 0 and 1, got {text!r}.")
    return share


@dataclass(kw_only=True)
class EstimatorOptions:
    """Parameters of the estimators, by their names there. What is not given, None, has the estimator's default."""

    link: str | None = _model(
        "Kind of link to learn: composite is flexible, canonical simpler and convex; or the name of a link from an "
        "installed package.",
        default="composite",
    )
    link_params: list[str] | None = _model(
        "Setting of the link, as NAME=VALUE; repeat it for several. composite: hidden=8 units (4 below 300 rows, 2 for "
        "two classes), depth=4 layers, n_blocks=2 networks; canonical: n_nests=4 softmaxes.",
        "--link-param",
    )
    alpha: Any = _model(
        "Penalty on the weights: larger is simpler. auto: several are tried on held-out rows.", **AUTO_NUMBER
    )
    link_alpha: Any = _model(
        "Penalty on the link. auto: several are tried on held-out rows, and no link is learned unless that is better.",
        **AUTO_NUMBER,
    )
    cv: int | None = _model(
        "Number of parts, each held out once, to choose penalties that are auto.",
        default="5; from 50,000 rows on, one fifth is held out once",
        min=2,
        max=_MOST_UNITS,
    )
    label_noise: Any = _model(
        "Wrong labels: the model learns from labels as they are, and predicts true ones. auto: tried on held-out rows, "
        "where penalties are. none: all are right. symmetric: some are wrong at random, how many is estimated. "
        "class-conditional: for each pair of classes; needs many rows. NUMBER: the share of wrong labels. FILE: a matrix "
        "(.csv, .tsv), a line for each true class with the probabilities of labels.",
        default="auto; none for logistic",
        metavar="KIND|NUMBER|FILE",
        parser=parse_noise,
    )
    standardize: bool | None = _model("Standardise the features.", "--standardize/--no-standardize", default="True")
    class_weight: ClassWeight | None = _training("balanced: rare classes count as much as frequent ones.")
    solver: Solver | None = _training(
        "adam: minibatches; lbfgs: all rows at once, for small data. auto: adam for a learned link, an exact solver for "
        "logistic regression.",
        default="auto",
    )
    max_epochs: Any = _training(
        "Maximum number of passes over the data. auto: by the number of rows, more passes for fewer rows.",
        "--epochs",
        default="auto",
        metavar="auto|N",
        parser=_parse_epochs,
    )
    learning_rate: Any = _training("Initial learning rate of adam. auto: 0.03.", **AUTO_NUMBER)
    batch_size: int | None = _training("Rows per step of adam.", default="auto", min=1, max=_MOST_EPOCHS)
    early_stopping: Any = _training(
        "Share of rows to hold out, such as 0.1: fitting stops when the log-loss on them no longer improves.",
        "--validation",
        metavar="SHARE",
        parser=_parse_share,
    )
    random_state: int | None = _training(
        "Random seed; the same seed gives the same model.", "--seed", min=0, max=2**32 - 1
    )
    device: str | None = _training("cpu, cuda, cuda:1, or auto.", default="cpu")
    dtype: Precision | None = _training("Precision; that of the data if not given.")
    checkpoint: Path | None = _training("File to resume from if the fit is stopped; needs --seed. Removed at the end.")


@dataclass(kw_only=True)
class ClusterOptions:
    """Options of a fit by several processes."""

    backend: ClusterBackend | None = _many(
        "ray: train one model by the workers of a Ray cluster. Processes that torchrun has started train together without "
        "this option: torchrun --nproc-per-node 2 -m legendretron fit ..."
    )
    workers: int | None = _many("Workers of Ray.", default="2", min=1, max=100_000)
    address: str | None = _many("Address of a Ray cluster, or auto. Without it, one is started on this machine.")
    storage: str | None = _many("Folder, or address such as s3://..., that all workers of Ray share, for checkpoints.")
    max_failures: int | None = _many("How often Ray goes on after the loss of a worker.", default="3", min=0, max=10**6)
    shards: int | None = _many(
        "Parts that the rows are divided into; the model depends on it, but not on the number of processes.",
        default="one for each process that reads rows of its own",
        min=1,
        max=10**6,
    )
    class_parallel: int | None = _many(
        "For very many classes: over how many processes they are divided. These read the same rows.",
        default="1",
        min=1,
        max=100_000,
    )
    checkpoint_steps: int | None = _many(
        "Steps between two checkpoints of several processes.", default="10 epochs", min=1
    )


@dataclass(kw_only=True)
class FitOptions(EstimatorOptions, ClusterOptions, LabelledTableOptions):
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

    data: Path = data_argument()
    out: Path = option("File for the model; an existing one is replaced.", "--out", "-o", value=REQUIRED)
    target: str | None = data_option(
        "Column to predict: whole numbers or text; or columns of shares of the classes, as a,b,c. LIBSVM needs none.",
        "--target",
        "-t",
    )
    features: list[str] | None = data_option(
        "Column to predict from; repeat it for several. All but the target if not given."
    )
    drop: list[str] | None = data_option("Column to leave out; repeat it for several.")
    categorical: list[str] | None = data_option(
        "Column whose values are categories although they look like numbers or dates, or are nearly all different; repeat "
        "it for several. Other text is categories anyway."
    )
    numeric: list[str] | None = data_option(
        "Column of numbers although they are written with leading zeros, such as 007; repeat it for several. Others of "
        "that kind in text files are categories."
    )
    max_categories: int = data_option(
        "Most categories of a column: the most frequent, and one for all others together.",
        value=32,
        min=2,
        max=_MOST_UNITS,
    )
    stream: bool | None = stream_option()
    skip_bad_rows: int = data_option(
        "Rows with missing or infinite values, text where there should be a number, or a wrong number of fields, to leave "
        "out at most, where DATA is read in batches.",
        value=0,
        min=0,
    )
    model: Model = _model(
        "linear: scores are sums over features, and how they become probabilities is learned. network: small networks, "
        "where borders between classes bend; takes longer. auto: the better of the two on held-out rows. logistic: "
        "ordinary logistic regression.",
        value=Model.linear,
    )
    tuning: Path | None = output_option(
        "File for the penalties that were tried: a table (.csv, .tsv, .parquet) or a picture (.png, .svg, .pdf)."
    )


Order = StrEnum("Order", ["any", "preserved"])
Input = StrEnum("Input", ["auto", "proba", "logits"])
Backend = StrEnum("Backend", ["loky", "ray"])
#: What can be reproduced, in the order of the paper; ``legendretron.paper.EXPERIMENTS``.
TABLES = ("table_auc", "figure_training_size", "table_vgg", "table_libsvm", "figure_proper_losses", "runtime")
#: Rows whose labels are right with a smaller probability are suspicious.
THRESHOLD = 0.5

_calibration = partial(option, panel="Calibration")
_what, _how = partial(option, panel="What to run"), partial(option, panel="How to run it")


@dataclass(kw_only=True)
class PredictOptions(TableOptions):
    """Predict the class of each row of a table, in its order.

    The columns the model was fitted on are found by their names, wherever they are in the table; others are ignored.
    If predictions of another model were calibrated, these are the columns of its predictions.

    Probabilities are those of the true classes, also if some labels of the fit were wrong: see fit --label-noise.

    --sets 0.9 adds sets of classes among which the true one is in nine of ten rows.
    """

    model: Path = any_model_argument()
    data: Path = data_argument()
    out: Path | None = option(
        "File for the predictions: .csv, .tsv or .parquet, or -.", "--out", "-o", show_default="print as CSV"
    )
    proba: bool = option("Add a column p(class) for every class.", "--proba", value=False)
    sets: float | None = option(
        "Add a column set(class) for every class: is it in the set that holds the true class so often?", "--sets"
    )
    keep: list[str] | None = keep_option()
    stream: bool | None = stream_option()


@dataclass(kw_only=True)
class EvaluateOptions(LabelledTableOptions):
    """Score a model on rows whose classes are known, preferably rows that it was not fitted on.

    The model is compared with a baseline that ignores the features: it predicts the class frequencies of this table for
    every row. A model that is no better has learned nothing.
    """

    model: Path = any_model_argument()
    data: Path = data_argument()
    target: str | None = data_option("Column of the true classes. LIBSVM text needs none.", "--target", "-t")
    plot: Path | None = option("File for a picture (.png, .svg or .pdf) of predicted against observed frequencies.")
    report: Path | None = option("Write a one-page HTML evaluation report to this file (.html).", "--report")
    against: Path | None = option("Another model, to put beside this one.", readable=False)
    weight: str | None = data_option("Column of the weights of rows.")
    stream: bool | None = stream_option()


@dataclass(kw_only=True)
class CalibrateOptions(LabelledTableOptions):
    """Calibrate the probabilities of a finished model, on rows that it was not fitted on; a few hundred or more.

    With MODEL and DATA, the file written holds the model and its calibration. With PREDICTIONS it holds the calibration
    alone, and takes columns of the same names. 'legendretron predict' and 'legendretron evaluate' take both.

    The summary tells the scores before and after on held-out rows: each part of the rows is scored by a calibration that was
    fitted to the others. The file holds one that was fitted to all rows.
    """

    model: Path = argument(
        "MODEL|PREDICTIONS",
        "A file that 'legendretron fit' wrote; or, without DATA, a table of predictions of any other model (CSV, TSV or "
        "Parquet): a column of probabilities or logits for each class, named as the class or p(class), and one of labels.",
    )
    out: Path = option("File for the calibrated model; an existing one is replaced.", "--out", "-o", value=REQUIRED)
    data: Path | None = argument(
        "DATA", "With MODEL: a table of rows that it was not fitted on, with its features and labels.", None
    )
    features: list[str] | None = data_option(
        "Column of PREDICTIONS for a class; repeat it for several. All that are named p(class) if not given, or else all "
        "but the target."
    )
    drop: list[str] | None = data_option("Column of PREDICTIONS to leave out; repeat it for several.")
    input: Input | None = data_option(
        "What PREDICTIONS hold. auto: probabilities if no number is negative and all rows sum to 1, else logits.",
        default="auto",
    )
    order: Order = _calibration(
        "any: the most accurate. preserved: the ranking of classes in a row, and so the prediction, never changes.",
        value=Order.any,
    )
    strength: Any = _calibration(
        "Penalty on all that is learned besides a temperature: larger is simpler. auto: several are tried on held-out "
        "rows, and averaged. inf: only what all classes share.",
        value="auto",
        **AUTO_NUMBER,
    )
    label_noise: Any = _calibration(
        "Wrong labels: the model learns from labels as they are, and predicts true ones. symmetric: some are wrong at "
        "random, how many is estimated. NUMBER: the share of wrong labels.",
        default="none",
        metavar="none|symmetric|NUMBER",
        parser=parse_calibration_noise,
    )
    cv: int = _calibration(
        "Number of parts, each held out once, to choose strengths, and to tell what calibration gains.",
        value=5,
        min=2,
        max=1000,
    )
    plot: Path | None = output_option(
        "File for a picture (.png, .svg or .pdf) of predicted against observed frequencies, before and after, on held-out "
        "rows."
    )


@dataclass(kw_only=True)
class SuspiciousOptions(LabelledTableOptions):
    """List the rows of a table whose labels are probably wrong, the most suspicious first.

    Columns: line, that of a text file; row_from_0, the number of the row of data, counted from 0; label, as it is;
    suggested, the most probable class given features and label; quality, the probability that the label is right.

    How many labels are wrong is taken from the model: see fit --label-noise. If it knows of none, one row is taken to be
    wrong, so that rows are still in order.
    """

    model: Path = argument("MODEL", "A file that 'legendretron fit' wrote.")
    data: Path = data_argument()
    out: Path | None = option(
        "File for the rows: .csv, .tsv or .parquet, or -.", "--out", "-o", show_default="print as CSV"
    )
    threshold: float = option(
        "Rows whose label is right with a smaller probability are listed.", value=THRESHOLD, min=0.0, max=1.0
    )
    refit: bool = option(
        "Judge each fifth of the rows by a model fitted to the others, which has not seen it; needed for the rows that "
        "MODEL was fitted to. Or judge all rows by MODEL itself.",
        "--refit/--no-refit",
        value=True,
    )
    plot: Path | None = option("File for a picture (.png, .svg or .pdf) of the rows, the most doubtful first.")
    keep: list[str] | None = keep_option()


@dataclass(kw_only=True)
class DemoOptions:
    """Compare LegendreTron with logistic regression, and networks with boosting: where they help, and where they do not.

    Takes a minute on two cores, and needs no data of your own. Draws how far the probabilities can be trusted, and the
    penalties that were tried.
    """

    out: Path = option("Folder for the two pictures.", "--out", "-o", value=Path("demo_output"))


@dataclass(kw_only=True)
class ReproduceOptions:
    """Run the paper's tables and figures, and compare them with the published numbers.

    Results are saved as soon as they are known: a sweep that was stopped or killed resumes when the same command is run
    again. Tables (Markdown, CSV) and pictures are written next to the results.
    """

    table: str = argument("[TABLE]", f"One of {', '.join(TABLES)}; or all.", "all", show_default=True)
    data: Path | None = _what("Folder with data sets; if not given, they are downloaded. See 'legendretron datasets'.")
    datasets: str | None = _what("Only these data sets, comma-separated.")
    models: list[str] | None = _what("Only this model; repeat it for several.", "--model")
    seeds: int | None = _what("Repetitions, with seeds from 0.", min=1, max=10_000)
    noise: str | None = _what("Shares of training labels to flip, comma-separated: 0,0.2,0.5.")
    sizes: str | None = _what("Numbers of training rows, comma-separated.")
    epochs: int | None = _what("Number of epochs: a trial, not the paper's recipe.", min=1)
    device: str = _how("Where to train: cpu, cuda, cuda:1, or auto.", value="cpu")
    backend: Backend = _how("Processes on this machine (loky), or a Ray cluster (ray).", value=Backend.loky)
    jobs: int = _how("Batches to run at once; -1 for one per processor.", "--jobs", "-j", value=1, min=-1)
    address: str | None = _how("Address of the cluster; if not given, one is started here.")
    batch: int | None = _how("Most runs to train side by side; all that fit if not given.", min=1)
    render_only: bool = _how("Run nothing; only render existing results.", "--render-only", value=False)
    out: Path = _how("Folder for results. Existing results are not run again.", "--out", "-o", value=Path("results"))


@dataclass(kw_only=True)
class DatasetsOptions:
    """List the paper's data sets: which are available, which are missing, and how to get them.

    Nothing is read or downloaded. 'legendretron reproduce' downloads what it needs unless a folder is given.
    """

    name: str | None = argument("[NAME]", "Show the details of this data set.", None)
    data: Path | None = option("Folder to look in; the cache folder if not given.")
