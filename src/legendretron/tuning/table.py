"""What was tried, and what came out."""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass, field
from typing import Any, Self

import torch

from legendretron._internal import fields
from legendretron._internal.extras import import_extra
from legendretron.diagnostics.softmax_test import LinkTest
from legendretron.training.logistic import Logistic
from legendretron.tuning.link_search import FittedLink
from legendretron.tuning.noise import FoundNoise
from legendretron.tuning.problem import Candidate, LabeledRows

_ANY_NUMBER = fields.number(finite=False)
_ROW = {
    "model": fields.one_of("logistic regression", "learned link", "fixed link"),
    "alpha": _ANY_NUMBER,
    "link_alpha": _ANY_NUMBER,
    "label_noise": _ANY_NUMBER,
    "steps": fields.optional(fields.integer(1)),
    "held_out_rows": fields.integer(1),
    "log_loss": _ANY_NUMBER,
    "standard_error": _ANY_NUMBER,
    "difference": _ANY_NUMBER,
    "difference_error": _ANY_NUMBER,
    "chosen": fields.BOOLEAN,
}
COLUMNS = tuple(_ROW)
_FIELDS = {
    "chosen": fields.list_of(_ANY_NUMBER, least=2),
    "rows": fields.list_of(fields.OBJECT),
    "noise": fields.optional(fields.OBJECT),
    "link_test": fields.optional(fields.OBJECT),
    "held_out": fields.optional(fields.OBJECT),
}
_HELD_OUT = {
    "log_p": fields.array(None, None),
    "labels": fields.array(None, dtype="int64"),
    "weight": fields.array(None),
}


def check_strengths(strengths: list[float]) -> tuple[float, float]:
    """Return ``alpha`` and ``link_alpha`` as they were saved, or raise a ``ValueError``; only the second may be infinite."""
    if len(strengths) != 2 or not 0.0 <= strengths[0] < math.inf or not strengths[1] >= 0.0:
        raise ValueError(f"strengths must be two numbers that are not negative, got {reprlib.repr(strengths)}.")
    return float(strengths[0]), float(strengths[1])


def _held_out_from_state(state: dict[str, Any]) -> LabeledRows:
    fields.check_fields("held_out", state, _HELD_OUT)
    found = LabeledRows(*(torch.as_tensor(state[name]) for name in LabeledRows._fields))
    n, n_classes = found.log_p.shape
    inside = (found.labels >= 0) & (found.labels < n_classes)
    if not found.labels.shape == found.weight.shape == (n,) or not bool(inside.all()):
        raise ValueError(f"labels and weight of held_out must be those of {n} rows of {n_classes} classes.")
    return found


@dataclass
class Tuning:
    """Candidates with their cross-validated log-loss."""

    chosen: Candidate  #: the strengths to train with
    rows: list[dict[str, Any]] = field(default_factory=list)  #: one per candidate and stage
    logistic: Logistic | None = None  #: fitted to the folds, if it was chosen: where to begin to fit it to all rows
    start: FittedLink | None = None  #: the chosen link of the first fold: where to begin to train it on all rows
    noise: FoundNoise | None = None  #: noise in the labels, if it was looked for; one of rate 0 if none was chosen
    link_test: LinkTest | None = None  #: of softmax, with a floor if that was chosen, if learned links were candidates
    held_out: LabeledRows | None = None  #: what the folds of the chosen candidate predict for rows they have not seen

    def to_state(self) -> dict[str, Any]:
        """Return what was tried and chosen; models that were trained on the way are left out."""
        return {
            "chosen": [*map(float, self.chosen)],
            "rows": self.rows,
            "noise": None if self.noise is None else {"n_classes": self.noise.n_classes, **self.noise.to_state()},
            "link_test": None if self.link_test is None else self.link_test.to_state(),
            "held_out": None if self.held_out is None else {k: v.cpu() for k, v in self.held_out._asdict().items()},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`; anything else raises a ``ValueError``."""
        fields.check_fields("tuning", state, _FIELDS)
        for row in state["rows"]:
            fields.check_fields("a candidate", row, _ROW)
        noise = None if state["noise"] is None else dict(state["noise"])
        return cls(
            Candidate(*check_strengths(state["chosen"])),
            state["rows"],
            noise=None if noise is None else FoundNoise.from_state(noise, noise.pop("n_classes", None)),
            link_test=None if state["link_test"] is None else LinkTest.from_state(state["link_test"]),
            held_out=None if state["held_out"] is None else _held_out_from_state(state["held_out"]),
        )

    def to_frame(self) -> Any:
        """Return the candidates as a pandas data frame, the best first."""
        pandas = import_extra("pandas", "the table of candidates", "tables")
        rows = sorted(self.rows, key=lambda row: (not row["chosen"], math.isnan(row["log_loss"]), row["log_loss"]))
        return pandas.DataFrame(rows, columns=list(COLUMNS))
