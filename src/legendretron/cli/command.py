"""Registration of functions as commands, with the options that all commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from legendretron.cli.report import Report
from legendretron.cli.standard_input import readable_data

__all__ = ["register", "unwrapped"]

_JSON = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.", rich_help_panel="Output")]
_QUIET = Annotated[
    bool, typer.Option("--quiet", "-q", help="No notes, warnings or progress.", rich_help_panel="Output")
]
_DEBUG = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel="Output", show_default=False)
]


def register(app: typer.Typer, function: Callable[..., None], name: str | None = None) -> None:
    """Add a function to an app as a command.

    The function takes a :class:`~legendretron.cli.report.Report` named ``report`` and writes all output through it; the
    other parameters are its options and arguments, annotated as typer requires. It raises on errors, which
    :func:`legendretron.cli.errors.run` turns into a line and an exit code. Its docstring is the help text.

    Parameters
    ----------
    app : typer.Typer
        The app, or a group of commands inside it.
    function : callable
        What to run.
    name : str, optional
        Name of the command; that of the function if not given.
    """
    signature = inspect.signature(function, eval_str=True)
    if "report" not in signature.parameters:
        raise TypeError(f"{function.__name__} must have a parameter named report.")

    @functools.wraps(function)
    def command(*, json: bool, quiet: bool, debug: bool, **options: Any) -> None:
        report = Report(json=json, quiet=quiet)
        with report.warnings_as_lines(), readable_data(options) as readable:
            function(report=report, **readable)

    own = [parameter for key, parameter in signature.parameters.items() if key != "report"]
    shared = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for key, kind in (("json", _JSON), ("quiet", _QUIET), ("debug", _DEBUG))
    ]
    by_name = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    command.__signature__ = signature.replace(parameters=[*by_name, *shared])  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in [*by_name, *shared]}
    app.command(name, help=unwrapped(function.__doc__ or ""))(command)


def unwrapped(text: str) -> str:
    r"""Return a docstring with each paragraph on one line, to be wrapped at the width of the terminal.

    Examples
    --------
    >>> unwrapped("One\n  paragraph.\n\n  And another.")
    'One paragraph.\n\nAnd another.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
