"""The demonstration, shorter."""

import functools
from concurrent.futures import ThreadPoolExecutor

import torch

from legendretron.cli import demo
from legendretron.networks.model import FoldSettings

MODELS = ["LogisticRegressionCV", "LegendreTronClassifier", "HistGradientBoostingClassifier", "LegendreNetClassifier"]


def test_demo(run, tmp_path, monkeypatch):
    """A tenth of the rows, and of the steps and trees of networks and boosting; everything else as it is."""
    split, usual = demo._split, FoldSettings.for_rows
    monkeypatch.setattr(FoldSettings, "for_rows", lambda n_rows: usual(n_rows)._replace(n_steps=100))
    few_trees = functools.partial(demo.HistGradientBoostingClassifier, max_iter=10)
    monkeypatch.setattr(demo, "HistGradientBoostingClassifier", few_trees)
    monkeypatch.setattr(demo, "_split", lambda X, y: split(X[:180], y[:180]))
    # in this process: another one would take seconds to import everything
    monkeypatch.setattr(demo, "ProcessPoolExecutor", lambda workers, context: ThreadPoolExecutor(workers))
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    result = run("demo", "--out", tmp_path / "new", "--json", "--quiet").json
    after = torch.get_num_threads()
    torch.set_num_threads(threads)
    assert after == threads + 1
    assert list(result["datasets"]) == ["digits", "breast cancer"]
    for got in result["datasets"].values():
        assert list(got["models"]) == MODELS
        assert all(scores["accuracy"] > 0.6 for scores in got["models"].values())
        assert got["choice"]["text"] in got["text"]
    for path in result["plots"]:
        with open(path, "rb") as file:
            assert file.read(4) == b"\x89PNG"
