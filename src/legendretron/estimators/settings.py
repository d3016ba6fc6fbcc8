"""What the parameters of a linear estimator ask for: how it is trained, and which penalties are to be chosen."""

from __future__ import annotations

import copy
import math
import os
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils import check_random_state

from legendretron._internal.parameters import ParameterError, spell
from legendretron._internal.sklearn_compat import Interval, StrOptions
from legendretron._internal.validation import check_device
from legendretron.estimators.fit_data import FitData
from legendretron.estimators.label_noise import is_learned, noise_to_find
from legendretron.estimators.resuming import fingerprint
from legendretron.links import LabelNoise, Link
from legendretron.training import TrainingSettings
from legendretron.training.features import Features
from legendretron.training.layout import threads_for
from legendretron.tuning.folds import make_folds, short_repr
from legendretron.tuning.problem import TuningProblem, link_candidates
from legendretron.tuning.rules import link_folds_for, steps_for
from legendretron.tuning.table import Tuning
from legendretron.tuning.tune import tune

#: Initial rate of Adam, which falls to 0 along half a cosine; chosen together with the number of steps.
LEARNING_RATE = 0.03
#: The constant rate of ``partial_fit``.
_ONLINE_RATE = 0.01
#: Most iterations of L-BFGS and of the convex solvers with ``max_epochs="auto"``.
MOST_ITERATIONS = 1000
#: Epochs between two checkpoints.
_CHECKPOINT_EPOCHS = 10
#: Values of the parameters that the linear estimators share, in scikit-learn's format.
SHARED_CONSTRAINTS: dict[str, list[Any]] = {
    "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
    "solver": [StrOptions({"auto", "adam", "lbfgs"})],
    "learning_rate": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    "max_epochs": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "early_stopping": ["boolean", Interval(Real, 0, 1, closed="neither")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "label_noise": [
        StrOptions({"auto", "symmetric", "class-conditional"}),
        Interval(Real, 0, 1, closed="left"),
        "array-like",
        None,
    ],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "warm_start": ["boolean"],
    "standardize": ["boolean"],
    "device": [str],
    "dtype": [StrOptions({"float32", "float64"}), None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
    "checkpoint": [str, os.PathLike, None],
    "cv": ["cv_object"],
}


def batch_size_for(n_rows: int) -> int:
    """Rows in a step: 64, for large data a sixteenth of the rows up to 256."""
    return min(n_rows, max(64, min(256, n_rows // 16)))


def hidden_for(n_rows: int, n_classes: int) -> int:
    """Units per layer of a composite link's networks; of two classes, a link is a function of one number."""
    if n_classes == 2:
        return 2
    return 4 if n_rows < 300 else 8


def draw_seed(random_state: Any) -> int:
    """A seed; an integer is used unchanged, as in ``torch.manual_seed(random_state)``."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


class Strengths(NamedTuple):
    """Strengths of the penalties as given; ``None`` for one to be chosen."""

    alpha: float | None  #: on ``W``
    link_alpha: float | None = math.inf  #: on the link; infinite if there is none other than softmax
    tied: bool = False  #: whether that on the link is that on ``W``

    @property
    def has_link(self) -> bool:
        """Whether there is a link other than softmax."""
        return self.link_alpha != math.inf

    @property
    def fixed(self) -> bool:
        """Whether all strengths are given."""
        return self.alpha is not None and (self.tied or self.link_alpha is not None)

    def pair(self, alpha: float = 0.0, link_alpha: float = 0.0) -> tuple[float, float]:
        """Both strengths, with these in place of those that are not given.

        Examples
        --------
        >>> Strengths(None, 0.5).pair(0.1, 0.2), Strengths(0.3, None, tied=True).pair()
        ((0.1, 0.5), (0.3, 0.3))
        """
        on_weights = alpha if self.alpha is None else self.alpha
        if self.tied:
            return on_weights, on_weights
        return on_weights, link_alpha if self.link_alpha is None else self.link_alpha


class Protocol(NamedTuple):
    """How an estimator is trained, beyond its parameters."""

    schedule: str = (
        "cosine"  #: of the learning rate; ``"step"`` multiplies it by ``decay`` every ``decay_every`` epochs
    )
    decay: float = 0.95
    decay_every: int = 4
    #: Start as logistic regression at zero, or with the random draws of the paper's code (``"paper"``). With ``"centred"``,
    #: the penalty acts on the distance of the link from softmax, with ``"identity"`` and ``"paper"`` on its parameters.
    init: str = "centred"
    penalize_intercept: bool = False  #: whether ``alpha`` applies to the intercept too
    #: Whether the penalty of logistic regression is the same whichever class is the reference, as if every class had a
    #: weight vector; if not, it is on the ``n_classes - 1`` vectors of the model.
    symmetric: bool = True


def batch_size(estimator: Any, n_rows: int) -> int:
    """Rows in a step."""
    return batch_size_for(n_rows) if estimator.batch_size == "auto" else int(estimator.batch_size)


def held_out_share(early_stopping: bool | float) -> float:
    """Share of the rows that early stopping holds out."""
    return float(0.1 * early_stopping if isinstance(early_stopping, bool | np.bool_) else early_stopping)


def uses_convex_solver(estimator: Any) -> bool:
    """Whether logistic regression is fitted to the minimum, by a solver of its own."""
    return estimator.solver == "auto" and not estimator.early_stopping and estimator._protocol().init != "paper"


def checkpoint_path(estimator: Any) -> Path | None:
    """Path of the parameter ``checkpoint``; a ``ValueError`` if the other parameters do not go with it."""
    if estimator.checkpoint is None:
        return None
    path = Path(estimator.checkpoint)
    if estimator.solver == "lbfgs":
        raise ParameterError("checkpoint", f"needs {spell('solver', 'adam')}, got {estimator.solver!r}.")
    if estimator.random_state is None:
        raise ParameterError(
            "checkpoint", f"needs {spell('random_state')}, without which a fit cannot be resumed; got None."
        )
    if path.is_dir():
        raise ParameterError("checkpoint", f"must be the path of a file, but {str(path)!r} is a folder.")
    return path


def training_settings(
    estimator: Any,
    identity: tuple[Any, ...],
    generator: torch.Generator,
    n_rows: int,
    n_classes: int,
    strengths: tuple[float, float],
    *,
    online: bool = False,
) -> TrainingSettings:
    """How a model is trained with these strengths; ``identity`` is what a checkpoint must belong to."""
    batch, protocol = batch_size(estimator, n_rows), estimator._protocol()
    path = None if online else checkpoint_path(estimator)
    alpha, link_alpha = strengths
    solver = "lbfgs" if estimator.solver == "lbfgs" and not online else "adam"
    rate = estimator.learning_rate
    if rate == "auto":
        rate = _ONLINE_RATE if online else LEARNING_RATE
    max_epochs, max_steps = 1 if online else estimator.max_epochs, None
    if max_epochs == "auto":
        steps = steps_for(n_rows, n_classes)
        max_epochs = MOST_ITERATIONS if solver == "lbfgs" else math.ceil(steps / math.ceil(n_rows / batch))
        if solver == "adam" and protocol.schedule == "cosine":
            max_steps = steps
    is_logistic = math.isinf(link_alpha)
    return TrainingSettings(
        alpha=torch.tensor([float(alpha)], dtype=torch.float64),
        link_alpha=torch.tensor([0.0 if is_logistic else float(link_alpha)], dtype=torch.float64),
        learning_rate=torch.tensor([float(rate)], dtype=torch.float64),
        generators=[generator],
        solver=solver,
        schedule="constant" if online else protocol.schedule,
        decay=protocol.decay,
        decay_every=protocol.decay_every,
        max_epochs=int(max_epochs),
        max_steps=max_steps,
        batch_size=batch,
        tol=float(estimator.tol),
        verbose=int(estimator.verbose),
        checkpoint=path,
        checkpoint_every=_CHECKPOINT_EPOCHS,
        fingerprint="" if path is None else fingerprint(estimator, identity),
        penalize_intercept=protocol.penalize_intercept,
        symmetric=is_logistic and protocol.symmetric,
        centred=estimator._is_centered(),
    )


def make_problem(
    estimator: Any,
    features: Features,
    data: FitData,
    seed: int,
    noise: LabelNoise | None,
    fixed: Link | None = None,
) -> TuningProblem:
    """The problem for which strengths are chosen: features as in training, folds, and how links are made and trained.

    ``noise`` is known, and ``fixed`` is a link that is kept.
    """
    rows, groups, n_classes = data.rows, data.groups, data.n_classes
    if fixed is not None:  # single precision is enough to compare strengths, and faster
        features, fixed = features.single(), copy.deepcopy(fixed).float()
    folds = make_folds(estimator.cv, data.X, data.y, rows, groups, seed, data.copies)
    if not folds and (estimator.cv is not None or groups is not None):
        which = "groups" if groups is not None else f"cv={short_repr(estimator.cv)}"
        penalties = " and ".join(spell(name) for name in ("alpha", "link_alpha") if hasattr(estimator, name))
        raise ValueError(
            f"{which} never holds out a row of a class that the training rows have, so penalties cannot be "
            f"chosen; leave it out, or give {penalties}."
        )
    if not folds and is_learned(estimator.label_noise):
        raise ParameterError(
            "label_noise",
            "needs held-out rows of classes that the other rows have too, and there are too few; give a rate, "
            f"or leave it out, got {estimator.label_noise!r}.",
        )
    protocol = estimator._protocol()
    batch = min(batch_size(estimator, len(rows)), len(rows))
    steps = steps_for(len(rows), n_classes)
    if estimator.max_epochs != "auto" and estimator.solver != "lbfgs":
        steps = int(estimator.max_epochs) * math.ceil(len(rows) / batch)
    return TuningProblem(
        features,
        torch.as_tensor(data.labels, device=check_device(estimator.device)),
        n_classes,
        data.weight,
        folds,
        groups is not None or not (estimator.cv is None or isinstance(estimator.cv, Integral)),
        lambda source, kind: estimator._make_link(n_classes, source, kind, len(rows)),
        seed=seed,
        standardized=bool(estimator.standardize),
        verbose=int(estimator.verbose),
        penalize_intercept=protocol.penalize_intercept,
        symmetric_logistic=protocol.symmetric,
        centred=estimator._is_centered(),
        link_folds=None if estimator.cv is not None or groups is not None else link_folds_for(len(rows)),
        known_noise=noise,
        find_noise=None if fixed is not None else noise_to_find(estimator.label_noise),
        fixed_link=fixed,
        copies=data.copies,
        batch_size=batch,
        steps=steps,
        learning_rate=LEARNING_RATE if estimator.learning_rate == "auto" else float(estimator.learning_rate),
    )


def choose(problem: TuningProblem, strengths: Strengths) -> Tuning:
    """Try out what the parameters leave open."""
    links = link_candidates(strengths.alpha, strengths.link_alpha, strengths.tied) if strengths.has_link else []
    # a strength that is given asks for a learned link
    logistic = not strengths.has_link or (strengths.link_alpha is None and not strengths.tied)
    n_folds, n_rows = max(1, len(problem.folds)), problem.features.n_rows
    with threads_for(2.0 * n_folds * n_rows * problem.features.n_features * (problem.n_classes - 1)):
        return tune(problem, links, logistic=logistic, alpha=strengths.alpha)
