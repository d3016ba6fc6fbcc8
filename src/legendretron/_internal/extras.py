"""Optional dependencies."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["import_extra"]


def import_extra(module: str, purpose: str, extra: str) -> ModuleType:
    """Import a library of an extra, or raise an error that says how to install it.

    Parameters
    ----------
    module : str
        What to import.
    purpose : str
        What it is needed for; begins the message.
    extra : str
        The extra of legendretron that installs it.

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
