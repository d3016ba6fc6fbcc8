"""Options of ``legendretron fit``; the text at the top of the last class is the help of the command."""

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
    data_argument,
    data_option,
    number_or_nan,
    option,
    output_option,
    parse_noise,
    stream_option,
)

#: A larger number is a typing error: memory or time would run out.
_MOST_UNITS, _MOST_EPOCHS = 10_000, 10**9

Backend = StrEnum("Backend", ["ray"])
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

    backend: Backend | None = _many(
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
        show_default=True,
        min=2,
        max=_MOST_UNITS,
    )
    stream: bool | None = stream_option()
    skip_bad_rows: int = data_option(
        "Rows with missing or infinite values, text where there should be a number, or a wrong number of fields, to leave "
        "out at most, where DATA is read in batches.",
        value=0,
        show_default=True,
        min=0,
    )
    model: Model = _model(
        "linear: scores are sums over features, and how they become probabilities is learned. network: small networks, "
        "where borders between classes bend; takes longer. auto: the better of the two on held-out rows. logistic: "
        "ordinary logistic regression.",
        value=Model.linear,
        show_default=True,
    )
    tuning: Path | None = output_option(
        "File for the penalties that were tried: a table (.csv, .tsv, .parquet) or a picture (.png, .svg, .pdf)."
    )
