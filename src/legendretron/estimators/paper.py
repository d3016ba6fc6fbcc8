"""The estimators as the paper trains them, which ``from_paper`` returns.

From the paper's table of hyperparameters and, for what it leaves out (the network, the initialisation, one penalty on all
parameters, float64, unscaled features), from the authors' public code.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import torch

from legendretron._internal.sklearn_compat import Interval, StrOptions
from legendretron._internal.validation import check_choice
from legendretron.estimators.legendretron import LegendreTronClassifier
from legendretron.estimators.protocol import Protocol
from legendretron.links import CompositeLink, Link

__all__ = ["PaperLegendreTronClassifier", "paper_classifier"]

_TRAINING: dict[str, dict[str, Any]] = {
    "libsvm": {"learning_rate": 0.01, "decay": 0.95, "max_epochs": 240, "batch_size": 64, "alpha": 0.01},
    "mnist": {"learning_rate": 0.001, "decay": 0.7, "max_epochs": 200, "batch_size": 128, "alpha": 0.001},
    "aloi": {"learning_rate": 0.01, "decay": 0.95, "max_epochs": 360, "batch_size": 64, "alpha": 0.01},
}
_LINK: dict[str, dict[str, Any]] = {
    "libsvm": {"n_blocks": 2, "hidden": 2, "depth": 4, "network": "cpflow"},
    "mnist": {"n_blocks": 1, "hidden": 4, "depth": 4, "network": "cpflow"},
    "aloi": {"n_blocks": 2, "hidden": 2, "depth": 4, "network": "cpflow"},
}


def paper_classifier(group: str, **parameters: Any) -> PaperLegendreTronClassifier:
    """The paper's estimator for a group of data sets, ``"libsvm"``, ``"mnist"`` or ``"aloi"``, with some parameters changed.

    Examples
    --------
    >>> paper_classifier("libsvm", random_state=0).max_epochs
    240
    """
    check_choice("group", group, tuple(_TRAINING))
    settings = dict(_TRAINING[group])
    if parameters.get("link", "composite") == "composite":  # another link has none of these settings
        settings["link_params"] = dict(_LINK[group])
    return PaperLegendreTronClassifier(**{**settings, **parameters})


class PaperLegendreTronClassifier(LegendreTronClassifier):
    """LegendreTron, and with ``link="softmax"`` logistic regression, with the paper's training; made by ``from_paper``.

    Parameters
    ----------
    schedule, decay, decay_every, init, penalize_intercept
        See :class:`~legendretron.estimators.protocol.Protocol`.
    link_alpha : float, "auto" or None, default=None
        As in :class:`LegendreTronClassifier`; None for the same as ``alpha``, which is the paper's.
    link, link_params, alpha, solver, learning_rate, max_epochs, batch_size, early_stopping, tol, class_weight, warm_start
        See :class:`LegendreTronClassifier`.
    standardize, device, dtype, random_state, verbose, checkpoint, cv, label_noise
        See :class:`LegendreTronClassifier`.

    Examples
    --------
    >>> LegendreTronClassifier.from_paper("libsvm").schedule
    'step'
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LegendreTronClassifier._parameter_constraints,
        "schedule": [StrOptions({"constant", "step", "cosine"})],
        "decay": [Interval(Real, 0, 1, closed="right")],
        "decay_every": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"identity", "centred", "paper"})],
        "penalize_intercept": ["boolean"],
        "link_alpha": [*LegendreTronClassifier._parameter_constraints["link_alpha"], None],
    }

    def __init__(
        self,
        link: Any = "composite",
        *,
        link_params: dict[str, Any] | None = None,
        alpha: float | str = 0.01,
        link_alpha: float | str | None = None,
        solver: str = "adam",
        learning_rate: float | str = 0.01,
        schedule: str = "step",
        decay: float = 0.95,
        decay_every: int = 4,
        max_epochs: int | str = 240,
        batch_size: int | str = 64,
        early_stopping: bool | float = False,
        tol: float = 1e-6,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        standardize: bool = False,
        init: str = "paper",
        penalize_intercept: bool = True,
        device: str = "cpu",
        dtype: str | None = "float64",
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
        cv: Any = None,
        label_noise: Any = None,
    ) -> None:
        super().__init__(
            link,
            link_params=link_params,
            alpha=alpha,
            link_alpha=link_alpha,  # type: ignore[arg-type]  # None ties it to alpha
            solver=solver,
            learning_rate=learning_rate,
            max_epochs=max_epochs,
            batch_size=batch_size,
            early_stopping=early_stopping,
            tol=tol,
            class_weight=class_weight,
            warm_start=warm_start,
            standardize=standardize,
            device=device,
            dtype=dtype,
            random_state=random_state,
            verbose=verbose,
            checkpoint=checkpoint,
            cv=cv,
            label_noise=label_noise,
        )
        self.schedule = schedule
        self.decay = decay
        self.decay_every = decay_every
        self.init = init
        self.penalize_intercept = penalize_intercept

    def _protocol(self) -> Protocol:
        return Protocol(
            self.schedule, float(self.decay), int(self.decay_every), self.init, bool(self.penalize_intercept), False
        )

    def _make_link(self, n_classes: int, generator: torch.Generator, dtype: torch.dtype, n_rows: int) -> Link:
        if self.init == "paper" and self.link == "softmax":
            # the authors' code draws LegendreTron's link here too, without using it, which changes the order of the batches
            CompositeLink(n_classes, network="cpflow", init="paper", generator=generator, dtype=dtype)
        return super()._make_link(n_classes, generator, dtype, n_rows)
