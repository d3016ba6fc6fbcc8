"""The fit of a LegendreNet: networks and logistic regression on the same folds, and the choice between the two."""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np
import torch

from legendretron._internal.parameters import spell
from legendretron._internal.validation import check_device
from legendretron.calibration.link import CalibratedLink
from legendretron.estimators.fit_data import FitData, swap_classes
from legendretron.estimators.label_noise import FittedNoise, is_learned, read_label_noise
from legendretron.estimators.multinomial import MultinomialLogisticClassifier
from legendretron.estimators.standardization import Standardizer
from legendretron.links import LabelNoise, SoftmaxLink, SymmetricNoise
from legendretron.networks.folds import FoldNetworks, LabeledTable, logits_of, mean_where_known, train_folds
from legendretron.networks.held_out import LabeledPair, find_noise, learn_map
from legendretron.networks.inputs import NetworkInputs
from legendretron.networks.model import FoldSettings
from legendretron.networks.predictor import LinearScores, NetworkScores
from legendretron.training import as_features
from legendretron.tuning.folds import Fold, make_folds
from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.problem import LabeledRows, TuningProblem
from legendretron.tuning.rules import link_folds_for
from legendretron.tuning.scores import SURE_ERRORS, Difference
from legendretron.tuning.tune import FALLBACK_ALPHA

#: Powers of ten at which strengths of logistic regression are tried at most, and the rise of the loss that ends the search.
_DECADES, _CLEARLY = 7, 0.02
#: Numbers of features, times classes, up to which logistic regression is fitted faster on the CPU than on a GPU.
_MOST_ON_CPU = 2**20
#: Standard errors by which networks must beat logistic regression on held-out rows.
_MUST_GAIN = 1.0


def fit_folds(estimator: Any, data: FitData, seed: int, how: str) -> None:
    """Fit a LegendreNetClassifier; ``how`` says whether to look for wrong labels, if it is not told of any."""
    device, known = check_device(estimator.device), read_label_noise(estimator.label_noise, data.n_classes)
    settings = _make_settings(estimator, len(data.rows), seed)
    repeats = [
        make_folds(int(estimator.n_folds), data.X, data.y, data.rows, data.groups, int(one), data.copies)
        for one in np.random.SeedSequence(seed).generate_state(settings.n_repeats)
    ]
    for name in ("oof_proba_", "_oof_of", "_noise", "_sets", "history_"):
        estimator.__dict__.pop(name, None)  # of an earlier fit
    if not repeats[0]:
        _fit_without_folds(estimator, data, known)
        return
    small = data.X.size * data.n_classes <= _MOST_ON_CPU
    problem = _make_problem(data, repeats[0], known, torch.device("cpu") if small else device, seed)
    path = LogisticPath(problem)
    linear = _search_coarsely(path)
    dtype = torch.float64 if estimator.dtype == "float64" else torch.float32
    inputs = NetworkInputs.fit(data.X[data.rows], getattr(estimator, "feature_names_in_", None))
    table = LabeledTable(
        as_features(inputs.transform(data.X, dtype), dtype, device),
        inputs,
        torch.as_tensor(data.labels, device=device),
        torch.as_tensor(data.weight, dtype=dtype, device=device),
        data.n_classes,
    )
    networks = train_folds(table, repeats, settings, known)
    if not np.isfinite(networks.logits).all(1).any():  # networks that were trained hold out no row
        _fit_without_folds(estimator, data, known)
        return
    noise, found = known, None
    if known is not None:
        observed = np.bincount(data.labels[data.rows], data.weight[data.rows], data.n_classes)
        found = FittedNoise.from_noise(known, observed / observed.sum(), known=True)
    elif how != "never":
        trained = [networks]

        def train_with(noise: LabelNoise) -> LabeledPair:
            trained.append(train_folds(table, repeats, settings, noise))
            return _predict_labels(trained[-1], table, data, repeats)

        rates, matrix = find_noise(problem, _predict_labels(networks, table, data, repeats), train_with, how)
        found = FittedNoise(data.n_classes, rates, known=False, matrix=matrix)
        if matrix is not None:
            networks, noise = trained[-1], found.make_noise()
        elif rates.rate > 0.0:
            # a link that expects too much noise is far too sure, one that expects too little is only a little timid
            cautious = rates.rate - (rates.rate - rates.low) / SURE_ERRORS
            networks = trained[-1]
            noise = SymmetricNoise(data.n_classes, cautious, learned=False, dtype=torch.float64)
    if found is not None:
        estimator._noise = found
    # rows that belong together are in one fold of the link, too
    together = repeats[0] if data.groups is not None or data.copies is not None else None
    _choose(estimator, data, networks, noise, path, linear, inputs, together)


