"""Draw the rooms (subpackages) of the library and their imports, and write the table in CONTRIBUTING.md.

    python docs/rooms.py
    python docs/rooms.py --lines           # lines and files of each room
    python docs/rooms.py --lines 0a1b2c3   # beside those of a commit

Imports are read from the code: those inside functions and those for type checkers alone count as well. There must be no
import cycle of files, and no import of a room from one above it. A test checks both, and the table.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.text import Text

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "legendretron"

#: From the bottom up: a room imports only from those before it.
ROOMS = (
    *(
        "_internal",
        "streaming",
        "datasets",
        "preprocessing",
        "export",
        "simplex",
        "projected_categorical",
        "potentials",
        "links",
        "accelerate",
        "losses",
    ),
    *(
        "nn",
        "training",
        "calibration",
        "diagnostics",
        "tuning",
        "networks",
        "estimators",
        "trons",
        "plots",
        "report",
        "distributed",
        "experiments",
        "paper",
        "cli",
    ),
)
#: Where a room is drawn, from left to right, so that few arrows cross; how high follows from the imports.
COLUMNS = {
    "experiments": -0.8,
    "trons": -3.0,
    "plots": 0.1,
    "report": 1.4,
    "estimators": -3.2,
    "networks": -2.2,
    "tuning": -1.9,
    "diagnostics": 0.1,
    "losses": -0.3,
    "nn": 1.9,
    "training": -1.9,
    "calibration": -2.0,
    "links": -0.8,
    "potentials": -0.9,
    "projected_categorical": 1.7,
    "export": -3.7,
    "preprocessing": -6.1,
    "simplex": 0.2,
    "datasets": -7.6,
    "distributed": 3.0,
    "accelerate": -1.2,
    "streaming": -8.3,
}
Graph = dict[str, set[str]]


def modules() -> dict[str, Path]:
    """Files of the library by module name, without the package's own `__init__.py`, which only re-exports names."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name not in ("", "__main__"):
            found[name] = path
    return found


@functools.cache
def imports() -> Graph:
    """Which file imports from which, by module name."""
    known = modules()
    graph: Graph = {}
    for name, path in known.items():
        graph[name] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            asked: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("legendretron."):
                module = node.module.removeprefix("legendretron.")
                names = [f"{module}.{alias.name}" for alias in node.names]
                asked = [name if name in known else module for name in names]  # a name may be a module itself
            elif isinstance(node, ast.Import):
                asked = [alias.name.removeprefix("legendretron.") for alias in node.names]
            graph[name] |= {module for module in asked if module in known and module != name}
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """Import cycles: groups of nodes that can all be reached from each other."""
    reach = {node: _reachable(graph, node) for node in graph}
    groups = {frozenset({node, *(other for other in reach[node] if node in reach[other])}) for node in graph}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def _reachable(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    left = list(graph[start])
    while left:
        if (node := left.pop()) not in seen:
            seen.add(node)
            left += graph[node]
    return seen


def room_of(module: str) -> str:
    return module.partition(".")[0]


def between_rooms(graph: Graph) -> Graph:
    """Which room imports from which."""
    rooms: Graph = {room_of(module): set() for module in graph}
    for module, targets in graph.items():
        rooms[room_of(module)] |= {room_of(target) for target in targets} - {room_of(module)}
    return rooms


def upwards(rooms: Graph) -> list[tuple[str, str]]:
    """Imports of a room from one that is not below it."""
    return [(a, b) for a in rooms for b in sorted(rooms[a]) if ROOMS.index(b) >= ROOMS.index(a)]


def description(room: str) -> str:
    """The first line of a room's docstring."""
    path = PACKAGE / room / "__init__.py"
    text = ast.get_docstring(ast.parse((path if path.exists() else PACKAGE / f"{room}.py").read_text()))
    assert text
    return text.splitlines()[0].strip()


def house_map() -> str:
    """The table for CONTRIBUTING.md, the top rooms first."""
    rooms = between_rooms(imports())
    lines = ["| room | content | imports from |", "| --- | --- | --- |"]
    for room in reversed(ROOMS):
        below = ", ".join(f"`{other}`" for other in ROOMS if other in rooms[room])
        lines.append(f"| `{room}` | {description(room)} | {below or 'none'} |")
    return "\n".join(lines)


def with_map(text: str) -> str:
    """A document with the table between its markers."""
    return re.sub(r"(?<=<!-- rooms -->\n).*?(?=\n<!-- /rooms -->)", lambda _: house_map(), text, flags=re.DOTALL)


def floors(rooms: Graph) -> dict[str, int]:
    """Length of the longest chain of imports below each room."""
    found: dict[str, int] = {}
    for room in ROOMS:
        found[room] = max((found[other] + 1 for other in rooms[room]), default=0)
    return found


def draw(path: Path) -> None:
    """Draw rooms as boxes and imports as arrows, without imports that are implied by others."""
    import matplotlib.pyplot as plt

    rooms = between_rooms(imports())
    needed = {a: {b for b in rooms[a] if not any(b in _reachable(rooms, c) for c in rooms[a] - {b})} for a in rooms}
    floor = floors(rooms)
    place = {room: (COLUMNS.get(room, 0.0), 0.95 * floor[room]) for room in ROOMS}
    figure, axes = plt.subplots(figsize=(9, 9))
    box = {"boxstyle": "round,pad=0.45", "ec": "0.3"}
    boxes = {
        room: axes.text(
            x, y, room, ha="center", va="center", bbox=box | {"fc": "#e8e8e8" if room.startswith("_") else "#d7e6f5"}
        )
        for room, (x, y) in place.items()
    }
    axes.set_xlim(min(x for x, _ in place.values()) - 1.4, max(x for x, _ in place.values()) + 1.4)
    axes.set_ylim(-0.6, max(y for _, y in place.values()) + 0.6)
    figure.canvas.draw()  # boxes get their sizes, at which arrows end
    for a, targets in needed.items():
        for b in targets:
            start, end = (axes.transData.transform(place[room]) for room in (a, b))
            shrink = [_to_edge(boxes[room], end - start) for room in (a, b)]
            style = {"arrowstyle": "-|>", "color": "0.45", "shrinkA": shrink[0], "shrinkB": shrink[1]}
            axes.annotate("", place[b], place[a], arrowprops=style, zorder=1)  # below the boxes
    axes.axis("off")
    axes.set_title(
        "Rooms (subpackages) of the library: an arrow points to what a room imports from.\n"
        "Gray: private. Implied arrows are left out."
    )
    figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})


