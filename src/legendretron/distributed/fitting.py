"""The streamed fit by several processes, each of which runs this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from legendretron.estimators.resuming import restore_on_error
from legendretron.estimators.stream_fit import fit_source
from legendretron.links import Link
from legendretron.streaming.source import Source
from legendretron.training.layout import JointError as JointError  # for who calls fit
from legendretron.training.layout import Layout
from legendretron.training.model import LinearModel

if TYPE_CHECKING:
    from legendretron.estimators.base import LinearLinkClassifier


def fit_shards(estimator: LinearLinkClassifier, source: Source, layout: Layout, **how: Any) -> None:
    """Fit an estimator as :func:`~legendretron.estimators.stream_fit.fit_source` does, also with classes that are divided."""

    def make_model(weight: Tensor, bias: Tensor, link: Link) -> LinearModel:
        if layout.classes is None:
            return LinearModel(weight.unsqueeze(0), bias.unsqueeze(0), [link])
        from legendretron.distributed.class_parallel import SplitModel

        return SplitModel(weight, bias, link, layout)

    with restore_on_error(estimator):
        fit_source(estimator, source, layout, make_model=make_model, **how)
