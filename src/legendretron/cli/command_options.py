"""Options of the commands; the text at the top of a class is the help of its command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from legendretron.cli.options import (
    AUTO_NUMBER,
    REQUIRED,
    LabeledTableOptions,
    TableOptions,
    any_model_argument,
    argument,
    data_argument,
    data_option,
    keep_option,
    number_or_text,
    option,
    output_option,
    stream_option,
)

#: A larger number is a typing error: memory or time would run out.
_MOST_UNITS, _MOST_EPOCHS = 10_000, 10**9

Model = StrEnum("Model", ["linear", "network", "auto", "logistic"])
Solver = StrEnum("Solver", ["auto", "adam", "lbfgs"])
ClassWeight = StrEnum("ClassWeight", ["balanced"])
Precision = StrEnum("Precision", ["float32", "float64"])

_model, _training = partial(option, panel="Model"), partial(option, panel="Training")


@dataclass(kw_only=True)
class EstimatorOptions:
    """Parameters of the estimators, by their names there. What is not given, None, has the estimator's default."""

    link: str | None = _model(
        "Kind of link to learn: composite is flexible, canonical simpler and convex; or the name of a link from an "
        "installed package.",
        default="composite",
    )
    link_params: list[str] | None = _model(
        "Setting of the link, as NAME=VALUE; repeat for several. composite: hidden=8 units (4 below 300 rows, 2 for "
        "two classes), depth=4 layers, n_blocks=2 networks; canonical: n_nests=4 softmaxes.",
        "--link-param",
    )
    alpha: Any = _model(
        "Penalty on the weights: larger is simpler. auto: several are tried on held-out rows.", **AUTO_NUMBER
    )
    link_alpha: Any = _model(
        "Penalty on the link. auto: several are tried on held-out rows; a link is learned only if it is clearly better.",
        **AUTO_NUMBER,
    )
    cv: int | None = _model(
        "Number of folds used to choose penalties that are auto.",
        default="5; from 50,000 rows on, one fifth is held out once",
        min=2,
        max=_MOST_UNITS,
    )
    label_noise: Any = _model(
        "Wrong labels. auto: predict labels as they are recorded, with a floor under all probabilities if that predicts "
        "held-out rows better. none: no floor. The others say that labels are wrong, and predict true ones. symmetric: "
        "estimate one rate. class-conditional: a rate for each pair of classes; needs many rows. NUMBER: the known share of "
        "wrong labels. FILE: a known matrix (.csv, .tsv): a row for each true class with the probabilities of its labels, "
        "and the names of the classes in the first row and the first column.",
        default="auto; none for logistic",
        metavar="KIND|NUMBER|FILE",
        parser=number_or_text,
    )
    standardize: bool | None = _model("Standardize the features.", "--standardize/--no-standardize", default="True")
    class_weight: ClassWeight | None = _training("balanced: rare classes count as much as frequent ones.")
    solver: Solver | None = _training(
        "adam: minibatches; lbfgs: all rows at once, for small data. auto: adam for a learned link, an exact solver for "
        "logistic regression.",
        default="auto",
    )
    max_epochs: Any = _training(
        "Maximum number of passes over the data. auto: depends on the number of rows, more passes for fewer rows.",
        "--epochs",
        default="auto",
        metavar="auto|N",
        parser=number_or_text,
    )
    learning_rate: Any = _training("Initial learning rate of adam. auto: 0.03.", **AUTO_NUMBER)
    batch_size: int | None = _training("Rows per step of adam.", default="auto", min=1, max=_MOST_EPOCHS)
    early_stopping: Any = _training(
        "Share of rows to hold out, such as 0.1: training stops when the log-loss on these rows no longer improves.",
        "--validation",
        metavar="SHARE",
        parser=number_or_text,
    )
    random_state: int | None = _training(
        "Random seed; the same seed gives the same model.", "--seed", min=0, max=2**32 - 1
    )
    device: str | None = _training("cpu, cuda, cuda:1, or auto.", default="cpu")
    dtype: Precision | None = _training("Precision; by default that of the data.")
    checkpoint: Path | None = _training("File to resume from if the fit is stopped; needs --seed. Removed at the end.")


