"""The model card: data, settings, versions, commit and time."""

from __future__ import annotations

import inspect
import reprlib
from typing import Any

import numpy as np
from markupsafe import Markup

from legendretron._internal.provenance import provenance
from legendretron.report.markup import facts, heading, number, section
from legendretron.report.rows import EvaluationRows, inner

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
#: Attributes of fitted models that are shown, with what they are.
_FOUND = {
    "alpha_": "alpha that was used",
    "link_alpha_": "link_alpha that was used",
    "n_iter_": "iterations",
    "temperature_": "temperature",
    "noise_rate_": "estimated share of labels that are wrong, or a matter of chance",
    "n_features_in_": "features",
}


def card(
    models: dict[str, Any],
    rows: EvaluationRows,
    n_given: int,
    data: str,
    target: str,
    described: dict[str, str],
    took: float,
    now: str,
) -> Markup:
    """Return the section of the model card."""
    made = provenance()
    share = rows.share
    largest = int(share.argmax())
    about = {
        "data": data or "given as an array",
        "predicted": target or "given without a name",
        "rows": f"{len(rows):,}" + (f" of {n_given:,}; the others have weight zero" if n_given > len(rows) else ""),
        "classes": f"{len(rows.classes):,}, the largest {rows.spoken[largest]} with {100 * share[largest]:.1f} %",
        "weights": f"given, from {number(float(rows.weight.min()))} to {number(float(rows.weight.max()))} (mean 1)"
        if rows.weighted
        else "none",
        **described,
    }
    versions = made["versions"]
    assert isinstance(versions, dict)
    program = {
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "commit": made["commit"] or "unknown: legendretron does not run from a checkout",
        "device": f"{made['device']}, {made['threads']} thread(s)",
        "made at": now,
        "computed in": f"{took:.1f} s",
    }
    parts = [heading("Data"), facts(about)]
    for name, model in models.items():
        parts += [heading(f"Model: {name}"), facts(_describe_model(model))]
        if (classifier := inner(model)[0]) is not model:
            parts += [heading("The classifier inside", 4), facts(_describe_model(classifier))]
    parts += [heading("Program"), facts(program)]
    return section("card", "Model card", *parts)


def _describe_model(model: Any) -> dict[str, str]:
    known = {"kind": type(model).__name__}
    link = getattr(model, "link_", None)
    if link is not None:
        known["link"] = type(link).__name__
    for name, what in _FOUND.items():
        try:
            value = getattr(model, name, None)
        except (AttributeError, ValueError):
            continue
        if value is not None and np.ndim(value) == 0:
            known[what] = f"{float(value):.6g}"
    if not hasattr(model, "get_params"):
        return known
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(type(model).__init__).parameters.items()
    }
    given: list[tuple[str, Any]] = []
    usual: list[tuple[str, Any]] = []
    for name, value in model.get_params(deep=False).items():
        default = defaults.get(name)
        same = type(value) is type(default) and isinstance(value, str | int | float | bool) and value == default
        (usual if value is default or same else given).append((name, value))
    known["settings"] = ", ".join(f"{name}={_SHORT.repr(value)}" for name, value in given) or "all at their defaults"
    if usual and given:
        known["at their defaults"] = ", ".join(f"{name}={_SHORT.repr(value)}" for name, value in usual)
    return known
