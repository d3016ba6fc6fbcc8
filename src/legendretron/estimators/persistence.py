"""Saving and loading of fitted models, also of one inside another."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any, Self, TypeVar

from sklearn.utils.validation import check_is_fitted

from legendretron._internal.artifacts import load_state, save_state
from legendretron._internal.fields import OBJECT, check_fields, one_of


class SavedModel:
    """Base of the models that can be saved: they have ``to_state`` and ``from_state``, and are fitted."""

    @abstractmethod
    def to_state(self) -> dict[str, Any]:
        """Return parameters and all that was fitted, as a tree of plain values and arrays."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return a fitted model from what :meth:`to_state` returned; anything else raises a ``ValueError``."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, safetensors with a JSON header; the write is atomic.

        A model that could not be loaded again raises a ``ValueError``: its weights are not finite, or it contains an
        estimator of another library.
        """
        check_is_fitted(self)
        save_state(path, type(self).__name__, self.to_state(), type(self).from_state)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a model that was written by :meth:`save`; other or modified files raise a ``ValueError``.

        Files from any source are safe to load: no code in them is executed, and they take no more memory than their size
        justifies. If the file has the format of another version, the error names that version.
        """
        return load_state(path, {cls.__name__: cls.from_state})


AnyModel = TypeVar("AnyModel", bound=SavedModel)


def part_to_state(model: Any, *classes: type[SavedModel]) -> dict[str, Any]:
    """The state of a model inside another one, with the name of its class, which must be one of some."""
    if type(model) not in classes:
        known = " or a ".join(cls.__name__ for cls in classes)
        raise ValueError(
            f"estimator must be a {known} to be saved, got a {type(model).__name__}; use pickle for other classes."
        )
    check_is_fitted(model)
    return {"class": type(model).__name__, "state": model.to_state()}


def part_from_state(state: Any, *classes: type[AnyModel]) -> AnyModel:
    """The reverse of :func:`part_to_state`."""
    known = {cls.__name__: cls for cls in classes}
    check_fields("the model inside", state, {"class": one_of(*known), "state": OBJECT})
    return known[state["class"]].from_state(state["state"])
