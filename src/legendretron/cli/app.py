"""The app: functions as commands, with the options that all commands share, and one line per command."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from legendretron._internal.parameters import ParameterError, spelling
from legendretron._internal.version import __version__
from legendretron.cli.command_options import (
    CalibrateOptions,
    DemoOptions,
    EvaluateOptions,
    FitOptions,
    PredictOptions,
    ReproduceOptions,
    SuspiciousOptions,
)
from legendretron.cli.errors import UsageError
from legendretron.cli.options import declarations, option_names, output_option, wrong
from legendretron.cli.terminal import Terminal

_SHARED = {
    "json": output_option("Print the result as one JSON object.", "--json", value=False),
    "quiet": output_option("No notes, warnings or progress.", "--quiet", "-q", value=False),
    "debug": output_option("Show the traceback of an error.", "--debug", value=False, show_default=False),
}
#: What parameters of the library are called on the command line, those of all commands.
_OPTIONS = {"X": "the data"}


def register(app: typer.Typer, name: str, kind: type[Any]) -> None:
    """Add the function ``name`` of the file of this name to an app as a command, whose options are the fields of ``kind``.

    The function takes a :class:`~legendretron.cli.terminal.Terminal`, through which it writes all output, and options. It
    raises on errors, which :func:`legendretron.cli.errors.run` turns into a line and an exit code. Its file is imported when
    it is called. The docstring of ``kind`` is the help.
    """
    hints, called = get_type_hints(kind), option_names(kind)
    for field, text in called.items():
        _OPTIONS.setdefault(field, text)

    def command(*, json: bool, quiet: bool, debug: bool, **given: Any) -> None:
        import numpy as np

        function = getattr(importlib.import_module(f"legendretron.cli.{name}"), name)
        terminal = Terminal(json=json, quiet=quiet)
        with (
            terminal.warnings_as_lines(),
            readable_data(given, terminal) as readable,
            np.printoptions(legacy="1.25"),  # numbers in messages without their types
            spelling(lambda field: called.get(field, _OPTIONS.get(field)), _quote_option),
        ):
            try:
                function(terminal, kind(**readable))
            except ParameterError as error:
                if error.parameter not in called:
                    raise ValueError(str(error)) from error
                raise wrong(called[error.parameter], f"it {error.reason}") from error

    hints |= dict.fromkeys(_SHARED, bool)
    parameters = [
        inspect.Parameter(
            field,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if declared.default is dataclasses.MISSING else declared.default,
            annotation=Annotated[hints[field], declared.metadata["typer"]],
        )
        for field, declared in {**declarations(kind), **_SHARED}.items()
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.command(name, help=unwrap_paragraphs(kind.__doc__ or ""))(command)


def _quote_option(option: str, value: object) -> str:
    """An option with a value as it is typed in a shell; marks in quotes, so that they are not read as those of a sentence."""
    text = str(value)
    if "'" in text and '"' not in text:
        return f'{option} "{text}"'
    return f"{option} '{text}'" if text in (",", ".") else f"{option} {shlex.quote(text)}"


def unwrap_paragraphs(text: str) -> str:
    r"""Return a docstring with each paragraph on one line, to be wrapped at the width of the terminal.

    Examples
    --------
    >>> unwrap_paragraphs("One\n  paragraph.\n\n  And another.")
    'One paragraph.\n\nAnd another.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


@contextmanager
def readable_data(options: dict[str, Any], terminal: Terminal) -> Iterator[dict[str, Any]]:
    """Yield the options of a command; if DATA is ``-``, with a temporary copy of standard input, as CSV by default.

    Messages do not name the copy.
    """
    if options.get("data") != Path("-"):
        yield options
        return
    if sys.stdin is None:
        raise ValueError("standard input is closed; give a file, or send the table to it.")
    with tempfile.TemporaryDirectory(prefix="legendretron-") as folder:
        path = Path(folder, "standard input")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        terminal.renamed[repr(str(path))] = "standard input"
        try:
            yield {**options, "data": path, "format": options.get("format") or "csv"}
        except UsageError as error:
            error.message = terminal.rename(error.message)  # type: ignore[attr-defined]
            raise
        except (ValueError, ImportError) as error:
            kind = ImportError if isinstance(error, ImportError) else ValueError
            raise kind(terminal.rename(str(error))) from error


# shell completion would start Python at every press of the Tab key
app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"legendretron {__version__}")
        raise typer.Exit


def legendretron(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Classify the rows of a table, with calibrated probabilities.

    Pass a table and the column to predict: the fitted model predicts a probability of each class for every row. Unlike
    logistic regression, it also learns from the data how scores turn into probabilities.

    Start with: legendretron fit data.csv --target label --out model.safetensors
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.callback(invoke_without_command=True, help=unwrap_paragraphs(legendretron.__doc__ or ""))(legendretron)

# A command is a function in a file of its name, which is imported when it is called, so that --help does not wait for torch
# and the like; its options, and a line here.
register(app, "fit", FitOptions)
register(app, "predict", PredictOptions)
register(app, "evaluate", EvaluateOptions)
register(app, "calibrate", CalibrateOptions)
register(app, "suspicious", SuspiciousOptions)
register(app, "demo", DemoOptions)
register(app, "reproduce", ReproduceOptions)