def _make_settings(estimator: Any, n_rows: int, seed: int) -> FoldSettings:
    settings = FoldSettings.for_rows(n_rows)._replace(
        learning_rate=float(estimator.learning_rate),
        dropout=float(estimator.dropout),
        weight_decay=float(estimator.weight_decay),
        label_smoothing=float(estimator.label_smoothing),
        seed=seed,
        verbose=int(estimator.verbose),
    )
    if not isinstance(estimator.hidden_layers, str):
        settings = settings._replace(hidden=tuple(map(int, estimator.hidden_layers)))
    if estimator.max_steps != "auto":
        settings = settings._replace(n_steps=int(estimator.max_steps))
    return settings


def _make_problem(
    data: FitData, folds: list[Fold], known: LabelNoise | None, device: torch.device, seed: int
) -> TuningProblem:
    """The problem of logistic regression on the same folds."""
    grouped = data.groups is not None
    standardizer = Standardizer.fit(data.X, data.weight, standardize=True)
    return TuningProblem(
        as_features(standardizer.transform(data.X), torch.float32, device),  # enough to compare
        torch.as_tensor(data.labels, device=device),
        data.n_classes,
        data.weight,
        folds,
        grouped,
        lambda *_: SoftmaxLink(data.n_classes),
        batch_size=1,
        steps=1,
        learning_rate=1.0,
        seed=seed,
        standardized=True,
        link_folds=None if grouped else link_folds_for(len(data.rows)),
        known_noise=known,
        copies=data.copies,
    )


def _predict_labels(
    networks: FoldNetworks, table: LabeledTable, data: FitData, repeats: list[list[Fold]]
) -> LabeledPair:
    """Predictions for held-out rows, and for rows each by a network that was trained on it."""
    others = [one[(number + 1) % len(one)][1] for one in repeats for number in range(len(one))]
    seen = logits_of(networks.model, table, others)

    def rows_of(logits: np.ndarray) -> tuple[LabeledRows, np.ndarray]:
        rows = np.flatnonzero(np.isfinite(logits).all(1))
        log_p = torch.log_softmax(torch.as_tensor(logits[rows]), -1)
        return LabeledRows(log_p, torch.as_tensor(data.labels[rows]), torch.as_tensor(data.weight[rows])), rows

    held_out, rows = rows_of(networks.logits)
    return held_out, rows_of(seen)[0], rows


