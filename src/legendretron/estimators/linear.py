"""A fitted linear predictor with a link on it: how it predicts, and what is saved of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.chunks import chunks, chunks_in_cache
from legendretron._internal.fields import BOOLEAN, OBJECT, array, check_fields, list_of, number, optional
from legendretron._internal.parameters import spell
from legendretron._internal.sklearn_compat import check_features
from legendretron.accelerate.predictions import RowProbabilities, row_probabilities
from legendretron.estimators.convex import freeze, get_link, is_fixed
from legendretron.estimators.fit_data import swap_classes
from legendretron.estimators.label_quality import LabelQuality
from legendretron.estimators.persistence import LINK_FIELDS, SavedModel, link_parts_from_state, link_parts_to_state
from legendretron.estimators.saved_classes import classes_from_state
from legendretron.estimators.standardization import Standardized
from legendretron.links import Link, SoftmaxLink
from legendretron.links.persistence import link_from_state, link_to_state
from legendretron.training import History
from legendretron.tuning.table import Tuning, check_strengths

_PRECISIONS = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}
_MOMENTS = ("first", "second", "count")
_FIELDS = {
    **LINK_FIELDS,
    "given_link": optional(OBJECT),
    "given_link_is_fixed": BOOLEAN,
    "coef": array(None, None, dtype=("float32", "float64")),
    "intercept": array(None, dtype=("float32", "float64")),
    "units": OBJECT,
    "moments": optional(OBJECT),
    "history": OBJECT,
    "strengths": list_of(number(0.0, finite=False), least=2),
    "tuning": optional(OBJECT),
    "gradient_norm": optional(number(0.0)),
    "converged": optional(BOOLEAN),
}


class LinearPredictor(SavedModel, LabelQuality):
    """Base of the classifiers that put a link on a linear predictor: what was fitted, and what can be done with it."""

    coef_: np.ndarray
    intercept_: np.ndarray
    history_: History
    n_iter_: int
    alpha_: float
    link_alpha_: float
    gradient_norm_: float
    converged_: bool
    _standardized: Standardized
    _tuning: Tuning | None = None

    # --- predicting ---

    def linear_predictor(self, X: Any) -> np.ndarray:
        """Predictors ``z`` of shape (n_samples, n_classes - 1), which the link maps to probabilities.

        They compare the first ``n_classes - 1`` classes with the last one; with two classes, the second with the first.
        """
        return self._predictor(self._check_features(X))

    def _check_features(self, X: Any) -> Any:
        check_is_fitted(self)
        return check_features(self, X, accept_sparse="csr", dtype=self.coef_.dtype, order="C", reset=False)

    def _predictor(self, X: Any) -> np.ndarray:
        z: np.ndarray = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return z

    def _precision(self) -> np.dtype[Any]:
        return self.coef_.dtype

    def _predict_by_link(
        self, X: Any, *, log: bool, out: np.ndarray | None = None
    ) -> Iterator[tuple[slice, np.ndarray]]:
        sparse, n, n_classes = scipy.sparse.issparse(X), X.shape[0], len(self.classes_)
        compiled = self._compile_link()
        out = None if n_classes == 2 else out  # where classes are swapped
        # A parameter of the link that is infinite need not show in the probabilities, nor a coefficient in those of sparse
        # rows; all else that is not finite does.
        if compiled is None or sparse or not compiled.finite:
            self._check_weights(only_link=not sparse)
        if compiled is None:
            for rows in chunks(n, n_classes):
                yield rows, self._plain(X, rows, log)
            return
        weight = self.coef_.T
        parts = chunks_in_cache(n, n_classes)
        room = np.empty((parts[0].stop if parts else 0, n_classes - 1), dtype=weight.dtype)
        for rows in parts:
            z = room[: rows.stop - rows.start]
            part = np.empty((len(z), n_classes), dtype=z.dtype) if out is None else out[rows]
            with np.errstate(over="ignore", invalid="ignore"):  # checked below
                if sparse:
                    z = np.ascontiguousarray(self._predictor(X[rows]))
                else:
                    np.matmul(X[rows], weight, out=z)
                    z += self.intercept_
            # plain operations raise, unless rounding differs
            yield rows, swap_classes(part) if compiled(z, log=log, out=part) else self._plain(X, rows, log)

    def _compile_link(self) -> RowProbabilities | None:
        """Return the link as a compiled function, or None if it has none."""
        if self.coef_.dtype != self.intercept_.dtype or self.coef_.dtype not in _PRECISIONS:
            return None
        return row_probabilities(self.link_, _PRECISIONS[self.coef_.dtype])

    def _plain(self, X: Any, rows: slice, log: bool) -> np.ndarray:
        """What compiled functions compute, by operations of torch."""
        with torch.no_grad(), np.errstate(over="ignore", invalid="ignore"):  # checked below
            log_p: np.ndarray = self.link_(torch.as_tensor(self._predictor(X[rows]))).numpy()
        if not np.isfinite(log_p).all():
            self._check_weights()
            row = rows.start + int(np.flatnonzero(~np.isfinite(log_p).all(axis=1))[0])
            raise ValueError(
                f"row {row} of {spell('X')} has features so large that its probabilities are not finite in {log_p.dtype}; "
                f"scale them as in the fit, or fit again with a lower {spell('learning_rate')} if they were as large."
            )
        part: np.ndarray = swap_classes(log_p if log else np.exp(log_p))
        return part

    def _check_weights(self, *, only_link: bool = False) -> None:
        of_link = [p.detach().reshape(-1) for p in self.link_.parameters()]
        weights = [torch.cat(of_link).numpy()] if of_link else []  # one check instead of many
        if not only_link:
            weights += [self.coef_, self.intercept_]
        if not all(np.isfinite(values).all() for values in weights):
            raise ValueError(
                "coef_, intercept_ or the parameters of link_ are not finite, so the fit has diverged; fit again with a "
                f"lower {spell('learning_rate')}, or with scaled features."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # --- saving ---

    def to_state(self) -> dict[str, Any]:
        """See :meth:`SavedModel.to_state`."""
        self._check_weights()
        units, tuning, link = self._standardized, self._tuning, getattr(self, "link", None)
        given = get_link(link)  # a loss is saved as its link
        return {
            **link_parts_to_state(self),
            "given_link": link_to_state(given) if isinstance(given, Link) else None,  # link_ is its trained copy
            "given_link_is_fixed": isinstance(given, Link) and (is_fixed(given) or given is not link),
            "coef": self.coef_,
            "intercept": self.intercept_,
            "units": {"mean": units.mean, "scale": units.scale, "weight": units.weight, "bias": units.bias},
            "moments": None if units.moments is None else dict(zip(_MOMENTS, units.moments, strict=True)),
            "strengths": [self.alpha_, self.link_alpha_],
            "tuning": None if tuning is None else tuning.to_state(),
            "gradient_norm": getattr(self, "gradient_norm_", None),
            "converged": getattr(self, "converged_", None),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """See :meth:`SavedModel.from_state`."""
        n_classes = _check_state(state)
        given = _decode_given_link(state, n_classes)
        estimator: Self = link_parts_from_state(cls, state, state["coef"].shape[1], **given)
        estimator.coef_, estimator.intercept_ = state["coef"].numpy(), state["intercept"].numpy()
        if any(p.dtype != state["coef"].dtype for p in estimator.link_.parameters()):
            raise ValueError(f"link must have parameters of {state['coef'].dtype}, as coef.")
        if "link" not in cls._get_param_names() and not isinstance(estimator.link_, SoftmaxLink):
            raise ValueError(f"link must be softmax in a {cls.__name__}, got {type(estimator.link_).__name__}.")
        estimator._standardized = _decode_units(state, estimator.link_)
        estimator.alpha_, estimator.link_alpha_ = check_strengths(state["strengths"])
        estimator._tuning = None if state["tuning"] is None else Tuning.from_state(state["tuning"])
        if state["gradient_norm"] is not None:
            estimator.gradient_norm_, estimator.converged_ = float(state["gradient_norm"]), state["converged"]
        estimator._check_weights()
        return estimator


def _check_state(state: dict[str, Any]) -> int:
    """Check what does not depend on the link; return the number of classes."""
    check_fields("the state", state, _FIELDS)
    n_classes = len(classes_from_state(state["classes"]))
    k, d = n_classes - 1, state["coef"].shape[1]
    dtype = str(state["coef"].dtype).removeprefix("torch.")
    shapes = {"coef": array(k, d, dtype=dtype), "intercept": array(k, dtype=dtype)}
    check_fields("the state", {name: state[name] for name in shapes}, shapes)
    units = {"mean": array(d), "scale": array(d), "weight": array(d, k, dtype=dtype), "bias": array(k, dtype=dtype)}
    check_fields("units", state["units"], units)
    if d == 0 or not bool((state["units"]["scale"] > 0.0).all()):
        raise ValueError("coef must have a column for each feature, and scale must be positive.")
    if (state["gradient_norm"] is None) != (state["converged"] is None):
        raise ValueError("gradient_norm and converged must both be present, or both be null.")
    return n_classes


def _decode_units(state: dict[str, Any], link: Link) -> Standardized:
    units, moments = state["units"], state["moments"]
    if moments is not None:
        trained = state["coef"].numel() + state["intercept"].numel() + sum(p.numel() for p in link.parameters())
        of_trained = array(1, trained, dtype=str(state["coef"].dtype).removeprefix("torch."))
        check_fields("moments", moments, {"first": of_trained, "second": of_trained, "count": array()})
        if bool((moments["second"] < 0.0).any()) or float(moments["count"]) < 0.0:
            raise ValueError("second and count of moments must not be negative.")
        moments = tuple(moments[name] for name in _MOMENTS)
    return Standardized(units["mean"].numpy(), units["scale"].numpy(), units["weight"], units["bias"], moments)


def _decode_given_link(state: dict[str, Any], n_classes: int) -> dict[str, Any]:
    """The parameter ``link``, if it was an object."""
    given = state["given_link"]
    if (given is None) == (state["parameters"].get("link") == "object"):
        raise ValueError("given_link must be present if, and only if, the parameter link is 'object'.")
    if given is None:
        if state["given_link_is_fixed"]:
            raise ValueError("given_link must be present if given_link_is_fixed is true.")
        return {}
    if given.get("n_classes") != n_classes:
        raise ValueError(f"n_classes of given_link must be {n_classes}, the number of classes.")
    link = link_from_state(given)
    return {"link": freeze(link) if state["given_link_is_fixed"] else link}
