"""Rows that were left out since something is missing in them, in words."""

from __future__ import annotations

from legendretron._internal.columns import quoted
from legendretron._internal.labels import label_text
from legendretron.cli.terminal import Terminal
from legendretron.datasets.tables import Table


class LeftOut:
    """Counts of rows that were left out of a table, or of its parts: those with gaps, and those without a label."""

    def __init__(self, *tables: Table) -> None:
        self.incomplete = self.unlabelled = 0
        self._lost: set[str] = set()  # labels of these rows
        self._there: set[str] = set()  # labels of all others
        for table in tables:
            self.add(table)

    def add(self, table: Table) -> None:
        """Take in what was left out of a table."""
        self.incomplete += table.left_out
        self.unlabelled += table.unlabelled
        self._lost |= table.labels_left_out
        if table.y is not None:
            self._there |= {label_text(label) for label in table.classes}
        if table.written is not None:
            self._there |= set(table.written.tolist())

    @property
    def total(self) -> int:
        """All rows that were left out."""
        return self.incomplete + self.unlabelled

    def tell(self, terminal: Terminal) -> None:
        """Say how many there are, and warn of classes that have no other rows."""
        if self.unlabelled:
            terminal.note(f"{self.unlabelled:,} rows without a label were left out")
        if self.incomplete:
            terminal.note(f"{self.incomplete:,} rows with missing values were left out")
        if vanished := sorted(self._lost - self._there):
            classes = f"{'class' if len(vanished) == 1 else 'classes'} {quoted(vanished)}"
            terminal.warning(f"all rows of {classes} have missing values and were left out.")