def _choose(
    estimator: Any,
    data: FitData,
    networks: FoldNetworks,
    noise: LabelNoise | None,
    path: LogisticPath,
    linear: PathPoint,
    inputs: NetworkInputs,
    folds: list[Fold] | None,
) -> None:
    """Learn the link, compare with logistic regression, and set what is fitted."""
    rows = np.flatnonzero(np.isfinite(networks.logits).all(1))
    of_rows = networks.logits[rows], data.labels[rows], data.weight[rows]
    fold = None
    if folds is not None and len(folds) > 1:
        fold = np.full(len(data.y), -1)
        for number, (train, _) in enumerate(folds):
            # also of rows that are not held out, as the others have none of their class
            fold[np.setdiff1d(data.rows, train)] = number
        fold = np.unique(fold[rows], return_inverse=True)[1]
    learned = learn_map(*of_rows, noise, fold, networks.model.flat.device)
    log_p, of_each = (
        learned.cross_fit(torch.from_numpy(logits)).numpy() for logits in (of_rows[0], networks.each[:, rows])
    )

    def losses_of(log_p: np.ndarray) -> np.ndarray:
        observed = log_p if noise is None else noise.log_observed(torch.as_tensor(log_p)).numpy()
        own: np.ndarray = -observed[..., np.arange(len(rows)), data.labels[rows]]
        return own

    losses = np.full(len(data.y), np.nan)
    losses[rows] = losses_of(log_p)
    expected = losses.copy()
    gain = _gain_of_mean(len(of_each), len(networks.model.usable_runs()))
    expected[rows] -= gain * (mean_where_known(losses_of(of_each)) - losses[rows])
    share = data.weight[rows] / data.weight[rows].sum()
    both = path.held_out.first(len(linear.fitted.weight))
    known = np.isfinite(expected[both.row])  # not if the network of a fold has diverged
    away = Difference(0.0, 0.0)
    if known.any():
        away = both.select(known).difference(expected[both.row[known]], linear.log_losses[known])
    estimator.network_log_loss_ = float(share @ losses[rows])
    estimator.linear_log_loss_ = both.mean(linear.log_losses).mean
    estimator.history_ = networks.result.history
    estimator.n_iter_ = networks.model.n_taken
    # logistic regression that knows of no wrong labels is no match where there are some
    informed = noise is None or path.problem.known_noise is not None
    estimator.is_linear_ = informed and not away.mean < -_MUST_GAIN * away.error
    if estimator.is_linear_:
        linear = path.search()  # worth a closer look
        _set_linear(estimator, data, linear.alpha)
        log_p, labels, weight = (part.cpu().numpy() for part in path.predict(linear.fitted)[0])
        estimator.oof_score_ = float(weight @ (log_p.argmax(1) == labels) / weight.sum())
        estimator._calibrate_folds(log_p, labels, weight)
        return
    estimator._logits = NetworkScores.from_model(networks.model, inputs)
    estimator.link_ = CalibratedLink.from_map(learned.map)
    estimator.oof_score_ = float(share @ (log_p.argmax(1) == data.labels[rows]))
    estimator._calibrate_folds(log_p, *of_rows[1:])
    estimator.oof_proba_ = np.full((len(data.y), data.n_classes), np.nan)
    estimator.oof_proba_[rows] = swap_classes(np.exp(log_p))
    estimator._oof_of = joblib.hash((data.X, data.y, data.weight)), joblib.hash(data.groups)


def _fit_without_folds(estimator: Any, data: FitData, known: LabelNoise | None) -> None:
    """Logistic regression of a usual strength, where no row can be held out."""
    if data.groups is not None or is_learned(estimator.label_noise):
        which = "groups" if data.groups is not None else spell("label_noise", estimator.label_noise)
        raise ValueError(
            f"{which} needs held-out rows of classes that the other rows have too, and there are none; leave it out."
        )
    if known is not None:
        observed = np.bincount(data.labels, data.weight, data.n_classes)
        estimator._noise = FittedNoise.from_noise(known, observed / observed.sum(), known=True)
    estimator.is_linear_, estimator.n_iter_ = True, 0
    estimator.network_log_loss_ = estimator.linear_log_loss_ = estimator.oof_score_ = float("nan")
    _set_linear(estimator, data, FALLBACK_ALPHA)


def _set_linear(estimator: Any, data: FitData, alpha: float) -> None:
    known = estimator._noise is not None and estimator._noise.rate > 0.0
    assumed = estimator.noise_matrix_ if known else None
    model = MultinomialLogisticClassifier(alpha=alpha, label_noise=assumed, random_state=0)
    model.fit(data.X, data.y, sample_weight=data.weight)
    estimator._logits = LinearScores(torch.as_tensor(model.coef_), torch.as_tensor(model.intercept_))
    estimator.link_ = model.link_.double()


def _gain_of_mean(n_means: int, n_networks: int) -> float:
    """What the mean logits of more networks gain, over what those of a few have gained on a single one.

    The loss of the mean of ``m`` networks is about ``a + c / m``. Held-out rows have those of one and of a few, and
    predictions are by the mean of all.
    """
    if n_means == 1:
        return 0.0
    return (1.0 / n_means - 1.0 / n_networks) / (1.0 - 1.0 / n_means)


def _search_coarsely(path: LogisticPath) -> PathPoint:
    """The best strength of logistic regression among powers of ten."""
    best = path.at(0.0)
    for exponent in range(-1, -_DECADES - 1, -1):
        point = path.at(float(exponent))
        if path.loss(point) < path.loss(best):
            best = point
        elif path.loss(point) > (1.0 + _CLEARLY) * path.loss(best):
            break
    return best
