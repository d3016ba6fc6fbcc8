"""Packages whose names are imported on first use: torch and scikit-learn take seconds, which not all of them need."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_names(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    ``names`` are the modules of the package, or with their whole path others, each with the names that it gives. Type
    checkers and editors need the imports too, under ``if TYPE_CHECKING``; the functions go under ``else``, as a type checker
    would take every name for one of the package's.

    Examples
    --------
    >>> get, _ = lazy_names("json", {"encoder": ("JSONEncoder",)})
    >>> get("JSONEncoder").__name__
    'JSONEncoder'
    """
    module_of = {name: module for module, own in names.items() for name in own}

    def get(name: str) -> Any:
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = module_of[name]
        place = module if "." in module else f"{package}.{module}"
        value = getattr(importlib.import_module(place), name)
        setattr(sys.modules[package], name, value)  # for the next time
        return value

    return get, lambda: sorted({*sys.modules[package].__all__, *(name for name in names if "." not in name)})
