"""What was chosen, and what was tried."""

import numpy as np
import pandas as pd
import pytest

from legendretron import LegendreTronClassifier


@pytest.fixture(scope="module")
def curved(tmp_path_factory):
    """Six classes of two clusters each, which planes do not separate."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(12, 3))
    which = rng.integers(12, size=400)
    X = centres[which] + 0.2 * rng.normal(size=(400, 3))
    path = tmp_path_factory.mktemp("curved") / "t.csv"
    pd.DataFrame(X, columns=list("abc")).assign(kind=which % 6).to_csv(path, index=False)
    return path


@pytest.mark.exhaustive
def test_a_learned_link_is_chosen_where_it_is_better(run, curved, tmp_path):
    words = ["fit", curved, "-t", "kind", "-o", tmp_path / "m", "--seed", 0, "--cv", 2, "--tuning", tmp_path / "t.csv"]
    choice = run(*words, "--json").json["choice"]
    clf = LegendreTronClassifier.load(tmp_path / "m")
    assert (choice["model"], choice["alpha"], choice["link_alpha"]) == ("learned link", clf.alpha_, clf.link_alpha_)
    assert choice["log_loss"] < choice["logistic_log_loss"]
    observed = " of labels as they are" if clf.noise_rate_ > 0 else ""
    assert choice["text"] == (
        f"learned link, alpha {clf.alpha_:.2g}, link_alpha {clf.link_alpha_:.2g}; log-loss{observed} on held-out rows "
        f"{choice['log_loss']:.3f}, logistic regression {choice['logistic_log_loss']:.3f}"
    )
    tried = pd.read_csv(tmp_path / "t.csv")
    assert tried["chosen"].sum() == 1
    assert np.isclose(tried["log_loss"][tried["chosen"]].item(), choice["log_loss"])
    assert set(tried["model"]) == {"learned link", "logistic regression"}


def test_logistic_regression_is_chosen_where_a_link_is_not_better(run, tables, tmp_path):
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", "--seed", 0, "--epochs", 2]
    ran = run(*words, "--tuning", tmp_path / "new" / "t.svg")
    assert "model: logistic regression, alpha " in ran.out
    assert ": a learned link was not better by more than its standard error\n" in ran.out
    assert str(tmp_path / "new" / "t.svg") in ran.out
    assert b"<svg" in (tmp_path / "new" / "t.svg").read_bytes()
    choice = run(*words, "--json").json["choice"]
    assert choice["link_alpha"] is None
    assert choice["log_loss"] == choice["logistic_log_loss"]


def test_only_logistic_regression(run, tables, tmp_path):
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", "--model", "logistic"]
    choice = run(*words, "--tuning", tmp_path / "t.parquet", "--json").json["choice"]
    assert choice["text"].endswith(f"; log-loss on held-out rows {choice['log_loss']:.3f}")
    assert choice["logistic_log_loss"] is None
    assert len(pd.read_parquet(tmp_path / "t.parquet")) > 2


def test_a_link_is_asked_for(run, tables, tmp_path):
    """A strength on the link that is given leaves no choice between link and none."""
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", "--seed", 0, "--epochs", 2]
    choice = run(*words, "--link-alpha", "0.01", "--json").json["choice"]
    assert choice["text"].startswith("learned link, alpha ")
    assert "logistic regression" not in choice["text"]


def test_too_few_rows_to_choose(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,kind\n1,x\n2,y\n3,z\n")
    words = ["fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m"]
    choice = run(*words, "--json").json["choice"]
    assert choice["text"].endswith(": there are too few rows to try others")
    assert choice["log_loss"] is None
    error = run(*words, "--tuning", tmp_path / "t.png", "--quiet", code=1).error
    assert error.endswith("there were too few rows to hold any out; fit to more rows, or give --alpha.")
