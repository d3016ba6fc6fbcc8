"""Imports on first use, of optional libraries and of packages' own names: torch and scikit-learn take seconds."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any


def import_extra(module: str, purpose: str, extra: str) -> ModuleType:
    """Import a library of an extra of legendretron, or raise an error that says what it is for and how to install it.

    Examples
    --------
    >>> import_extra("no_such_library", "drawing", "plots")
    Traceback (most recent call last):
    ImportError: drawing needs no_such_library: pip install 'legendretron[plots]'.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ImportError(f"{purpose} needs {library}: pip install 'legendretron[{extra}]'.", name=library) from error


class LazyExtra:
    """A library of an extra that is imported where it is used, not before.

    Examples
    --------
    >>> LazyExtra("no_such_library", "drawing", "plots").figure
    Traceback (most recent call last):
    ImportError: drawing needs no_such_library: pip install 'legendretron[plots]'.
    """

    def __init__(self, *needed: str) -> None:
        self._needed = needed

    def __getattr__(self, name: str) -> Any:
        return getattr(import_extra(*self._needed), name)


pandas = LazyExtra("pandas", "reading tables", "tables")
arrow = LazyExtra("pyarrow", "reading tables", "tables")
arrow_datasets = LazyExtra("pyarrow.dataset", "reading tables", "tables")
compute = LazyExtra("pyarrow.compute", "reading tables", "tables")
parquet = LazyExtra("pyarrow.parquet", "reading tables", "tables")


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
