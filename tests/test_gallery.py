"""The pictures of the gallery are drawn by the code beside them."""

import re

import pytest

from legendretron import plots
from tests.test_docs import ROOT, imported

gallery = imported(ROOT / "docs" / "gallery.py")
BLOCKS = gallery.blocks(gallery.PAGE.read_text())


def test_every_picture_follows_its_code_and_every_display_is_shown():
    text = gallery.PAGE.read_text()
    pictures = [picture for _, picture in BLOCKS if picture]
    assert pictures == re.findall(r"\]\((figures/gallery/[^)]+)\)", text)
    assert all(code.count("display = ") == bool(picture) for code, picture in BLOCKS)
    files = {f"figures/gallery/{path.name}" for path in (ROOT / "docs/figures/gallery").iterdir()}
    assert files == set(pictures)
    drawn = "".join(code for code, picture in BLOCKS if picture)
    assert all(f"{name}.from_" in drawn for name in plots.__all__ if name.endswith("Display"))


def test_pictures_are_small():
    for path in (ROOT / "docs/figures/gallery").iterdir():
        assert path.stat().st_size < 150_000, path.name


@pytest.mark.exhaustive
def test_the_page_runs(tmp_path):
    written = gallery.draw(tmp_path)
    assert len(written) == sum(bool(picture) for _, picture in BLOCKS)
    assert all(path.stat().st_size > 10_000 for path in written)
