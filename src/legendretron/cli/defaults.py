"""Defaults of the estimators for the help text, without importing torch."""

from __future__ import annotations

import ast
import functools
from importlib.resources import files
from typing import Any

__all__ = ["default_of"]


def default_of(parameter: str) -> str:
    """Return a parameter's default, as a help text shows it; of both models where they differ.

    Examples
    --------
    >>> default_of("alpha"), default_of("label_noise")
    ('auto', 'auto; none for logistic')
    """
    learned, logistic = _defaults("legendretron.py"), _defaults("multinomial.py")
    first, second = learned[parameter], logistic.get(parameter, learned[parameter])
    words = ["none" if value is None else str(value) for value in (first, second)]
    return words[0] if second == first else f"{words[0]}; {words[1]} for logistic"


@functools.cache
def _defaults(file: str) -> dict[str, Any]:
    """Defaults of the estimator in a file, parsed from its source: much faster than importing it."""
    tree = ast.parse(files("legendretron").joinpath("estimators", file).read_text(encoding="utf-8"))
    # the first class in the file is the one that is asked for
    start = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    by_place = zip(reversed(start.args.args), reversed(start.args.defaults), strict=False)  # self has none
    by_name = zip(start.args.kwonlyargs, start.args.kw_defaults, strict=True)
    return {
        argument.arg: ast.literal_eval(default) for argument, default in [*by_place, *by_name] if default is not None
    }
