"""LegendreNet: small networks, cross-validated, behind a link that is learned on rows they have not seen."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import joblib
import numpy as np
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from legendretron._internal.chunks import chunks_in_cache
from legendretron._internal.features import check_features
from legendretron._internal.fields import BOOLEAN, OBJECT, check_fields, list_of, number, one_of
from legendretron._internal.parameters import ParameterError, spell
from legendretron._internal.sklearn_compat import Interval, StrOptions, restore_on_error, validates_parameters
from legendretron._internal.validation import check_device
from legendretron.calibration.link import CalibratedLink
from legendretron.estimators.fit_data import FitData, check_rows, swap_classes
from legendretron.estimators.label_noise import FittedNoise, how_to_find_noise, is_learned, read_label_noise
from legendretron.estimators.label_quality import LabelQuality
from legendretron.estimators.multinomial import MultinomialLogisticClassifier
from legendretron.estimators.onnx import predictor_model
from legendretron.estimators.persistence import LINK_FIELDS, SavedModel, link_parts_from_state, link_parts_to_state
from legendretron.estimators.saved_classes import classes_from_state
from legendretron.estimators.settings import SHARED_CONSTRAINTS, draw_seed
from legendretron.estimators.standardization import Standardizer
from legendretron.estimators.votes import fit_votes
from legendretron.links import LabelNoise, Link, SoftmaxLink, SymmetricNoise
from legendretron.networks.folds import LabeledTable, held_out_logits, logits_of, train_folds
from legendretron.networks.held_out import LabeledPair, find_noise, learn_map
from legendretron.networks.inputs import NetworkInputs
from legendretron.networks.model import FoldSettings, NetworkModel
from legendretron.networks.predictor import LinearScores, NetworkScores
from legendretron.training import History, TrainingResult, as_features
from legendretron.tuning.folds import Fold, make_folds
from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.problem import LabeledRows, TuningProblem
from legendretron.tuning.rules import link_folds_for
from legendretron.tuning.scores import SURE_ERRORS
from legendretron.tuning.tune import FALLBACK_ALPHA

#: Powers of ten at which strengths of logistic regression are tried at most, and the rise of the loss that ends the search.
_DECADES, _CLEARLY = 7, 0.02
#: Numbers of features, times classes, up to which logistic regression is fitted faster on the CPU than on a GPU.
_MOST_ON_CPU = 2**20
#: Standard errors by which networks must beat logistic regression on held-out rows.
_MUST_GAIN = 1.0


_FIELDS = {
    **LINK_FIELDS,
    "precision": one_of("float32", "float64"),
    "is_linear": BOOLEAN,
    "scores": OBJECT,
    "held_out": list_of(number(finite=False), least=3),
}


class _ScoresLink(nn.Module):
    """From features to log-probabilities in the order of ``classes_``."""

    def __init__(self, scores: nn.Module, link: Link) -> None:
        super().__init__()
        self.scores, self.link = scores, link

    def forward(self, x: Tensor) -> Tensor:
        log_p: Tensor = swap_classes(self.link._log_proba_of_logits(self.scores(x))).to(x.dtype)
        return log_p


class _Networks(NamedTuple):
    """Trained networks, and their logits of rows that they have not seen; NaN for rows that were never held out."""

    model: NetworkModel
    result: TrainingResult
    each: np.ndarray  #: in every repeat, (k, N, C)

    @property
    def logits(self) -> np.ndarray:
        """Means over the repeats, (N, C)."""
        mean: np.ndarray = self.each.mean(0)
        return mean


class LegendreNetClassifier(SavedModel, LabelQuality):
    r"""Ensemble of small networks, one for each cross-validation fold, with a link that is learned out of fold.

    .. math:: p(x) = \psi^{-1}\Bigl(\frac1F \sum_f z_f(x)\Bigr)

    Each network :math:`z_f` is trained without a fifth of the rows, and stops at the step that predicts these held-out rows
    best. The link :math:`\psi` is learned on the logits of held-out rows. Logistic regression is fitted to the same
    folds, and is used in place of the networks if it is as good, within one standard error.

    Parameters
    ----------
    hidden_layers : tuple of int or "auto", default="auto"
        Units of the hidden layers. ``"auto"`` is (128, 128), or (64, 64) below 1,000 rows.
    n_folds : int, default=5
        Number of folds, each held out once. Below 1,000 rows everything is done twice, with different folds.
    max_steps : int or "auto", default="auto"
        Training steps, each on 64 rows or more. ``"auto"`` is the number of rows, but at least 1,000 and at most 12,000. A
        fold stops earlier if its held-out log-loss no longer improves.
    learning_rate : float, default=0.04
        Largest learning rate of Adam, in a schedule of four cycles.
    dropout : float, default=0.15
        Dropout probability of hidden units; it decreases to zero in the second half of the training.
    weight_decay : float, default=0.02
        Weight decay, in units of the learning rate; it decreases in the same way.
    label_smoothing : float, default=0.1
        Share of each label that is spread over all classes in training; the link corrects for it.
    label_noise : {"auto", "symmetric", "class-conditional"}, float, array-like or None, default="auto"
        Wrong labels in ``y``, as in :class:`~legendretron.LegendreTronClassifier`; they are detected from held-out
        predictions. If there are any, the networks are trained again, with a loss that allows for them.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    device : str, default="cpu"
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or ``"auto"`` for a GPU if there is one. The fitted model is on the CPU.
    dtype : {"float32", "float64"}, default=None
        Precision of the networks; ``None`` is float32.
    random_state : int, RandomState or None, default=None
        Seed of the folds, the initialization and the order of batches.
    verbose : int, default=0
        1: a progress bar on a terminal. 2: fifty lines of progress per network.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    link_ : Link
        The learned link, a torch module; its classes are in the order of ``link_classes_``.
    loss_ : CanonicalLoss or CompositeLoss
        The learned loss: the log-loss through the link.
    is_linear_ : bool
        Whether logistic regression was as good, and is used for predictions.
    network_log_loss_, linear_log_loss_ : float
        Log-losses on held-out rows; the first is NaN if no row could be held out.
    oof_score_ : float
        Out-of-fold accuracy of the model that is used; NaN if no row could be held out.
    oof_proba_ : ndarray of shape (n_samples, n_classes)
        Out-of-fold probabilities of the training rows, by the networks; NaN for rows that could not be held out. Not saved,
        and not there if ``is_linear_``.
    noise_rate_, noise_rate_interval_, noise_matrix_
        As in :class:`~legendretron.LegendreTronClassifier`.
    set_calibration_ : SetCalibration
        The rows that :meth:`predict_set` is calibrated on, and the coverage that they guarantee.
    link_classes_ : ndarray of shape (n_classes,)
        ``classes_`` in the order of the link: with two classes the second comes first.
    history_ : History
        Losses, accuracy, learning rate and time of each network, at fifty points of the training.
    n_iter_ : int
        Number of training steps.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The architecture and its training use known techniques, see the reference: robust scaling with smooth clipping, a learned
    scale for each input, the neural tangent parametrization, and SELU with a learned share of the identity.

    For sparse features, or tables that are read in batches, use :class:`~legendretron.LegendreTronClassifier`.

    References
    ----------
    Holzmueller, Grinsztajn, Steinwart (2024), Better by Default: Strong Pre-Tuned MLPs and Boosted Trees on Tabular Data,
    NeurIPS.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LegendreNetClassifier(max_steps=200, random_state=0).fit(X, y)
    >>> clf.predict_proba(X[:1]).shape
    (1, 3)
    >>> clf.score(X, y) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: SHARED_CONSTRAINTS[name]
            for name in ("label_noise", "class_weight", "device", "dtype", "random_state", "verbose")
        },
        "hidden_layers": [StrOptions({"auto"}), "array-like"],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "max_steps": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "label_smoothing": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(
        self,
        hidden_layers: Any = "auto",
        *,
        n_folds: int = 5,
        max_steps: int | str = "auto",
        learning_rate: float = 0.04,
        dropout: float = 0.15,
        weight_decay: float = 0.02,
        label_smoothing: float = 0.1,
        label_noise: Any = "auto",
        class_weight: dict[Any, float] | str | None = None,
        device: str = "cpu",
        dtype: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layers = hidden_layers
        self.n_folds = n_folds
        self.max_steps = max_steps
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.label_smoothing = label_smoothing
        self.label_noise = label_noise
        self.class_weight = class_weight
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    history_: History
    oof_proba_: np.ndarray
    _logits: LinearScores | NetworkScores

    # --- fitting ---

    @validates_parameters
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the networks, the link and, for comparison, logistic regression.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, dense.
        y : array of shape (n_samples,), or array or data frame of shape (n_samples, n_classes)
            Class labels, numbers or strings, of at least two classes. Or soft labels: probabilities of the classes, which sum
            to 1 in each row; classes are then the column names of a data frame, or 0 to ``n_classes - 1`` for an array.
        sample_weight : array of shape (n_samples,), optional
            Non-negative weights, not all zero.
        groups : array of shape (n_samples,), optional
            Group of each row, such as a patient. Rows of a group are held out together.

        Returns
        -------
        self
        """
        with restore_on_error(self):
            self._refuse_sparse(X)
            self._check_layers()
            data = check_rows(self, X, y, sample_weight, groups, dtype=[np.float64, np.float32]).normalize()
            self.classes_, self._dtype = data.classes, data.X.dtype
            self._fit(data)
            if data.copies is not None and hasattr(self, "oof_proba_"):
                self.oof_proba_ = self.oof_proba_[np.unique(data.copies, return_index=True)[1]]
        return self

    def _check_layers(self) -> None:
        given = np.asarray((1,) if isinstance(self.hidden_layers, str) else self.hidden_layers)
        if given.ndim != 1 or not len(given) or given.dtype.kind not in "iu" or (given < 1).any():
            raise ParameterError(
                "hidden_layers", f"must be positive numbers of units, such as (128, 128), got {self.hidden_layers!r}."
            )

    def _refuse_sparse(self, X: Any) -> None:
        if scipy.sparse.issparse(X):
            raise ValueError(
                f"X is a sparse matrix, but {type(self).__name__} takes dense features only; LegendreTronClassifier takes "
                "sparse ones, or give X.toarray()."
            )

    def _fit(self, data: FitData) -> None:
        how = how_to_find_noise(self.label_noise, self.class_weight)
        seed, known = draw_seed(self.random_state), read_label_noise(self.label_noise, data.n_classes)

        def fit(data: FitData, find_noise: str | None) -> None:
            self._fit_folds(data, seed, known, find_noise or how)

        def predict() -> np.ndarray:
            p, copies = self._predict_all(data.X, log=False).astype(np.float64), data.copies
            if copies is not None and hasattr(
                self, "oof_proba_"
            ):  # networks know the rows that they were trained on by heart
                held = np.flatnonzero(np.isfinite(self.oof_proba_).all(1))
                of_row = np.full(int(copies.max()) + 1, -1)
                of_row[copies[held]] = held
                seen = of_row[copies] >= 0
                p[seen] = self.oof_proba_[of_row[copies[seen]]]
            return p[np.arange(len(p)), data.places]

        if data.copies is None:
            fit(data, None)
        else:
            fit_votes(self, data, data.copies, fit, predict, combine=how == "if it helps")

    def _fit_folds(self, data: FitData, seed: int, known: LabelNoise | None, how: str) -> None:
        """Fit with noise that is known or looked for."""
        device = check_device(self.device)
        settings = FoldSettings.for_rows(len(data.rows))._replace(
            learning_rate=float(self.learning_rate),
            dropout=float(self.dropout),
            weight_decay=float(self.weight_decay),
            label_smoothing=float(self.label_smoothing),
            seed=seed,
            verbose=int(self.verbose),
        )
        if not isinstance(self.hidden_layers, str):
            settings = settings._replace(hidden=tuple(map(int, self.hidden_layers)))
        if self.max_steps != "auto":
            settings = settings._replace(n_steps=int(self.max_steps))
        repeats = [
            make_folds(int(self.n_folds), data.X, data.y, data.rows, data.groups, seed + number, data.copies)
            for number in range(settings.n_repeats)
        ]
        for name in ("oof_proba_", "_oof_of", "_noise", "_sets", "history_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if not repeats[0]:
            self._fit_without_folds(data, known)
            return
        small = data.X.size * data.n_classes <= _MOST_ON_CPU
        beside = torch.device("cpu") if small else device
        problem = self._make_problem(data, repeats[0], known, beside, seed)
        path = LogisticPath(problem)
        linear = _search_coarsely(path)
        dtype = torch.float64 if self.dtype == "float64" else torch.float32
        inputs = NetworkInputs.fit(data.X[data.rows], getattr(self, "feature_names_in_", None))
        table = LabeledTable(
            as_features(inputs.transform(data.X, dtype), dtype, device),
            inputs,
            torch.as_tensor(data.labels, device=device),
            torch.as_tensor(data.weight, dtype=dtype, device=device),
            data.n_classes,
        )

        def train(noise: LabelNoise | None) -> _Networks:
            folds = [fold for one in repeats for fold in one]
            model, result = train_folds(table, folds, settings, noise)
            return _Networks(model, result, held_out_logits(model, result, table, repeats))

        networks = train(known)
        if not np.isfinite(networks.logits).all(1).any():  # of a handful of rows, none was held out in all repeats
            self._fit_without_folds(data, known)
            return
        noise, found = known, None
        if known is not None:
            observed = np.bincount(data.labels[data.rows], data.weight[data.rows], data.n_classes)
            found = FittedNoise.from_noise(known, observed / observed.sum(), known=True)
        elif how != "never":
            trained = [networks]

            def train_with(noise: LabelNoise) -> LabeledPair:
                trained.append(train(noise))
                return self._labeled(trained[-1], table, data, repeats)

            rates, matrix = find_noise(problem, self._labeled(networks, table, data, repeats), train_with, how)
            found = FittedNoise(data.n_classes, rates, known=False, matrix=matrix)
            if matrix is not None:
                networks, noise = trained[-1], found.make_noise()
            elif rates.rate > 0.0:
                # a link that expects too much noise is far too sure, one that expects too little is only a little timid
                cautious = rates.rate - (rates.rate - rates.low) / SURE_ERRORS
                networks = trained[-1]
                noise = SymmetricNoise(data.n_classes, cautious, learned=False, dtype=torch.float64)
        if found is not None:
            self._noise = found
        # rows that belong together are in one fold of the link, too
        together = repeats[0] if data.groups is not None or data.copies is not None else None
        self._choose(data, networks, noise, path, linear, inputs, together)

    def _make_problem(
        self, data: FitData, folds: list[Fold], known: LabelNoise | None, device: torch.device, seed: int
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
        )

    def _labeled(
        self, networks: _Networks, table: LabeledTable, data: FitData, repeats: list[list[Fold]]
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
        self,
        data: FitData,
        networks: _Networks,
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
            for number, (_, held) in enumerate(folds):
                fold[held] = number
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
        expected[rows] -= _gain_of_mean(len(of_each), networks.model.n_runs) * (
            losses_of(of_each).mean(0) - losses[rows]
        )
        share = data.weight[rows] / data.weight[rows].sum()
        both = path.held_out.first(len(linear.fitted.weight))
        away = both.difference(expected[both.row], linear.log_losses)
        self.network_log_loss_ = float(share @ losses[rows])
        self.linear_log_loss_ = both.mean(linear.log_losses).mean
        self.history_ = networks.result.history
        self.n_iter_ = networks.model.n_taken
        # logistic regression that knows of no wrong labels is no match where there are some
        informed = noise is None or path.problem.known_noise is not None
        self.is_linear_ = informed and not away.mean < -_MUST_GAIN * away.error
        if self.is_linear_:
            linear = path.search()  # worth a closer look
            self._set_linear(data, linear.alpha)
            log_p, labels, weight = (part.cpu().numpy() for part in path.predict(linear.fitted)[0])
            self.oof_score_ = float(weight @ (log_p.argmax(1) == labels) / weight.sum())
            self._calibrate_folds(log_p, labels, weight)
            return
        self._logits = NetworkScores.from_model(networks.model, inputs)
        self.link_ = CalibratedLink.from_map(learned.map)
        self.oof_score_ = float(share @ (log_p.argmax(1) == data.labels[rows]))
        self._calibrate_folds(log_p, *of_rows[1:])
        self.oof_proba_ = np.full((len(data.y), data.n_classes), np.nan)
        self.oof_proba_[rows] = swap_classes(np.exp(log_p))
        self._oof_of = joblib.hash((data.X, data.y))

    def _fit_without_folds(self, data: FitData, known: LabelNoise | None) -> None:
        """Logistic regression of a usual strength, where no row can be held out."""
        if data.groups is not None or is_learned(self.label_noise):
            which = "groups" if data.groups is not None else spell("label_noise", self.label_noise)
            raise ValueError(
                f"{which} needs held-out rows of classes that the other rows have too, and there are none; leave it "
                "out."
            )
        if known is not None:
            self._noise = FittedNoise.from_noise(known, np.bincount(data.labels) / len(data.labels), known=True)
        self.is_linear_, self.n_iter_ = True, 0
        self.network_log_loss_ = self.linear_log_loss_ = self.oof_score_ = float("nan")
        self._set_linear(data, FALLBACK_ALPHA)

    def _set_linear(self, data: FitData, alpha: float) -> None:
        known = self._noise is not None and self._noise.rate > 0.0
        assumed = self.noise_matrix_ if known else None
        model = MultinomialLogisticClassifier(alpha=alpha, label_noise=assumed, random_state=0)
        model.fit(data.X, data.y, sample_weight=data.weight)
        self._logits = LinearScores(torch.as_tensor(model.coef_), torch.as_tensor(model.intercept_))
        self.link_ = model.link_.double()

    # --- predicting ---

    def linear_predictor(self, X: Any) -> np.ndarray:
        """Predictors ``z`` of shape (n_samples, n_classes - 1), which the link maps to probabilities.

        They are the mean logits of the networks minus that of the last class; with two classes, second minus first.
        """
        with torch.no_grad():
            logits = self._logits(torch.from_numpy(self._check_features(X).copy())).numpy()
        predictor: np.ndarray = (logits[:, :-1] - logits[:, -1:]).astype(self._dtype)
        return predictor

    def _check_features(self, X: Any) -> Any:
        check_is_fitted(self)
        self._refuse_sparse(X)
        return check_features(self, X, dtype=self._dtype, order="C", reset=False)

    def _precision(self) -> np.dtype[Any]:
        return self._dtype

    def _predict_by_link(self, X: Any, *, log: bool) -> Iterator[tuple[slice, np.ndarray]]:
        for rows in chunks_in_cache(len(X), max(self._logits.n_features, 4 * len(self.classes_))):
            with torch.no_grad():
                log_p = self.link_(self._logits(torch.from_numpy(X[rows].copy())), all_classes=True)
            values = swap_classes((log_p if log else log_p.exp()).numpy()).astype(self._dtype)
            if not np.isfinite(values).all():
                row = rows.start + int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
                raise ValueError(
                    f"row {row} of {spell('X')} has features so large that its probabilities are not finite; scale them as "
                    "in the fit."
                )
            yield rows, values

    def _out_of_fold(self, X: Any, y: np.ndarray, cv: Any, groups: Any) -> np.ndarray:
        """As in the base class; for the rows of the fit and a number of folds, what the fit has found already."""
        known = getattr(self, "oof_proba_", None)
        if known is None or not isinstance(cv, Integral) or groups is not None or not np.isfinite(known).all():
            return super()._out_of_fold(X, y, cv, groups)
        if self._oof_of == joblib.hash((X, y)):
            log_p: np.ndarray = np.log(np.maximum(known, np.finfo(np.float64).tiny))
            return log_p
        return super()._out_of_fold(X, y, cv, groups)

    def _refit(self, X: Any, y: np.ndarray) -> LegendreNetClassifier:
        """See :meth:`LabelQuality._refit`."""
        assumed: Any = None
        if self._noise is not None and self._noise.matrix is not None:
            assumed = self._noise.matrix_by_classes()
        elif self._noise is not None and self._noise.rate > 0.0:
            assumed = self._noise.rate
        return clone(self).set_params(verbose=0, label_noise=assumed).fit(X, y)

    # --- saving and exporting ---

    def to_state(self) -> dict[str, Any]:
        """See :meth:`SavedModel.to_state`."""
        return {
            **link_parts_to_state(self),
            "precision": self._dtype.name,
            "is_linear": self.is_linear_,
            "scores": self._logits.to_state(),
            "held_out": [self.network_log_loss_, self.linear_log_loss_, self.oof_score_],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """See :meth:`SavedModel.from_state`."""
        check_fields("the state", state, _FIELDS)
        layers = state["parameters"].get("hidden_layers")
        given = {"hidden_layers": tuple(layers)} if isinstance(layers, list) else {}
        scores = LinearScores if state["is_linear"] else NetworkScores
        logits = scores.from_state(state["scores"], len(classes_from_state(state["classes"])))
        estimator: Self = link_parts_from_state(cls, state, logits.n_features, **given)
        estimator._check_layers()
        estimator._logits, estimator._dtype = logits, np.dtype(state["precision"])
        estimator.link_.double()
        if len(state["held_out"]) != 3:
            raise ValueError(f"held_out must be three numbers, got {len(state['held_out'])}.")
        estimator.network_log_loss_, estimator.linear_log_loss_, estimator.oof_score_ = map(float, state["held_out"])
        estimator.is_linear_ = state["is_linear"]
        return estimator

    def _onnx_model(self, feature_names: np.ndarray | None) -> Any:
        """The ``onnx.ModelProto``, see ``to_onnx``."""
        example = torch.zeros(2, self.n_features_in_, dtype=getattr(torch, self._dtype.name))
        return predictor_model(_ScoresLink(self._logits, self.link_), example, self.classes_, feature_names)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "link_")


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
