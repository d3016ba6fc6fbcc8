"""What compiled functions are cached for."""

import sys

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


def test_files_that_were_cut_short_are_made_again(cached, tmp_path):
    assert [cached("one"), cached("one")] == [0, 1]
    for index in tmp_path.rglob("*.nbi"):
        index.write_bytes(index.read_bytes()[:20])
    assert [cached("one"), cached("one")] == [0, 1]
