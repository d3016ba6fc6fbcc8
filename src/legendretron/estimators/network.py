"""LegendreNet: small networks, cross-validated, behind a link that is learned on rows they have not seen."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import joblib
import numpy as np
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from legendretron._internal.chunks import chunks_in_cache
from legendretron._internal.fields import BOOLEAN, OBJECT, check_fields, list_of, number, one_of
from legendretron._internal.parameters import ParameterError, spell
from legendretron._internal.sklearn_compat import (
    Interval,
    StrOptions,
    check_features,
    restore_on_error,
    validates_parameters,
)
from legendretron.estimators.fit_data import FitData, apply_class_weight, check_rows, swap_classes
from legendretron.estimators.label_noise import is_learned, tell_noise
from legendretron.estimators.label_quality import LabelQuality
from legendretron.estimators.network_fit import fit_folds
from legendretron.estimators.persistence import LINK_FIELDS, SavedModel, link_parts_from_state, link_parts_to_state
from legendretron.estimators.saved_classes import classes_from_state
from legendretron.estimators.settings import SHARED_CONSTRAINTS, draw_seed
from legendretron.estimators.votes import fit_votes
from legendretron.links import Link
from legendretron.networks.predictor import LinearScores, NetworkScores
from legendretron.training import History

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
        As in :class:`~legendretron.LegendreTronClassifier`. ``"auto"`` tries a noise floor, but no matrix, if held-out
        predictions suggest it: the networks are trained again with a loss that allows for it, and are used if they predict
        recorded labels better.
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
    noise_rate_, noise_rate_interval_, noise_matrix_, predicts_recorded_
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
    _oof_of: tuple[str, str]  #: fingerprints of its rows, and of their groups
    _logits: LinearScores | NetworkScores
    #: Out-of-fold log-probabilities of the training rows, without noise.
    _oof: np.ndarray | None = None

    @property
    def oof_proba_(self) -> np.ndarray:
        """Out-of-fold probabilities of the training rows, by the networks; NaN for rows that could not be held out."""
        check_is_fitted(self)
        if self._oof is None:
            raise AttributeError(
                f"this {type(self).__name__} has no oof_proba_: logistic regression is used for predictions, or the model "
                "was loaded from a file."
            )
        return np.exp(self._add_noise(self._oof.copy(), log=True))

    # --- fitting ---

    @validates_parameters
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the networks, the link and, for comparison, logistic regression.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, dense.
        y, sample_weight, groups
            Labels or soft labels, weights and groups, as in the ``fit`` of :class:`~legendretron.LegendreTronClassifier`.

        Returns
        -------
        self
        """
        with restore_on_error(self):
            self._refuse_sparse(X)
            self._check_layers()
            data = check_rows(self, X, y, sample_weight, groups, dtype=[np.float64, np.float32]).normalize()
            self.classes_, self._dtype = data.classes, data.X.dtype
            seed = draw_seed(self.random_state)

            def fit(data: FitData) -> None:
                fit_folds(self, data, seed)

            if data.copies is None:
                fit(data)
            else:
                combine = is_learned(self.label_noise)
                fit_votes(data, data.copies, fit, lambda: self._predict_votes(data), combine=combine)
                if self._oof is not None:
                    self._oof = self._oof[np.unique(data.copies, return_index=True)[1]]
        tell_noise(self._noise, stacklevel=3)
        return self

    def _predict_votes(self, data: FitData) -> np.ndarray:
        """Probabilities of the labels of copies, from networks that were not trained on the row where there are some."""
        p, copies = self._predict_all(data.X, log=False).astype(np.float64), data.copies
        if copies is not None and self._oof is not None:
            oof = self.oof_proba_
            held = np.flatnonzero(np.isfinite(oof).all(1))
            of_row = np.full(int(copies.max()) + 1, -1)
            of_row[copies[held]] = held
            seen = of_row[copies] >= 0
            p[seen] = oof[of_row[copies[seen]]]
        return p[np.arange(len(p)), data.places]

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

    def _predict_by_link(
        self, X: Any, *, log: bool, out: np.ndarray | None = None
    ) -> Iterator[tuple[slice, np.ndarray]]:
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

    def _out_of_fold(self, X: Any, y: np.ndarray, weight: np.ndarray, cv: Any, groups: Any) -> np.ndarray:
        """As in the base class; for the rows of the fit and a number of folds, what the fit has found already."""
        known = self._oof
        if known is not None and isinstance(cv, Integral) and np.isfinite(known).all():
            own = apply_class_weight(self.class_weight, y, weight)
            of_rows, of_groups = self._oof_of
            same_rows = of_rows == joblib.hash((X, y, own / own.max()))
            if same_rows and (groups is None or of_groups == joblib.hash(np.asarray(groups))):
                return known.copy()
        return super()._out_of_fold(X, y, weight, cv, groups)

    def _refit(self, X: Any, y: np.ndarray, weight: np.ndarray, groups: np.ndarray | None) -> LegendreNetClassifier:
        """See :meth:`LabelQuality._refit`."""
        assumed: Any = None
        if self._noise is not None and self._noise.matrix is not None:
            assumed = self.noise_matrix_
        elif self._noise is not None and self._noise.training > 0.0:
            assumed = self._noise.wrong
        copied = clone(self).set_params(verbose=0, label_noise=assumed)
        return copied.fit(X, y, sample_weight=weight, groups=groups)

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

    def _to_module(self) -> nn.Module:
        """See :meth:`LabelQuality._to_module`."""
        return _ScoresLink(self._logits, self.link_)
