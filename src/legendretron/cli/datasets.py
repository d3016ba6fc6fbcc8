"""``legendretron datasets``: which data sets of the paper are available, and how to get the others."""

from __future__ import annotations

from typing import Any

from legendretron.cli.command_options import DatasetsOptions
from legendretron.cli.options import wrong
from legendretron.cli.terminal import Terminal, grid
from legendretron.datasets.registry import DATASETS, cache_folder, dataset_info, dataset_status


def datasets(terminal: Terminal, options: DatasetsOptions) -> None:
    """See :class:`~legendretron.cli.command_options.DatasetsOptions`."""
    name, data = options.name, options.data
    folder = cache_folder() if data is None else data
    if data is not None and not data.expanduser().is_dir():
        raise wrong("--data", f"there is no folder {str(data)!r}.")
    if name is not None:
        try:
            name = dataset_info(name).name
        except ValueError as error:
            known = ", ".join(DATASETS)
            raise wrong("NAME", f"there is no {name!r}; there are {known}.") from error
    found = [status for status in dataset_status(data) if name is None or status.info.name == name]
    entries: list[dict[str, Any]] = []
    table = grid("data set", "rows", "features", "classes", "here", title=f"data sets in {folder}")
    for status in found:
        info = status.info
        here = status.state if status.declared_rows is None else f"{status.state}: {status.declared_rows:,} rows"
        table.add_row(info.name, f"{info.rows:,}", f"{info.features:,}", f"{info.classes:,}", here)
        entries.append(
            {
                "name": info.name,
                "kind": info.kind,
                "rows": info.rows,
                "features": info.features,
                "classes": info.classes,
                "state": status.state,
                "declared_rows": status.declared_rows,
                "path": None if status.path is None else str(status.path),
                "addresses": list(info.addresses),
                "licence": info.licence,
                "origin": info.origin,
                "how_to_get": info.how_to_get,
                "notes": info.notes,
            }
        )
    payload = {"folder": str(folder), "datasets": entries}
    if name is None:
        missing = [entry["name"] for entry in entries if entry["state"] in ("missing", "incomplete")]
        note = (
            f"missing: {', '.join(missing)}; 'legendretron datasets NAME' says how to get one"
            if missing
            else "none is missing"
        )
        terminal.result(payload, table, note)
    else:
        about = grid(name, "")
        about.columns[1].justify = "left"
        for key, value in entries[0].items():
            about.add_row(key.replace("_", " "), "\n".join(value) if isinstance(value, list) else str(value))
        terminal.result(payload, about)
