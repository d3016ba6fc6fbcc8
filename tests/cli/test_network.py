"""``fit --model network`` and ``auto``, and the commands that take what they write."""

import io
import re

import numpy as np
import pandas as pd
import pytest

from legendretron import LegendreNetClassifier, TableClassifier, load
from legendretron.networks.model import FoldSettings


@pytest.fixture(scope="module")
def rings(tmp_path_factory):
    """A table in which borders bend, with a column of text and a few wrong labels."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 2))
    kind = np.where(np.hypot(X[:, 0], X[:, 1]) > 1.1, "out", "in")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "word": np.where(X[:, 0] > 0, "up", "down"), "kind": kind})
    frame.loc[:9, "kind"] = np.where(kind[:10] == "in", "out", "in")
    path = tmp_path_factory.mktemp("rings") / "rings.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(rings, tmp_path_factory):
    frame = pd.read_csv(rings)
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    network = LegendreNetClassifier((32, 32), max_steps=300, label_noise=0.05, random_state=0)
    TableClassifier(network).fit(frame.drop(columns="kind"), frame["kind"]).save(path)
    return path


def few_steps(monkeypatch, n_steps):
    usual = FoldSettings.for_rows
    monkeypatch.setattr(FoldSettings, "for_rows", lambda n_rows: usual(n_rows)._replace(n_steps=n_steps))


def test_fits_a_network(run, rings, tmp_path, monkeypatch):
    few_steps(monkeypatch, 300)
    words = ["fit", rings, "-t", "kind", "-o", tmp_path / "m", "--model", "network", "--seed", 0]
    words += ["--label-noise", 0.05]
    got = run(*words, "--json").json
    run("suspicious", tmp_path / "m", rings, "-t", "kind", "--no-refit", "-o", tmp_path / "s.csv")
    assert got["model"] == "network"
    assert got["epochs"] is None
    assert 0 < got["steps"] <= 300
    assert got["choice"]["model"] == "networks"
    assert got["choice"]["log_loss"] < 0.7 * got["choice"]["logistic_log_loss"]
    assert got["held_out"]["accuracy"] > 0.85
    fitted = load(tmp_path / "m")
    assert isinstance(fitted.estimator_, LegendreNetClassifier)
    wrong = pd.read_csv(tmp_path / "s.csv")["row_from_0"]
    assert (wrong < 10).mean() > 0.5
    assert (wrong < 10).sum() >= 5


def test_the_default_names_auto_where_trees_see_more(run, rings, tables, tmp_path):
    words = ["-o", tmp_path / "m", "--seed", 0]
    got = run("fit", rings, "-t", "kind", *words)
    said = re.search(
        r"suggestion: trees predict held-out rows better, .* log-loss of (\S+) instead of (\S+); .*", got.out
    )
    assert "try --model auto" in said[0]
    assert float(said[1]) < 0.6 * float(said[2])
    for more in (
        [rings, "-t", "kind", "--alpha", 1, "--link-alpha", 1, "--epochs", 2],
        [tables / "iris.csv", "-t", "kind"],
    ):
        assert run("fit", *more, *words, "--json").json["suggestion"] is None


def test_auto_takes_the_better(run, rings, tables, tmp_path, monkeypatch):
    few_steps(monkeypatch, 200)
    words = ["fit", rings, "-t", "kind", "-o", tmp_path / "m", "--model", "auto", "--seed", 0]
    text = run(*words).out
    linear, networks = re.search(r"log-loss on held-out rows: linear ([\d.]+), networks ([\d.]+)", text).groups()
    assert float(networks) < float(linear)
    assert "networks; log-loss on held-out rows" in text
    assert re.search(r"^│ steps +│ +\d+ │$", text, re.MULTILINE)
    assert "epochs" not in text
    assert "accuracy, log-loss on the rows held out" in text
    assert isinstance(load(tmp_path / "m").estimator_, LegendreNetClassifier)


def test_predicts_and_evaluates(run, rings, model, tmp_path, monkeypatch):
    monkeypatch.setattr("legendretron.diagnostics.intervals.DRAWS", 50)
    monkeypatch.setattr("legendretron.report.measured._CHANCES", 10)
    printed = run("predict", model, rings, "--proba").out
    got = pd.read_csv(io.StringIO(printed))
    frame = pd.read_csv(rings)
    np.testing.assert_allclose(
        got[["p(in)", "p(out)"]], load(model).predict_proba(frame.drop(columns="kind")), atol=1e-12
    )
    scores = run("evaluate", model, rings, "-t", "kind", "--report", tmp_path / "r.html", "--json").json
    assert scores["rows"] == 400
    page = (tmp_path / "r.html").read_text()
    assert "Importance of features" in page
    assert "matters most" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--alpha", "0.1"], "it is for --model linear or logistic; leave it out"),
        (["--tuning", "t.csv"], "it is for --model linear"),
        (["--stream"], "networks are fitted to tables in memory"),
        (["--checkpoint", "c"], "it is for --model linear"),
    ],
)
def test_what_networks_cannot_do_is_a_usage_error(run, rings, tmp_path, words, message):
    ran = run("fit", rings, "-t", "kind", "-o", tmp_path / "m", "--model", "network", "--seed", 0, *words, code=2)
    assert message in ran.err.replace("\n", " ")
