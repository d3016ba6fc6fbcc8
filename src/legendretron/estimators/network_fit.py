"""The fit of a LegendreNet: networks and logistic regression on the same folds, and the choice between the two."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import joblib
import numpy as np
import torch

from legendretron._internal.parameters import spell
from legendretron._internal.validation import check_device
from legendretron.calibration.fitting import Calibration
from legendretron.calibration.link import CalibratedLink
from legendretron.estimators.baseline import Baseline
from legendretron.estimators.fit_data import FitData, swap_classes
from legendretron.estimators.label_noise import is_learned, noise_to_find, read_label_noise
from legendretron.estimators.linear_fit import fit_rows
from legendretron.estimators.multinomial import MultinomialLogisticClassifier
from legendretron.estimators.standardization import Standardizer
from legendretron.links import LabelNoise, SoftmaxLink, SymmetricNoise, TransitionNoise
from legendretron.networks.folds import FoldNetworks, LabeledTable, logits_of, mean_where_known, train_folds
from legendretron.networks.held_out import learn_map
from legendretron.networks.inputs import NetworkInputs
from legendretron.networks.model import FoldSettings
from legendretron.networks.predictor import LinearScores, NetworkScores
from legendretron.preprocessing.drift import UsualRanges
from legendretron.training import as_features
from legendretron.tuning.folds import Fold, make_folds
from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.noise import HIGHEST, FoundNoise, estimate_rates
from legendretron.tuning.noise_matrix import estimate_matrices
from legendretron.tuning.problem import Candidate, LabeledRows, TuningProblem
from legendretron.tuning.rules import link_folds_for
from legendretron.tuning.scores import SURE_ERRORS, Difference, HeldOut
from legendretron.tuning.table import Tuning
from legendretron.tuning.tune import FALLBACK_ALPHA, is_better, is_worth_a_floor, tune

#: Rate that networks expect whose predictions a first matrix is estimated from.
_ROBUST = 0.5
#: Powers of ten at which strengths of logistic regression are tried at most, and the rise of the loss that ends the search.
_DECADES, _CLEARLY = 7, 0.02
#: Numbers of features, times classes, up to which logistic regression is fitted faster on the CPU than on a GPU.
_MOST_ON_CPU = 2**20


def fit_folds(estimator: Any, data: FitData, seed: int) -> None:
    """Fit a LegendreNetClassifier."""
    device, known = check_device(estimator.device), read_label_noise(estimator.label_noise, data.n_classes)
    settings = _make_settings(estimator, len(data.rows), seed)
    repeats = [
        make_folds(int(estimator.n_folds), data.X, data.y, data.rows, data.groups, int(one), data.copies)
        for one in np.random.SeedSequence(seed).generate_state(settings.n_repeats)
    ]
    estimator._usual = UsualRanges.of(data.X[data.rows])
    for name in ("_oof", "_oof_of", "_noise", "_sets", "_baseline", "history_"):
        estimator.__dict__.pop(name, None)  # of an earlier fit
    if not repeats[0]:
        _fit_without_folds(estimator, data)
        return
    small = data.X.size * data.n_classes <= _MOST_ON_CPU
    problem = _make_problem(estimator, data, repeats[0], known, torch.device("cpu") if small else device, seed)
    dtype = torch.float64 if estimator.dtype == "float64" else torch.float32
    inputs = NetworkInputs.fit(data.X[data.rows], getattr(estimator, "feature_names_in_", None))
    table = LabeledTable(
        as_features(inputs.transform(data.X, dtype), dtype, device),
        inputs,
        torch.as_tensor(data.labels, device=device),
        torch.as_tensor(data.weight, dtype=dtype, device=device),
        data.n_classes,
    )
    plain = train_folds(table, repeats, settings, known)
    if not np.isfinite(plain.logits).all(1).any():  # networks that were trained hold out no row
        _fit_without_folds(estimator, data)
        return
    # rows that belong together are in one fold of the link, too
    together = repeats[0] if data.groups is not None or data.copies is not None else None
    training = _Training(table, data, repeats, settings, together)
    path = LogisticPath(problem)
    linear = _search_coarsely(path)
    if problem.find_noise is not None:
        asked = path.estimate(linear)
        if problem.find_noise != "auto" or is_worth_a_floor(asked.noise, path.loss(linear)):
            floor = path.search_floors(linear)[0]
            away = path.held_out.difference(floor.losses, linear.losses)
            if problem.find_noise != "auto" or is_better(away, 2, path.held_out.n_rows):
                linear = floor
    chosen = training.choose(plain, problem, known)
    _compare(estimator, data, chosen, problem, path, linear, inputs, seed)


class ScoredNetworks(NamedTuple):
    """Networks, the link that was learned behind them, and how well both predict held-out rows."""

    networks: FoldNetworks
    learned: Calibration
    noise: FoundNoise | None
    rows: np.ndarray  #: numbers of the rows, (n,)
    log_p: np.ndarray  #: log-probabilities of true classes by links that have not seen the rows, (n, C)
    losses: np.ndarray  #: log-losses of the labels as they are recorded, (N,); NaN for other rows
    expected: np.ndarray  #: the same for as many networks as predict new rows

    def difference(self, other: np.ndarray, held_out: HeldOut) -> Difference:
        """Mean difference from other losses of held-out rows, and its standard error; 0 if no row is known."""
        own = self.expected[held_out.row]
        known = np.isfinite(own) & np.isfinite(other)  # not if the network of a fold has diverged
        if not known.any():
            return Difference(0.0, 0.0)
        return held_out.select(known).difference(own[known], other[known])


@dataclass(frozen=True)
class _Training:
    """All that networks are trained with, whatever noise they allow for."""

    table: LabeledTable
    data: FitData
    repeats: list[list[Fold]]
    settings: FoldSettings
    together: list[Fold] | None  #: folds of rows that must not be divided

    def choose(self, plain: FoldNetworks, problem: TuningProblem, known: LabelNoise | None) -> ScoredNetworks:
        """Look for noise as the problem says; networks that allow for it must predict recorded labels better."""
        data, kind, recorded = self.data, problem.find_noise, problem.find_noise == "auto"
        found = None
        if known is not None:
            observed = np.bincount(data.labels[data.rows], data.weight[data.rows], data.n_classes)
            found = FoundNoise.of_noise(known, observed / observed.sum(), known=True)
        first = self.score(plain, known, found)
        if kind is None:
            return first
        estimate = estimate_rates(*self.predict_labels(plain))[0]
        first = first._replace(noise=FoundNoise.measured(estimate, data.n_classes, recorded=recorded))
        if recorded and not is_worth_a_floor(estimate, np.nanmean(first.losses)):
            return first
        rate = min(max(estimate.rate, 1.0 / len(data.rows)), HIGHEST)
        if kind == "class-conditional":
            return self.train_with_matrix(rate)
        noisy = self.train(SymmetricNoise(data.n_classes, rate, learned=False, dtype=torch.float64))
        better = estimate_rates(*self.predict_labels(noisy))[0]
        found = FoundNoise.of_rates(better, data.n_classes, rate, recorded=recorded)
        assumed = better.held_out
        if not recorded:
            # a link that expects too much noise is overconfident, one that expects too little slightly underconfident
            assumed, found = better.rate - (better.rate - better.interval[0]) / SURE_ERRORS, replace(found, floor=0.0)
        link_noise = SymmetricNoise(data.n_classes, min(assumed, HIGHEST), learned=False, dtype=torch.float64)
        second = self.score(noisy, link_noise, found)
        held_out = problem.held_out.first(len(problem.folds))
        away = second.difference(first.expected[held_out.row], held_out)
        return second if not recorded or is_better(away) else first

    def train_with_matrix(self, rate: float) -> ScoredNetworks:
        """Networks with the likeliest matrix.

        Those that expect more noise than there is are sure of true classes, which is what a matrix is estimated from.
        """
        n_classes = self.data.n_classes
        noise = SymmetricNoise(n_classes, max(rate, _ROBUST), learned=False, dtype=torch.float64)
        start = SymmetricNoise(n_classes, rate, learned=False, dtype=torch.float64).matrix()
        first = estimate_matrices(*self.predict_labels(self.train(noise)), start)
        networks = self.train(TransitionNoise(first.mean))
        held_out, training = self.predict_labels(networks)
        matrices = estimate_matrices(held_out, training, start)
        found = FoundNoise.of_matrices(matrices.held_out, matrices.training, held_out.labels, recorded=False)
        found = replace(found, floor=0.0)  # what is uncertain is left to the link, which is learned on the same rows
        return self.score(networks, found.make_noise(), found)

    def train(self, noise: LabelNoise) -> FoldNetworks:
        """Networks that allow for noise."""
        return train_folds(self.table, self.repeats, self.settings, noise)

    def predict_labels(self, networks: FoldNetworks) -> tuple[LabeledRows, LabeledRows]:
        """Predictions for held-out rows, and for rows each by a network that was trained on it."""
        others = [one[(number + 1) % len(one)][1] for one in self.repeats for number in range(len(one))]
        seen = logits_of(networks.model, self.table, others)

        def rows_of(logits: np.ndarray) -> LabeledRows:
            rows = np.flatnonzero(np.isfinite(logits).all(1))
            log_p = torch.log_softmax(torch.as_tensor(logits[rows]), -1)
            return LabeledRows(log_p, torch.as_tensor(self.data.labels[rows]), torch.as_tensor(self.data.weight[rows]))

        return rows_of(networks.logits), rows_of(seen)

    def score(self, networks: FoldNetworks, noise: LabelNoise | None, found: FoundNoise | None) -> ScoredNetworks:
        """Learn the link of networks, with noise, and predict held-out rows by it."""
        data, folds = self.data, self.together
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
        return ScoredNetworks(networks, learned, found, rows, log_p, losses, expected)


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
    estimator: Any, data: FitData, folds: list[Fold], known: LabelNoise | None, device: torch.device, seed: int
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
        find_noise=noise_to_find(estimator.label_noise),
    )


def _compare(
    estimator: Any,
    data: FitData,
    chosen: ScoredNetworks,
    problem: TuningProblem,
    path: LogisticPath,
    linear: PathPoint,
    inputs: NetworkInputs,
    seed: int,
) -> None:
    """Compare networks with logistic regression, and set what is fitted."""
    rows, networks = chosen.rows, chosen.networks
    labels, weight = data.labels[rows], data.weight[rows]
    share = weight / weight.sum()
    estimator.network_log_loss_ = float(share @ chosen.losses[rows])
    estimator.history_ = networks.result.history
    estimator.n_iter_ = networks.model.n_taken
    held_out = path.held_out.first_rows(len(linear.log_losses))
    estimator.linear_log_loss_ = held_out.mean(linear.log_losses).mean
    estimator.is_linear_ = not is_better(chosen.difference(linear.log_losses, held_out))
    if estimator.is_linear_:
        _set_linear(estimator, data, tune(problem, [], logistic=True), seed)
        return
    if problem.known_noise is None:
        plain = min(path.points.values(), key=path.loss)
        model = _fit_linear(data, Tuning(Candidate(plain.alpha, math.inf)), None, seed)
        estimator._baseline = Baseline(model.coef_, model.intercept_)
    estimator._noise = chosen.noise
    estimator._logits = NetworkScores.from_model(networks.model, inputs)
    estimator.link_ = CalibratedLink.from_map(chosen.learned.map)
    estimator.oof_score_ = float(share @ (chosen.log_p.argmax(1) == labels))
    estimator._calibrate_folds(chosen.log_p, labels, weight)
    estimator._oof = np.full((len(data.y), data.n_classes), np.nan)
    estimator._oof[rows] = swap_classes(chosen.log_p)
    estimator._oof_of = joblib.hash((data.X, data.y, data.weight)), joblib.hash(data.groups)


def _fit_without_folds(estimator: Any, data: FitData) -> None:
    """Logistic regression of a usual strength, where no row can be held out."""
    if data.groups is not None or is_learned(estimator.label_noise):
        which = "groups" if data.groups is not None else spell("label_noise", estimator.label_noise)
        raise ValueError(
            f"{which} needs held-out rows of classes that the other rows have too, and there are none; leave it out."
        )
    estimator.is_linear_, estimator.n_iter_ = True, 0
    estimator.network_log_loss_ = estimator.linear_log_loss_ = float("nan")
    _set_linear(estimator, data, Tuning(Candidate(FALLBACK_ALPHA, math.inf)), 0)


def _set_linear(estimator: Any, data: FitData, choice: Tuning, seed: int) -> None:
    """Fit logistic regression as it was chosen, and predict by it."""
    given = None if isinstance(estimator.label_noise, str) else estimator.label_noise
    held_out, model = choice.held_out, _fit_linear(data, choice, given, seed)
    estimator.oof_score_ = float("nan")
    if held_out is not None:
        right = (held_out.log_p.argmax(1) == held_out.labels).to(held_out.weight)
        estimator.oof_score_ = float(held_out.weight @ right / held_out.weight.sum())
    estimator._logits = LinearScores(torch.as_tensor(model.coef_), torch.as_tensor(model.intercept_))
    estimator.link_ = model.link_.double()
    estimator._noise, estimator._sets, estimator._baseline = model._noise, model._sets, model._baseline


def _fit_linear(data: FitData, choice: Tuning, noise: Any, seed: int) -> MultinomialLogisticClassifier:
    model = MultinomialLogisticClassifier(label_noise=noise)
    fit_rows(model, data, seed, choice=choice)
    return model


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