def _to_edge(box: Text, along: np.ndarray) -> float:
    """Points from the middle of a box to its edge, in a direction."""
    frame = box.get_bbox_patch().get_window_extent()
    across = np.abs(along) / np.linalg.norm(along)
    pixels = min(half / max(part, 1e-9) for half, part in zip((frame.width / 2, frame.height / 2), across, strict=True))
    return 72.0 / box.figure.dpi * pixels


def sizes(commit: str | None = None) -> dict[str, tuple[int, int]]:
    """Lines and files of each room, and of tests, benchmarks and examples, of the working tree or of a commit."""
    lines, files = Counter[str](), Counter[str]()
    command = ["git", "grep", "-c", "", *([commit] if commit else []), "--", "*.py"]
    for line in subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines():
        path, _, count = line.removeprefix(f"{commit}:").rpartition(":")
        parts = path.removeprefix("src/legendretron/").split("/")
        name = parts[0].removesuffix(".py") if path.startswith("src/") else f"({parts[0]})"
        lines[name] += int(count)
        files[name] += 1
    return {name: (lines[name], files[name]) for name in lines}


def print_sizes(commit: str | None) -> None:
    now, before = sizes(), sizes(commit) if commit else {}
    known = [*(room for room in ROOMS if room in now or room in before), *sorted((set(now) | set(before)) - set(ROOMS))]
    print(f"{'room':24}{'lines':>8}{'files':>7}" + (f"{commit:>12}{'files':>7}" if commit else ""))
    for name in known:
        row = [now.get(name, (0, 0)), *([before.get(name, (0, 0))] if commit else [])]
        print(
            f"{name:24}"
            + "".join(f"{n_lines:{8 + 4 * bool(i)},}{n_files:7,}" for i, (n_lines, n_files) in enumerate(row))
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lines", nargs="?", const="", metavar="COMMIT", help="print lines and files of each room")
    options = parser.parse_args()
    if options.lines is not None:
        print_sizes(options.lines or None)
        return
    graph = imports()
    for circle in circles(graph):
        print("cycle:", ", ".join(circle))
    for a, b in upwards(between_rooms(graph)):
        print(f"upwards: {a} imports from {b}")
    document = ROOT / "CONTRIBUTING.md"
    document.write_text(with_map(document.read_text()))
    draw(ROOT / "docs" / "figures" / "rooms.png")
    print(f"{len(graph)} files, {len(ROOMS)} rooms: docs/figures/rooms.png, CONTRIBUTING.md")


if __name__ == "__main__":
    main()
