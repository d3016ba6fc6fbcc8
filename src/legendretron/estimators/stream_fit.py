"""A fit of rows that are read in batches, pass by pass, in bounded memory."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import torch

from legendretron._internal.validation import check_device, check_integer
from legendretron.estimators.fixed_link import is_fixed
from legendretron.estimators.standardization import Standardizer
from legendretron.estimators.stream_data import StreamData, Taken, scan_with_class_weight
from legendretron.estimators.validation_split import ValidationSplitError
from legendretron.links import LabelNoise
from legendretron.streaming import Source, Summary
from legendretron.training import LinearModel, Sample, TrainingSettings, as_features
from legendretron.training.row_window import WindowBatches
from legendretron.training.streamed import train_streamed
from legendretron.tuning import Tuning

__all__ = [
    "MOST_HELD_OUT",
    "SAMPLE_ROWS",
    "check_streamable",
    "chosen_on",
    "fit_source",
    "sample_size",
    "stream_settings",
    "take_names",
    "units_of",
]

#: Rows that strengths are chosen on, and bytes of their features at most.
SAMPLE_ROWS = 100_000
_SAMPLE_BYTES = 2**28
#: Bytes of the features in the window in which rows are shuffled, and its rows at most; of sparse rows.
_WINDOW_BYTES, _WINDOW_ROWS, _SPARSE_ROWS = 2**26, 2**20, 2**16
#: Rows held out for early stopping at most: they are in memory.
MOST_HELD_OUT = 100_000


def fit_source(
    estimator: Any,
    source: Source,
    *,
    skip_bad_rows: int,
    buffer_rows: int | None,
    sample_rows: int,
) -> None:
    """Fit an estimator to a source; see :meth:`LinearLinkClassifier.fit_stream`."""
    check_streamable(estimator)
    skip_bad_rows = check_integer("skip_bad_rows", skip_bad_rows, 0)
    sample_rows = check_integer("sample_rows", sample_rows, 1)
    if buffer_rows is not None:
        buffer_rows = check_integer("buffer_rows", buffer_rows, 0)
    summary, factors = scan_with_class_weight(source, estimator.class_weight, skip_bad_rows)
    if summary.lost:
        classes = f"class{'es' if len(summary.lost) > 1 else ''} {', '.join(map(repr, summary.lost))}"
        warnings.warn(f"all rows of {classes} are bad and were left out.", stacklevel=4)
    if len(summary.classes) < 2:
        raise ValueError(
            f"fit_stream needs rows of at least 2 classes, but the source has only one: "
            f"{summary.classes.tolist()[0]!r}."
        )
    take_names(estimator, summary)
    dtype = summary.dtype if estimator.dtype is None else np.dtype(estimator.dtype)
    seed, strengths = estimator._seed(), estimator._strengths()
    share = min(estimator.validation_fraction, MOST_HELD_OUT / summary.n_rows) if estimator.early_stopping else 0.0
    data = StreamData(source, summary, factors, seed % 2**63, share, dtype)
    wanted = None
    if not strengths.fixed:
        wanted = sample_size(summary, sample_rows)
        if summary.n_rows <= wanted:  # all rows are in memory, and better fitted there
            whole, _ = replace(data, held_out=0.0).gather(summary.n_rows)
            assert whole is not None
            estimator._train(whole.X, summary.classes[whole.places], whole.weight, summary.classes, seed, resume=False)
            estimator.n_skipped_rows_, estimator.skipped_rows_ = summary.n_skipped, summary.skipped
            return
    sample, held = data.gather(wanted) if wanted is not None or share else (None, None)
    _train_streamed(estimator, data, seed, sample, held, buffer_rows)
    estimator.n_skipped_rows_, estimator.skipped_rows_ = summary.n_skipped, summary.skipped


def check_streamable(estimator: Any) -> None:
    """Raise a ``ValueError`` for parameters that need all rows in memory."""
    if estimator.solver == "lbfgs":
        raise ValueError(
            "solver='lbfgs' takes all rows at once, which a stream does not have; give 'auto' or 'adam', or call fit."
        )
    if is_fixed(getattr(estimator, "link", None)):
        raise ValueError(
            "a link that is kept fixed is trained with by a solver that takes all rows at once; call fit, on a sample "
            "of the rows."
        )
    if estimator.warm_start:
        raise ValueError("warm_start=True does not apply to fit_stream; leave it out, or go on with partial_fit.")
    if estimator.checkpoint is not None:
        raise ValueError(f"checkpoint={estimator.checkpoint!r} does not apply to fit_stream; leave it out.")
    if not (estimator.cv is None or isinstance(estimator.cv, Integral)):
        raise ValueError(
            f"cv must be None or a number of folds of the sample that strengths are chosen on, got {estimator.cv!r}: a "
            "splitter needs all rows."
        )


def sample_size(summary: Summary, sample_rows: int) -> int:
    """Rows that strengths are chosen on: so many, or fewer if their features would take too much memory."""
    return sample_rows if summary.sparse else min(sample_rows, max(1, _SAMPLE_BYTES // (8 * summary.n_features)))


def take_names(estimator: Any, summary: Summary) -> None:
    """Note the number of features, and their names if they have some."""
    estimator.n_features_in_ = summary.n_features
    estimator.__dict__.pop("feature_names_in_", None)
    if summary.feature_names is not None:
        estimator.feature_names_in_ = np.asarray(summary.feature_names, dtype=object)


def units_of(estimator: Any, summary: Summary) -> Standardizer:
    """Means and deviations that features are standardised by, if they are to be."""
    nothing = np.zeros(summary.n_features)
    if not estimator.standardize:
        return Standardizer(nothing, np.ones(summary.n_features))
    return Standardizer(nothing if summary.sparse else summary.mean, summary.scale)


def _train_streamed(
    estimator: Any,
    data: StreamData,
    seed: int,
    sample: Taken | None,
    held: Taken | None,
    buffer_rows: int | None,
) -> None:
    summary, device = data.summary, check_device(estimator.device)
    n_classes, dtype = len(summary.classes), torch.float32 if data.dtype == np.float32 else torch.float64
    generator = torch.Generator().manual_seed(seed)
    units = units_of(estimator, summary)
    start = estimator._fresh(units, n_classes, generator, dtype)
    before = generator.get_state()
    link = estimator._make_link(n_classes, generator, dtype, summary.n_rows)
    noise, found = estimator._noise_to_begin_with(n_classes, resume=False, online=False, tuned=sample is not None)
    tuning = None if sample is None else chosen_on(estimator, summary, sample, units, dtype, device, seed, noise)
    alpha, link_alpha = estimator._strengths().pair() if tuning is None else tuning.chosen
    plan = estimator._plan_of(link, (alpha, link_alpha), tuning, noise, found, dtype, anew=True)
    if plan.is_softmax:
        generator.set_state(before)
    model = LinearModel(
        start.weight.to(device, plan.precision).unsqueeze(0),
        start.bias.to(device, plan.precision).unsqueeze(0),
        [plan.link.to(plan.precision)],
    )
    n_held = 0 if held is None else len(held.places)
    n_rows = summary.n_rows - n_held
    validation = None if held is None else _validation(estimator, summary, held, units, plan.precision, device)
    settings = stream_settings(estimator, generator, n_rows, plan.strengths)
    precision = np.dtype(np.float32 if plan.precision == torch.float32 else np.float64)
    if buffer_rows is None:
        row_bytes = summary.n_features * precision.itemsize
        window = _SPARSE_ROWS if summary.sparse else min(_WINDOW_ROWS, max(1, _WINDOW_BYTES // row_bytes))
    else:
        window = buffer_rows
    shuffle = buffer_rows != 0
    batches = WindowBatches(
        # what fits into the window is shuffled there, as rows in memory are
        data.passes(units, precision, shuffle=shuffle and n_rows > window),
        n_rows=n_rows,
        n_features=summary.n_features,
        batch_size=settings.batch_size,
        window=window,
        generator=generator,
        shuffle=shuffle,
        endless=settings.max_steps is not None,
        sparse=summary.sparse,
        dtype=plan.precision,
        device=device,
    )
    observed = summary.class_weight[::-1] if n_classes == 2 else summary.class_weight
    class_weight = torch.as_tensor(observed / observed.sum())
    result = train_streamed(model, batches, settings, class_weight, n_rows, validation)
    estimator._keep(model, result, plan, summary.classes, observed, n_rows, start, data.dtype)
    estimator._tuning = tuning
    estimator._report(result, tuning is not None and tuning.interrupted)


def chosen_on(
    estimator: Any,
    summary: Summary,
    sample: Taken,
    units: Standardizer,
    dtype: torch.dtype,
    device: torch.device,
    seed: int,
    noise: LabelNoise | None,
) -> Tuning:
    """Strengths, and noise in the labels, chosen on the sample."""
    n_classes = len(summary.classes)
    missing = np.setdiff1d(np.arange(n_classes), sample.places)
    if len(missing):
        raise ValueError(
            f"the sample of {len(sample.places)} rows that strengths are chosen on has none of class "
            f"{summary.classes[missing].tolist()[0]!r}; raise sample_rows, or give alpha and link_alpha."
        )
    features = as_features(units.transform(sample.X), dtype, device)
    labels = 1 - sample.places if n_classes == 2 else sample.places
    y, rows = summary.classes[sample.places], np.arange(len(sample.places))
    weight = sample.weight / sample.weight.max()
    problem = estimator._problem(features, labels, weight, sample.X, y, rows, None, seed, noise, None)
    tuning: Tuning = estimator._choose(replace(problem, fit_whole=False), estimator._strengths())
    return tuning


def _validation(
    estimator: Any,
    summary: Summary,
    held: Taken,
    units: Standardizer,
    precision: torch.dtype,
    device: torch.device,
) -> Sample:
    """The rows held out, in memory."""
    n_held, n_classes = len(held.places), len(summary.classes)
    if not 0 < n_held < summary.n_rows:
        raise ValidationSplitError(
            f"early_stopping cannot hold out validation_fraction={estimator.validation_fraction} of {summary.n_rows} rows; "
            "raise validation_fraction, or set early_stopping=False."
        )
    labels = 1 - held.places if n_classes == 2 else held.places
    return Sample(
        as_features(units.transform(held.X), precision, device),
        torch.arange(n_held, device=device).unsqueeze(0),
        torch.as_tensor(labels, dtype=torch.int64, device=device).unsqueeze(0),
        torch.as_tensor(held.weight, dtype=precision, device=device).unsqueeze(0),
    )


def stream_settings(
    estimator: Any, generator: torch.Generator, n_rows: int, strengths: tuple[float, float]
) -> TrainingSettings:
    """How to train: as in memory, but with one pass over all rows at least."""
    settings: TrainingSettings = estimator._training_settings((), generator, n_rows, strengths, online=False)
    if settings.max_steps is None:
        return settings
    return replace(settings, max_steps=max(settings.max_steps, math.ceil(n_rows / settings.batch_size)))
