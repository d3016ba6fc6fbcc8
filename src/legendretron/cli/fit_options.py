"""Options of ``legendretron fit``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from legendretron.cli.label_noise import parse_noise
from legendretron.cli.options import DataFile, LabelledTableOptions, StreamOption, option, parse_number

#: A larger number is a typing error: memory or time would run out.
_MOST_UNITS, _MOST_EPOCHS = 10_000, 10**9
Backend = StrEnum("Backend", ["ray"])
_MANY = "Many machines"

Model = StrEnum("Model", ["linear", "network", "auto", "logistic"])
Solver = StrEnum("Solver", ["auto", "adam", "lbfgs"])
ClassWeight = StrEnum("ClassWeight", ["balanced"])
Precision = StrEnum("Precision", ["float32", "float64"])


def _parse_epochs(text: str) -> str | int:
    """Parse ``auto`` or a whole number."""
    if text == "auto":
        return text
    if not (text.isdecimal() and 1 <= int(text) <= _MOST_EPOCHS):
        raise typer.BadParameter(f"it must be auto or a whole number from 1 to {_MOST_EPOCHS:,}, got {text!r}.")
    return int(text)


def _parse_share(text: str) -> float:
    """Parse a number between 0 and 1."""
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise typer.BadParameter(f"it must be a number between 0 and 1, got {text!r}.")
    return share


@dataclass(kw_only=True)
class EstimatorOptions:
    """Parameters of the estimators, by their names there. What is not given, None, has the estimator's default."""

    link: Annotated[
        str | None,
        option(
            "Kind of link to learn: composite is flexible, canonical simpler and convex; or the name of a link from an "
            "installed package.",
            panel="Model",
            default="composite",
        ),
    ] = None
    link_params: Annotated[
        list[str] | None,
        option(
            "Setting of the link, as NAME=VALUE; repeat it for several. composite: hidden=8 units (4 below 300 rows, 2 for "
            "two classes), depth=4 layers, n_blocks=2 networks; canonical: n_nests=4 softmaxes.",
            "--link-param",
            panel="Model",
        ),
    ] = None
    alpha: Annotated[
        Any,
        option(
            "Penalty on the weights: larger is simpler. auto: several are tried on held-out rows.",
            panel="Model",
            default="auto",
            metavar="auto|NUMBER",
            parser=parse_number,
        ),
    ] = None
    link_alpha: Annotated[
        Any,
        option(
            "Penalty on the link. auto: several are tried on held-out rows, and no link is learned unless that is better.",
            panel="Model",
            default="auto",
            metavar="auto|NUMBER",
            parser=parse_number,
        ),
    ] = None
    cv: Annotated[
        int | None,
        option(
            "Number of parts, each held out once, to choose penalties that are auto.",
            panel="Model",
            default="5; from 50,000 rows on, one fifth is held out once",
            min=2,
            max=_MOST_UNITS,
        ),
    ] = None
    label_noise: Annotated[
        Any,
        option(
            "Wrong labels: the model learns from labels as they are, and predicts true ones. auto: tried on held-out rows, "
            "where penalties are. none: all are right. symmetric: some are wrong at random, how many is estimated. "
            "class-conditional: for each pair of classes; needs many rows. NUMBER: the share of wrong labels. FILE: a matrix "
            "(.csv, .tsv), a line for each true class with the probabilities of labels.",
            panel="Model",
            default="auto; none for logistic",
            metavar="KIND|NUMBER|FILE",
            parser=parse_noise,
        ),
    ] = None
    standardize: Annotated[
        bool | None,
        option("Standardise the features.", "--standardize/--no-standardize", panel="Model", default="True"),
    ] = None
    class_weight: Annotated[
        ClassWeight | None, option("balanced: rare classes count as much as frequent ones.", panel="Training")
    ] = None
    solver: Annotated[
        Solver | None,
        option(
            "adam: minibatches; lbfgs: all rows at once, for small data. auto: adam for a learned link, an exact solver for "
            "logistic regression.",
            panel="Training",
            default="auto",
        ),
    ] = None
    max_epochs: Annotated[
        Any,
        option(
            "Maximum number of passes over the data. auto: by the number of rows, more passes for fewer rows.",
            "--epochs",
            panel="Training",
            default="auto",
            metavar="auto|N",
            parser=_parse_epochs,
        ),
    ] = None
    learning_rate: Annotated[
        Any,
        option(
            "Initial learning rate of adam. auto: 0.03.",
            panel="Training",
            default="auto",
            metavar="auto|NUMBER",
            parser=parse_number,
        ),
    ] = None
    batch_size: Annotated[
        int | None, option("Rows per step of adam.", panel="Training", default="auto", min=1, max=_MOST_EPOCHS)
    ] = None
    early_stopping: Annotated[
        Any,
        option(
            "Share of rows to hold out, such as 0.1: fitting stops when the log-loss on them no longer improves.",
            "--validation",
            panel="Training",
            metavar="SHARE",
            parser=_parse_share,
        ),
    ] = None
    random_state: Annotated[
        int | None,
        option(
            "Random seed; the same seed gives the same model.", "--seed", panel="Training", min=0, max=2**32 - 1
        ),  # as numpy accepts it
    ] = None
    device: Annotated[str | None, option("cpu, cuda, cuda:1, or auto.", panel="Training", default="cpu")] = None
    dtype: Annotated[Precision | None, option("Precision; that of the data if not given.", panel="Training")] = None
    checkpoint: Annotated[
        Path | None,
        option("File to resume from if the fit is stopped; needs --seed. Removed at the end.", panel="Training"),
    ] = None


