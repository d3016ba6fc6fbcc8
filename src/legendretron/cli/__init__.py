"""The command line: ``legendretron``, or ``python -m legendretron``."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments after ``legendretron``; those of the process if not given.

    Returns
    -------
    int
        0: success. 1: error. 2: usage error. 130: interrupted.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    legendretron ...
    0
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    if arguments is None:
        # most objects come from imports and stay: looking for garbage among them would take a tenth of the time
        gc.set_threshold(100_000, 50, 100)
    try:
        from legendretron.cli.app import app
        from legendretron.cli.errors import run
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in ("typer", "rich"):
            raise
        message = f"the command line needs {library}: pip install 'legendretron[cli]'."
        if "--json" in words:
            print(json.dumps({"error": message}))
        print(f"error: {message}", file=sys.stderr)
        return 1
    return run(app, words)
