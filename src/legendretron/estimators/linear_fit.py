"""A fit of rows in memory: choice of penalties, training, and what is kept of it; its steps also make up other fits."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from sklearn.exceptions import ConvergenceWarning

from legendretron._internal.parameters import spell
from legendretron._internal.start import init_linear
from legendretron._internal.validation import check_device
from legendretron.estimators.baseline import fit_baseline, plain_alpha
from legendretron.estimators.convex import check_fixed_fit, fit_convex, fixed_link, has_convex_solver
from legendretron.estimators.fit_data import FitData, validation_split
from legendretron.estimators.label_noise import is_learned, make_learned_noise, read_label_noise
from legendretron.estimators.resuming import ChosenStrengths, fingerprint
from legendretron.estimators.settings import (
    MOST_ITERATIONS,
    checkpoint_path,
    choose,
    held_out_share,
    make_problem,
    training_settings,
    uses_convex_solver,
)
from legendretron.estimators.standardization import Standardized, Standardizer
from legendretron.links import LabelNoise, Link, NoisyLink, SoftmaxLink, clean_link, with_noise
from legendretron.preprocessing.drift import UsualRanges
from legendretron.training import LinearModel, Sample, TrainingResult, TrainingSettings, as_features, train
from legendretron.training.features import Features
from legendretron.tuning.noise import FoundNoise
from legendretron.tuning.table import Tuning

#: Strength of the penalties in ``partial_fit``, which has no held-out rows to choose it on.
_ONLINE_ALPHA = 1e-4
#: Most iterations for a fixed link, where the gradient must certify the minimum.
_FIXED_ITERATIONS = 10_000


class Plan(NamedTuple):
    """What is trained, once the penalties are known."""

    link: Link  #: its start, with the noise
    strengths: tuple[float, float]  #: on ``W`` and on the link, infinite for logistic regression
    noise: LabelNoise | None  #: in the labels, as assumed in training
    found: FoundNoise | None  #: what is known of it; None if it was given, or is learned
    precision: torch.dtype

    @property
    def is_softmax(self) -> bool:
        """Whether the link, without noise, is softmax."""
        return isinstance(clean_link(self.link), SoftmaxLink)

    @property
    def temperature(self) -> float:
        """Factor on the trained weights of logistic regression in predictions."""
        return self.found.temperature if self.is_softmax and self.found is not None else 1.0


def fit_rows(
    estimator: Any,
    data: FitData,
    seed: int,
    *,
    resume: bool = False,
    online: bool = False,
    choice: Tuning | None = None,
) -> None:
    """Fit a linear estimator: choose penalties if they are not given, train, and set the fitted attributes.

    Parameters
    ----------
    estimator : LinearLinkClassifier
        The estimator.
    data : FitData
        Rows, labels and weights.
    seed : int
        Seed of folds, initialization and batches.
    resume : bool
        Whether training continues from the fitted model.
    online : bool
        Whether this is one pass over some of the rows, as in ``partial_fit``.
    choice : Tuning, optional
        Penalties and noise that were chosen before.
    """
    device = check_device(estimator.device)
    path = None if online else checkpoint_path(estimator)  # checked before strengths are chosen, which takes long
    data = data if online else data.normalize()
    labels, rows, n_classes, weight = data.labels, data.rows, data.n_classes, data.weight
    dtype = torch.float32 if data.X.dtype == np.float32 else torch.float64
    fixed = None
    if estimator._has_fixed_link:
        check_fixed_fit(estimator, online)
        fixed = fixed_link(estimator.link, n_classes, dtype, device)
    held_out = None
    if estimator.early_stopping and not online:  # first: units, penalties and starts must not know these rows
        share = held_out_share(estimator.early_stopping)
        rows, held_out = validation_split(rows, labels[rows], share, seed, data.copies, data.groups)
        data = data.without(held_out)

    # start
    generator = torch.Generator().manual_seed(seed)
    if resume:
        start = estimator._standardized
    else:
        names = getattr(estimator, "feature_names_in_", None)
        units = Standardizer.fit(data.X, data.weight, estimator.standardize, names)
        start = make_start(estimator, units, n_classes, generator, dtype)
    if scipy.sparse.issparse(data.X) and start.mean.any():
        start = start.move_center()
    if resume:
        estimator._check_resumed_link()
    features = as_features(start.transform(data.X), dtype, device)
    before = generator.get_state()
    # a copy: if training fails, the fitted link must be unchanged
    link = copy.deepcopy(estimator.link_) if resume else estimator._make_link(n_classes, generator, dtype, len(rows))
    if fixed is not None:  # W and b are trained as those of logistic regression are, by another convex loss
        link = SoftmaxLink(n_classes)
    noise, found = initial_noise(estimator, n_classes, resume=resume, online=online)

    # penalties
    strengths, tuning, saved_choice = estimator._strengths(), choice, None
    if not (choice is not None or strengths.fixed or resume or online):
        problem = make_problem(estimator, features, data, seed, noise, fixed)
        if path is None:
            tuning = choose(problem, strengths)
        else:
            folds = [part for fold in problem.folds for part in fold]
            saved_choice = ChosenStrengths(path, fingerprint(estimator, (data.X, data.y, data.weight, [seed], *folds)))
            tuning = saved_choice.load_or(lambda: choose(problem, strengths))
    if tuning is not None:
        chosen: tuple[float, float] = tuning.chosen
    elif resume:
        chosen = strengths.pair(estimator.alpha_, estimator.link_alpha_)
    else:
        chosen = strengths.pair(_ONLINE_ALPHA, _ONLINE_ALPHA)
    protocol = estimator._protocol()
    # continue from the model scored on held-out rows
    scored = tuning.start if tuning is not None and protocol.schedule == "cosine" and protocol.init != "paper" else None
    if scored is not None:
        link = scored.link
    plan = make_plan(estimator, link, chosen, tuning, noise, found, dtype, fresh=not (resume or online))
    if plan.is_softmax and not isinstance(link, SoftmaxLink):
        generator.set_state(before)
    if plan.precision != dtype:
        features = features.single()
    if resume:
        start = start.rescale(1.0 / plan.temperature)

    # training
    first_weight, first_bias = (start.weight, start.bias) if scored is None else (scored.weight, scored.bias)
    model = LinearModel(
        first_weight.to(device, plan.precision).unsqueeze(0),
        first_bias.to(device, plan.precision).unsqueeze(0),
        [plan.link.to(plan.precision)],
    )
    validation = None
    if held_out is not None:
        validation = make_sample(features, held_out, labels, weight, plan.precision, device)
    sample = make_sample(features, rows, labels, data.weight, plan.precision, device, normalize=not online)
    identity = (data.X, data.y, data.weight, model.flat, [seed, *plan.strengths])
    settings = training_settings(estimator, identity, generator, len(rows), n_classes, plan.strengths, online=online)
    is_convex = plan.is_softmax and not online and uses_convex_solver(estimator) and has_convex_solver(plan.noise)
    if fixed is not None or is_convex:
        guess = None if tuning is None else tuning.logistic
        most = _FIXED_ITERATIONS if fixed is not None else MOST_ITERATIONS
        if estimator.max_epochs != "auto" and not strengths.has_link:  # passes that suit a link say nothing about them
            most = int(estimator.max_epochs)
        result = fit_convex(model, sample, settings, guess, plan.noise, max_iter=most, fixed=fixed)
    elif scored is None:
        result = train(model, sample, settings, validation, start.moments if online else None)
    else:
        result = train_further(model, sample, settings, validation)
    if saved_choice is not None:
        saved_choice.remove()

    observed = np.bincount(labels[rows], data.weight[rows], n_classes)
    start = replace(start, moments=result.moments if online else None)
    set_fitted(estimator, model, result, plan, data.classes, observed, len(rows), start, data.X.dtype, fixed)
    if not (resume or online):
        set_tuning(estimator, tuning, plan)
    if not online:
        estimator._usual = UsualRanges.of(data.X if len(rows) == data.X.shape[0] else data.X[rows])
    elif not resume:
        estimator._usual = None  # the first rows need not be like all others
    estimator._baseline = None
    is_itself = plan.is_softmax and plan.noise is None and fixed is None
    alpha = None if tuning is None or is_itself else plain_alpha(tuning)
    if alpha is not None:
        estimator._baseline = fit_baseline(estimator, sample, n_classes, alpha, start, data.X.dtype)
    if not online:  # one pass over some rows need not converge
        warn_unless_converged(estimator, result)


def train_further(
    model: LinearModel, sample: Sample, settings: TrainingSettings, validation: Sample | None
) -> TrainingResult:
    """Train a model that was scored on held-out rows, and keep it as it was if its loss on all rows has not become lower.

    With noise, rows far from their class have hardly any gradient: a class that the first, large steps lose stays lost.
    """
    scored, (loss_before, _) = model.flat.detach().clone(), model.evaluate(sample)
    result = train(model, sample, settings, validation)
    if not bool(model.evaluate(sample)[0] < loss_before):
        with torch.no_grad():
            model.flat.copy_(scored)
    return result


def make_sample(
    features: Features,
    rows: np.ndarray,
    labels: np.ndarray,
    weight: np.ndarray,
    precision: torch.dtype,
    device: torch.device,
    *,
    normalize: bool = True,
) -> Sample:
    """Some rows as the sample of one run; labels and weights are those of all rows."""
    return Sample(
        features,
        torch.as_tensor(rows, device=device).unsqueeze(0),
        torch.as_tensor(labels[rows], dtype=torch.int64, device=device).unsqueeze(0),
        torch.as_tensor(weight[rows], dtype=precision, device=device).unsqueeze(0),
        normalize=normalize,
    )


# --- start ---


def make_start(
    estimator: Any,
    units: Standardizer,
    n_classes: int,
    generator: torch.Generator,
    dtype: torch.dtype,
) -> Standardized:
    """The initial linear predictor, in these units."""
    d = len(units.mean)
    w = torch.zeros(n_classes - 1, d, dtype=dtype)
    b = torch.zeros(n_classes - 1, dtype=dtype)
    if estimator._protocol().init == "paper":
        init_linear(d, generator, w, b)
    return Standardized(units.mean, units.scale, w.T.contiguous(), b)


def initial_noise(
    estimator: Any, n_classes: int, *, resume: bool = False, online: bool = False
) -> tuple[LabelNoise | None, FoundNoise | None]:
    """Label noise to train with, and what is known of it, before strengths are chosen."""
    known = read_label_noise(estimator.label_noise, n_classes)
    before = estimator._noise if resume else None
    in_training = is_learned(estimator.label_noise) and not online and estimator._strengths().fixed
    if before is not None and not before.known and not in_training:
        if known is not None or estimator.label_noise is None:
            raise ValueError(
                "training continues with the label noise that was found in the first fit, but label_noise has "
                "been changed since; set warm_start=False, or clone the estimator, to start over."
            )
        return before.make_training_noise(), before
    if is_learned(estimator.label_noise) and online:
        raise ValueError(
            f"label_noise={estimator.label_noise!r} needs all data at once; call fit, or give partial_fit a known rate or "
            "matrix."
        )
    if in_training:
        return make_learned_noise(estimator.label_noise, n_classes, before), None
    return known, None


def make_plan(
    estimator: Any,
    link: Link,
    strengths: tuple[float, float],
    tuning: Tuning | None,
    noise: LabelNoise | None,
    found: FoundNoise | None,
    dtype: torch.dtype,
    *,
    fresh: bool,
) -> Plan:
    """What is trained, given what was chosen; ``fresh`` if nothing was trained before."""
    n_classes, precision = link.n_classes, dtype
    if tuning is not None and not tuning.chosen.is_logistic and estimator.dtype is None and estimator.solver != "lbfgs":
        precision = torch.float32  # as it was tried out; noise of batches is far above that of rounding
    if tuning is not None and tuning.noise is not None:
        found, noise = tuning.noise, tuning.noise.make_training_noise()
    link = clean_link(link)  # one that was found by a search has the noise that it was trained with
    alpha, link_alpha = strengths
    if isinstance(link, SoftmaxLink):  # or a link of a user's own that derives from it
        link_alpha = math.inf
    elif fresh and math.isinf(link_alpha):
        link = SoftmaxLink(n_classes)
    return Plan(with_noise(link, noise), (alpha, link_alpha), noise, found, precision)


# --- what is kept ---


def set_fitted(
    estimator: Any,
    model: LinearModel,
    result: TrainingResult,
    plan: Plan,
    classes: np.ndarray,
    observed: np.ndarray,
    n_rows: int,
    start: Standardized,
    dtype: Any,
    fixed: Link | None = None,
) -> None:
    """Set the fitted attributes.

    ``observed`` are the weights of the labels; ``start`` has the units of the features, and moments of Adam that are to be
    kept; ``dtype`` is that of the features.
    """
    w, b, trained = model.take(0)
    for name in ("gradient_norm_", "converged_", "n_skipped_rows_", "skipped_rows_"):
        estimator.__dict__.pop(name, None)  # of an earlier fit
    if fixed is not None:
        assert result.largest_gradient is not None
        trained = fixed
        estimator.gradient_norm_, estimator.converged_ = float(result.largest_gradient[0]), bool(result.converged[0])
    found, noise = plan.found, plan.noise
    if found is None and noise is not None:
        learned = trained.noise if isinstance(trained, NoisyLink) and noise.learned else noise
        found = FoundNoise.of_noise(learned, observed / observed.sum(), known=not noise.learned, n_rows=n_rows)
    precision = torch.float32 if dtype == np.float32 else torch.float64
    w, b = ((part * plan.temperature).to("cpu", precision) for part in (w, b))
    estimator.classes_ = classes
    estimator._noise, estimator._sets = found, None
    estimator.link_ = clean_link(trained).to("cpu", precision).eval().requires_grad_(False)
    moments = None if start.moments is None else tuple(moment.cpu() for moment in start.moments)
    estimator._standardized = replace(start, weight=w, bias=b, moments=moments)
    estimator.coef_, estimator.intercept_ = estimator._standardized.fold_weights(dtype)
    estimator.alpha_, estimator.link_alpha_ = map(float, plan.strengths)
    estimator.history_ = result.history
    estimator.n_iter_ = int(result.n_iter[0])


def set_tuning(estimator: Any, tuning: Tuning | None, plan: Plan) -> None:
    """Keep what was tried, and calibrate prediction sets on what the chosen candidate has predicted for held-out rows."""
    estimator._tuning = tuning
    if tuning is None or tuning.held_out is None:
        return
    held_out, tuning.held_out = tuning.held_out, None
    log_p = torch.log_softmax(held_out.log_p.double() * plan.temperature, -1)
    estimator._calibrate_folds(*(part.cpu().numpy() for part in (log_p, held_out.labels, held_out.weight)))


def warn_unless_converged(estimator: Any, result: TrainingResult) -> None:
    """Warn if training has diverged or has not converged."""
    if bool(result.diverged.any()):
        highest = np.nanmax(result.history["train_loss"])
        warnings.warn(
            f"Training has diverged: the loss has risen to {highest:.3g}, and the model is no better than one that "
            f"ignores the features. Lower {spell('learning_rate')}, got {estimator.learning_rate}.",
            ConvergenceWarning,
            stacklevel=5,  # where fit is called
        )
    elif not bool(result.converged.all()):
        warnings.warn(
            f"Training has not converged in {int(result.n_iter.max())} iterations "
            f"({spell('max_epochs', estimator.max_epochs)}); raise {spell('max_epochs')} or {spell('alpha')}, or "
            "scale the features.",
            ConvergenceWarning,
            stacklevel=5,  # where fit is called
        )
