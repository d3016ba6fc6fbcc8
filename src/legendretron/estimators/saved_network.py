"""What is saved of networks and their link, and exported."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from legendretron._internal.fields import (
    BOOLEAN,
    NAMES,
    OBJECT,
    check_fields,
    check_parameters,
    integer,
    list_of,
    number,
    one_of,
    optional,
)
from legendretron._internal.parameters import ParameterError
from legendretron._internal.sklearn_compat import validate_parameters
from legendretron.calibration.prediction_sets import SetCalibration
from legendretron.estimators.classes import swap_classes
from legendretron.estimators.label_noise import FittedNoise
from legendretron.estimators.label_quality import LabelQuality
from legendretron.estimators.linear import decode_class_weight, encode_parameters
from legendretron.estimators.onnx import predictor_model
from legendretron.estimators.persistence import SavedModel
from legendretron.estimators.saved_classes import classes_from_state, classes_to_state
from legendretron.links import Link
from legendretron.links.persistence import link_from_state, link_to_state
from legendretron.networks.predictor import LinearScores, NetworkScores
from legendretron.training import History

_FIELDS = {
    "parameters": OBJECT,
    "classes": OBJECT,
    "feature_names_in": optional(NAMES),
    "precision": one_of("float32", "float64"),
    "is_linear": BOOLEAN,
    "scores": OBJECT,
    "link": OBJECT,
    "label_noise": optional(OBJECT),
    "held_out": list_of(number(finite=False), least=3),
    "n_iter": integer(0),
    "history": optional(OBJECT),
    "sets": optional(OBJECT),
}


class _ScoresLink(nn.Module):
    """From features to log-probabilities in the order of ``classes_``."""

    def __init__(self, scores: nn.Module, link: Link) -> None:
        super().__init__()
        self.scores, self.link = scores, link

    def forward(self, x: Tensor) -> Tensor:
        log_p: Tensor = swap_classes(self.link._log_proba_of_logits(self.scores(x))).to(x.dtype)
        return log_p


class SavedNetworkClassifier(SavedModel, LabelQuality):
    """Base of the classifier that puts a link on networks: what it saves, and exports."""

    hidden_layers: Any
    is_linear_: bool
    network_log_loss_: float
    linear_log_loss_: float
    oof_score_: float
    oof_proba_: np.ndarray
    history_: History
    n_iter_: int
    n_features_in_: int
    feature_names_in_: np.ndarray
    _logits: LinearScores | NetworkScores
    _dtype: np.dtype[Any]
    _oof_of: str

    def _check_layers(self) -> None:
        given = np.asarray((1,) if isinstance(self.hidden_layers, str) else self.hidden_layers)
        if given.ndim != 1 or not len(given) or given.dtype.kind not in "iu" or (given < 1).any():
            raise ParameterError(
                "hidden_layers", f"must be positive numbers of units, such as (128, 128), got {self.hidden_layers!r}."
            )

    def to_state(self) -> dict[str, Any]:
        """See :meth:`SavedModel.to_state`."""
        noise, history, sets = (getattr(self, name, None) for name in ("_noise", "history_", "_sets"))
        return {
            "parameters": encode_parameters(self.get_params(deep=False)),
            "classes": classes_to_state(self.classes_),
            "feature_names_in": list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None,
            "precision": self._dtype.name,
            "is_linear": self.is_linear_,
            "scores": self._logits.to_state(),
            "link": link_to_state(self.link_),
            "label_noise": None if noise is None else noise.to_state(),
            "held_out": [self.network_log_loss_, self.linear_log_loss_, self.oof_score_],
            "n_iter": self.n_iter_,
            "history": None if history is None else history.to_state(),
            "sets": None if sets is None else sets.to_state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """See :meth:`SavedModel.from_state`."""
        check_fields("the state", state, _FIELDS)
        parameters = dict(state["parameters"])
        check_parameters(cls.__name__, parameters, cls._get_param_names())
        decode_class_weight(parameters)
        if isinstance(parameters.get("hidden_layers"), list):
            parameters["hidden_layers"] = tuple(parameters["hidden_layers"])
        estimator = cls(**parameters)
        validate_parameters(estimator)
        estimator._check_layers()
        estimator.classes_ = classes_from_state(state["classes"])
        n_classes = len(estimator.classes_)
        scores = LinearScores if state["is_linear"] else NetworkScores
        estimator._logits = scores.from_state(state["scores"], n_classes)
        estimator.n_features_in_, estimator._dtype = estimator._logits.n_features, np.dtype(state["precision"])
        if (names := state["feature_names_in"]) is not None:
            if len(names) != estimator.n_features_in_:
                raise ValueError(f"feature_names_in must be {estimator.n_features_in_} names, got {len(names)}.")
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        link = link_from_state(state["link"])
        if link.n_classes != n_classes:
            raise ValueError(f"n_classes of link must be {n_classes}, the number of classes, got {link.n_classes}.")
        estimator.link_ = link.double().eval().requires_grad_(False)
        if state["label_noise"] is not None:
            estimator._noise = FittedNoise.from_state(state["label_noise"], n_classes)
        if len(state["held_out"]) != 3:
            raise ValueError(f"held_out must be three numbers, got {len(state['held_out'])}.")
        estimator.network_log_loss_, estimator.linear_log_loss_, estimator.oof_score_ = map(float, state["held_out"])
        estimator.is_linear_, estimator.n_iter_ = state["is_linear"], state["n_iter"]
        if state["history"] is not None:
            estimator.history_ = History.from_state(state["history"])
        if state["sets"] is not None:
            estimator._sets = SetCalibration.from_state(state["sets"], n_classes)
        return estimator

    def _onnx_model(self, feature_names: np.ndarray | None) -> Any:
        """The ``onnx.ModelProto``, see ``to_onnx``."""
        example = torch.zeros(2, self.n_features_in_, dtype=getattr(torch, self._dtype.name))
        return predictor_model(_ScoresLink(self._logits, self.link_), example, self.classes_, feature_names)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "link_")
