"""The app: the commands of ``legendretron``, one line per command."""

from __future__ import annotations

from typing import Annotated

import typer

from legendretron._internal.version import __version__
from legendretron.cli.command import register, unwrapped
from legendretron.cli.command_options import (
    CalibrateOptions,
    DatasetsOptions,
    DemoOptions,
    EvaluateOptions,
    PredictOptions,
    ReproduceOptions,
    SuspiciousOptions,
)
from legendretron.cli.fit_options import FitOptions

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
    """Classify tables of data with probabilities that can be trusted.

    Give a table and the column to predict; a model is fitted that gives every row a probability for each class. Unlike
    ordinary (logistic) regression, it also learns from the data how scores turn into probabilities.

    Start with: legendretron fit data.csv --target label --out model.safetensors
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.callback(invoke_without_command=True, help=unwrapped(legendretron.__doc__ or ""))(legendretron)

# A command is a function in a file of its name, which is imported when it is called, so that --help does not wait for torch
# and the like; its options, and a line here.
register(app, "fit", FitOptions)
register(app, "predict", PredictOptions)
register(app, "evaluate", EvaluateOptions)
register(app, "calibrate", CalibrateOptions)
register(app, "suspicious", SuspiciousOptions)
register(app, "demo", DemoOptions)
register(app, "reproduce", ReproduceOptions)
register(app, "datasets", DatasetsOptions)