@dataclass(kw_only=True)
class ClusterOptions:
    """Options of a fit by several processes."""

    backend: Annotated[
        Backend | None,
        option(
            "ray: train one model by the workers of a Ray cluster. Processes that torchrun has started train together "
            "without this option: torchrun --nproc-per-node 2 -m legendretron fit ...",
            panel=_MANY,
        ),
    ] = None
    workers: Annotated[int | None, option("Workers of Ray.", panel=_MANY, default="2", min=1, max=100_000)] = None
    address: Annotated[
        str | None,
        option("Address of a Ray cluster, or auto. Without it, one is started on this machine.", panel=_MANY),
    ] = None
    storage: Annotated[
        str | None,
        option("Folder, or address such as s3://..., that all workers of Ray share, for checkpoints.", panel=_MANY),
    ] = None
    max_failures: Annotated[
        int | None,
        option("How often Ray goes on after the loss of a worker.", panel=_MANY, default="3", min=0, max=10**6),
    ] = None
    shards: Annotated[
        int | None,
        option(
            "Parts that the rows are divided into; the model depends on it, but not on the number of processes.",
            panel=_MANY,
            default="one for each process that reads rows of its own",
            min=1,
            max=10**6,
        ),
    ] = None
    class_parallel: Annotated[
        int | None,
        option(
            "For very many classes: over how many processes they are divided. These read the same rows.",
            panel=_MANY,
            default="1",
            min=1,
            max=100_000,
        ),
    ] = None
    checkpoint_steps: Annotated[
        int | None,
        option("Steps between two checkpoints of several processes.", panel=_MANY, default="10 epochs", min=1),
    ] = None


@dataclass(kw_only=True)
class FitOptions(EstimatorOptions, ClusterOptions, LabelledTableOptions):
    """Options of ``fit``."""

    data: DataFile
    out: Annotated[Path, option("File for the model; an existing one is replaced.", "--out", "-o")]
    target: Annotated[
        str | None,
        option(
            "Column to predict: whole numbers or text; or columns of shares of the classes, as a,b,c. LIBSVM needs none.",
            "--target",
            "-t",
            panel="Data",
        ),
    ] = None
    features: Annotated[
        list[str] | None,
        option("Column to predict from; repeat it for several. All but the target if not given.", panel="Data"),
    ] = None
    drop: Annotated[list[str] | None, option("Column to leave out; repeat it for several.", panel="Data")] = None
    categorical: Annotated[
        list[str] | None,
        option(
            "Column whose values are categories although they look like numbers or dates, or are nearly all different; "
            "repeat it for several. Other text is categories anyway.",
            panel="Data",
        ),
    ] = None
    numeric: Annotated[
        list[str] | None,
        option(
            "Column of numbers although they are written with leading zeros, such as 007; repeat it for several. Others of "
            "that kind in text files are categories.",
            panel="Data",
        ),
    ] = None
    max_categories: Annotated[
        int,
        option(
            "Most categories of a column: the most frequent, and one for all others together.",
            panel="Data",
            show_default=True,
            min=2,
            max=_MOST_UNITS,
        ),
    ] = 32
    stream: StreamOption = None
    skip_bad_rows: Annotated[
        int,
        option(
            "Rows with missing or infinite values, text where there should be a number, or a wrong number of fields, to "
            "leave out at most, where DATA is read in batches.",
            panel="Data",
            show_default=True,
            min=0,
        ),
    ] = 0
    model: Annotated[
        Model,
        option(
            "linear: scores are sums over features, and how they become probabilities is learned. network: small networks, "
            "where borders between classes bend; takes longer. auto: the better of the two on held-out rows. logistic: "
            "ordinary logistic regression.",
            panel="Model",
            show_default=True,
        ),
    ] = Model.linear
    tuning: Annotated[
        Path | None,
        option(
            "File for the penalties that were tried: a table (.csv, .tsv, .parquet) or a picture (.png, .svg, .pdf).",
            panel="Output",
        ),
    ] = None
