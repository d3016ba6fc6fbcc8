"""What compiled functions are kept for."""

import numpy as np
import pytest

from legendretron._numba import compiling


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A function in a file of its own, so that its cache is there, too."""
    (tmp_path / "doubling.py").write_text("def doubled(x):\n    return 2.0 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    from doubling import doubled

    def hits(sources):
        monkeypatch.setattr(compiling, "_sources", lambda: sources)
        function = compiling.cached(doubled)
        assert function(np.float64(3.0)) == 6.0
        return sum(function.stats.cache_hits.values())

    return hits


def test_kept_code_is_found_until_a_source_changes(kept):
    assert [kept("one"), kept("one"), kept("two"), kept("one")] == [0, 1, 0, 1]
