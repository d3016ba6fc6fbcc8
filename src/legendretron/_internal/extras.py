"""Optional dependencies."""

from __future__ import annotations

import importlib
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