@dataclass(kw_only=True)
class FitOptions(EstimatorOptions, LabeledTableOptions):
    """Fit a model to a table and write it to a file.

    By default, penalties are chosen on held-out rows, and logistic regression is kept unless a learned link is clearly
    better. The command also checks whether some labels look wrong or random. The summary says what was chosen and found.

    Columns may contain numbers, text, dates (such as 2024-05-31, 31.05.2024 or 05/31/2024) or true and false, with missing
    values. The summary says how each column was encoded, and the model file stores it. Numbers with leading zeros, such as
    postal codes, and very long ones are categories: see --numeric. Model files are safe to share: loading them runs no code.

    Tables larger than memory are read in batches: see --stream. Penalties are then chosen on a sample of the rows, and
    missing values are only filled in if some columns are text.

    Ctrl-C ends the command with exit code 130 and writes no model; with --checkpoint, the same command resumes.
    """

    data: Path = data_argument()
    out: Path = option("File for the model; an existing one is replaced.", "--out", "-o", value=REQUIRED)
    target: str | None = data_option(
        "Column to predict, whole numbers or text; or a column for each class with its probability, as a,b,c. Not needed "
        "for LIBSVM.",
        "--target",
        "-t",
    )
    features: list[str] | None = data_option(
        "Column to use as a feature; repeat for several. By default all but the target."
    )
    drop: list[str] | None = data_option("Column to leave out; repeat for several.")
    categorical: list[str] | None = data_option(
        "Column to treat as categories although its values look like numbers or dates, or are nearly all different; repeat "
        "for several. Other text is treated as categories anyway."
    )
    numeric: list[str] | None = data_option(
        "Column to treat as numbers although they are written with leading zeros, such as 007, or are too long to be told "
        "apart in double precision; repeat for several. By default, these are categories."
    )
    max_categories: int = data_option(
        "Maximum number of categories of a column: the most frequent ones, and one for all others.",
        value=32,
        min=2,
        max=_MOST_UNITS,
    )
    stream: bool | None = stream_option()
    skip_bad_rows: int = data_option(
        "Maximum number of bad rows to leave out of a table that is read in batches (see --stream): rows with missing or "
        "infinite values, text in place of a number, or too many fields.",
        value=0,
        min=0,
    )
    model: Model = _model(
        "linear: scores are weighted sums of the features, and how they turn into probabilities is learned. network: small "
        "neural networks, often more accurate, but slower. auto: the better of the two on held-out rows. logistic: "
        "logistic regression.",
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
    """Predict the class of each row of a table.

    The columns that the model was fitted to are found by name, in any order; other columns are ignored. A model that
    calibrates the predictions of another one needs the columns of these predictions.

    Probabilities are those of labels recorded like the training labels, or of true ones: see fit --label-noise.

    --sets 0.9 adds sets of classes that contain the label in 90 % of the rows.

    With --missing drop-rows, a column row_from_0 has the number of each row in DATA, counted from 0.
    """

    model: Path = any_model_argument()
    data: Path = data_argument()
    out: Path | None = option(
        "File for the predictions: .csv, .tsv or .parquet, or -.", "--out", "-o", show_default="print as CSV"
    )
    proba: bool = option("Add a column p(class) for every class.", "--proba", value=False)
    sets: float | None = option(
        "Add a column set(class) for every class: whether it is in a set that contains the label with this "
        "probability.",
        "--sets",
    )
    keep: list[str] | None = keep_option()
    stream: bool | None = stream_option()


@dataclass(kw_only=True)
class EvaluateOptions(LabeledTableOptions):
    """Score a model on rows whose classes are known; these should not be rows that it was fitted to.

    The model is compared with a baseline that ignores the features and predicts the class frequencies of this table for
    every row. A model that is no better than the baseline has learned nothing.
    """

    model: Path = any_model_argument()
    data: Path = data_argument()
    target: str | None = data_option("Column of the true classes. LIBSVM text needs none.", "--target", "-t")
    plot: Path | None = option("File for a picture (.png, .svg or .pdf) of predicted against observed frequencies.")
    report: Path | None = option("Write a one-page HTML evaluation report to this file (.html).", "--report")
    against: Path | None = option("Another model to compare with.", readable=False)
    weight: str | None = data_option("Column of sample weights.")
    stream: bool | None = stream_option()


@dataclass(kw_only=True)
class CalibrateOptions(LabeledTableOptions):
    """Calibrate the probabilities of a fitted model, on a few hundred or more rows that it was not fitted to.

    With MODEL and DATA, the output file contains the model and its calibration. With PREDICTIONS, it contains the calibration
    only, and is applied to columns with the same names. 'legendretron predict' and 'legendretron evaluate' accept both.

    The summary shows cross-validated scores before and after calibration. The output file contains a calibration that was
    fitted to all rows.
    """

    model: Path = argument(
        "MODEL|PREDICTIONS",
        "A model from 'legendretron fit'; or, without DATA, a table of predictions of any other model (CSV, TSV or "
        "Parquet): a column of probabilities or logits for each class, named after the class or p(class), and a column of "
        "labels.",
    )
    out: Path = option("File for the calibrated model; an existing one is replaced.", "--out", "-o", value=REQUIRED)
    data: Path | None = argument(
        "DATA", "With MODEL: a table of rows that it was not fitted to, with features and labels.", None
    )
    features: list[str] | None = data_option(
        "Column of PREDICTIONS for a class; repeat for several. By default all columns named p(class), or else all but the "
        "target."
    )
    drop: list[str] | None = data_option("Column of PREDICTIONS to leave out; repeat for several.")
    input: Input | None = data_option(
        "Kind of PREDICTIONS. auto: probabilities if no number is negative and all rows sum to 1, else logits.",
        default="auto",
    )
    order: Order = _calibration(
        "any: the most accurate. preserved: the ranking of the classes in a row, and so the prediction, never changes.",
        value=Order.any,
    )
    strength: Any = _calibration(
        "Penalty on everything but the temperature: larger is simpler. auto: several are tried on held-out rows, and "
        "averaged. inf: fit only what all classes share.",
        value="auto",
        **AUTO_NUMBER,
    )
    label_noise: Any = _calibration(
        "Wrong labels: the model learns from the observed labels and predicts the true ones. symmetric: estimate one rate. "
        "NUMBER: the known share of wrong labels.",
        default="none",
        metavar="none|symmetric|NUMBER",
        parser=number_or_text,
    )
    cv: int = _calibration(
        "Number of folds used to choose the penalty and to measure the gain.",
        value=5,
        min=2,
        max=1000,
    )
    plot: Path | None = output_option(
        "File for a picture (.png, .svg or .pdf) of predicted against observed frequencies, before and after, on held-out "
        "rows."
    )


@dataclass(kw_only=True)
class SuspiciousOptions(LabeledTableOptions):
    """List the rows of a table whose labels are probably wrong, the most suspicious first.

    Columns of the result: line, the line of a text file; row_from_0, the number of the row, counted from 0; label, the
    observed label; suggested, the most probable class given features and label; quality, the probability that the label is
    correct.

    The share of wrong labels is taken from the model: see fit --label-noise. If it is zero, one label is assumed to be
    wrong, so that rows can still be ranked.
    """

    model: Path = argument("MODEL", "A model from 'legendretron fit'.")
    data: Path = data_argument()
    out: Path | None = option(
        "File for the rows: .csv, .tsv or .parquet, or -.", "--out", "-o", show_default="print as CSV"
    )
    threshold: float = option(
        "List rows whose label is correct with a probability below this.", value=THRESHOLD, min=0.0, max=1.0
    )
    refit: bool = option(
        "Judge each fifth of the rows by a model that is fitted to the others; needed for rows that MODEL was fitted to. "
        "With --no-refit, MODEL itself judges all rows.",
        "--refit/--no-refit",
        value=True,
    )
    plot: Path | None = option("File for a picture (.png, .svg or .pdf) of the rows, the most doubtful first.")
    keep: list[str] | None = keep_option()


@dataclass(kw_only=True)
class DemoOptions:
    """Compare LegendreTron with logistic regression, and networks with gradient boosting, on two data sets.

    On one of them a learned link and networks help, on the other they do not. The demo takes about half a minute, and as
    long again to compile code the first time. It writes two pictures: reliability curves, and the penalties that were tried.
    """

    out: Path = option("Folder for the two pictures.", "--out", "-o", value=Path("demo_output"))


@dataclass(kw_only=True)
class ReproduceOptions:
    """Run the paper's tables and figures, and compare them with the published numbers.

    Results are saved as they are computed: a sweep that was interrupted resumes when the same command is run again. Tables
    (Markdown, CSV) and pictures are written next to the results.
    """

    table: str = argument("[TABLE]", f"One of {', '.join(TABLES)}; or all.", "all", show_default=True)
    data: Path | None = _what("Folder with data sets; if not given, they are downloaded.")
    datasets: str | None = _what("Only these data sets, comma-separated.")
    models: list[str] | None = _what("Only this model; repeat for several.", "--model")
    seeds: int | None = _what("Repetitions, with seeds from 0.", min=1, max=10_000)
    noise: str | None = _what("Shares of training labels to flip, comma-separated: 0,0.2,0.5.")
    sizes: str | None = _what("Numbers of training rows, comma-separated.")
    epochs: int | None = _what("Number of epochs: a trial, not the paper's recipe.", min=1)
    device: str = _how("Where to train: cpu, cuda, cuda:1, or auto.", value="cpu")
    backend: Backend = _how("Processes on this machine (loky), or a Ray cluster (ray).", value=Backend.loky)
    jobs: int = _how("Batches to run at once; -1 for one per processor.", "--jobs", "-j", value=1, min=-1)
    address: str | None = _how("Address of the cluster; by default, one is started on this machine.")
    batch: int | None = _how("Maximum number of runs to train side by side; by default as many as fit.", min=1)
    render_only: bool = _how("Run nothing; only render existing results.", "--render-only", value=False)
    out: Path = _how("Folder for results. Existing results are not run again.", "--out", "-o", value=Path("results"))
