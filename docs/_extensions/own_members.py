"""On the page of a class: its methods and properties, inherited ones too, but not those of torch and scikit-learn."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def is_foreign(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    function = getattr(member, "fget", None) or getattr(member, "func", None) or member
    module = getattr(function, "__module__", None) or "legendretron"
    return True if not module.startswith("legendretron") else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-skip-member", is_foreign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
