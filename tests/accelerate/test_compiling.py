"""What compiled functions are cached for."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

from legendretron.accelerate.cpu import compiling


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A function in a file of its own, so that its cache is there, too."""
    (tmp_path / "doubling.py").write_text("def doubled(x):\n    return 2.0 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "doubling", raising=False)  # that of another test
    from doubling import doubled

    def hits(sources):
        monkeypatch.setattr(compiling, "_sources", lambda: sources)
        function = compiling.cached(doubled)
        assert function(np.float64(3.0)) == 6.0
        return sum(function.stats.cache_hits.values())

    return hits


def test_kept_code_is_found_until_a_source_changes(cached):
    assert [cached("one"), cached("one"), cached("two"), cached("one")] == [0, 1, 0, 1]


def test_all_constants_that_compiled_code_contains_are_in_the_key(monkeypatch):
    folder = Path(compiling.__file__).parent
    imports = [
        node
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("legendretron.")
    ]
    elsewhere = [node for node in imports if not node.module.startswith("legendretron.accelerate.cpu")]
    assert {name.name for node in elsewhere for name in node.names if name.name.isupper()} == set(compiling.CONSTANTS)
    before = compiling._sources.__wrapped__()
    assert compiling._sources.__wrapped__() == before
    monkeypatch.setitem(compiling.CONSTANTS, "SCALE_FLOOR", 0.5)
    assert compiling._sources.__wrapped__() != before


def test_files_that_were_cut_short_are_made_again(cached, tmp_path):
    assert [cached("one"), cached("one")] == [0, 1]
    for index in tmp_path.rglob("*.nbi"):
        index.write_bytes(index.read_bytes()[:20])
    assert [cached("one"), cached("one")] == [0, 1]
