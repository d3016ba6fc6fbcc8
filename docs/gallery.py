"""Draw the pictures of docs/gallery.md by running the code on that page.

    python docs/gallery.py

Each block of code is run as it stands there, one after the other, and the picture that follows it is that of the last
``display`` it made. About half a minute on one core.
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "gallery.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n!\[[^\]]*\]\(([^)]+)\))?", re.DOTALL | re.MULTILINE)


def blocks(text: str) -> list[tuple[str, str]]:
    """Blocks of code, each with the path of the picture after it; empty if there is none."""
    return BLOCK.findall(text)


def draw(folder: Path) -> list[Path]:
    """Run the page, and write its pictures below a folder."""
    names: dict[str, object] = {}
    written = []
    for code, picture in blocks(PAGE.read_text()):
        names.pop("display", None)
        exec(compile(code, PAGE.name, "exec"), names)
        if picture:
            path = folder / picture
            path.parent.mkdir(parents=True, exist_ok=True)
            # no version of matplotlib in the file: it changes with the picture only
            names["display"].figure_.savefig(path, dpi=80, metadata={"Software": None}, pil_kwargs={"optimize": True})
            written.append(path)
        plt.close("all")
    return written


if __name__ == "__main__":
    for path in draw(ROOT / "docs"):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")
