"""The comparison of networks: what is run, other links of the same networks, and the report."""

import pytest

import network as benchmark
from legendretron.experiments import Resources, Run, read_records, render, sweep
from tests.experiments.test_other_tables import folder  # noqa: F401


def test_what_is_run():
    def is_run(model, dataset, noise, seed):
        return not benchmark.left_out(Run(dataset, model, noise, None, seed))

    assert is_run(benchmark.NETWORK, "tae", 0.0, 4)
    assert not is_run(benchmark.NETWORK, "tae", 0.2, 0), "wrong labels are for large tables"
    assert is_run(benchmark.WITHOUT, "letter", 0.2, 0)
    assert not is_run(benchmark.WITHOUT, "letter", 0.0, 0)
    assert not is_run("RealMLP_TD_Classifier()", "letter", 0.0, 1), "slow models have fewer splits"


def test_a_small_study(folder, tmp_path, monkeypatch):  # noqa: F811
    (folder / "keel").mkdir()
    (folder / "tae.dat").rename(folder / "keel" / "tae.dat")
    part = benchmark.EXPERIMENT.narrow(
        datasets=["tae"], models=[benchmark.NETWORK, benchmark.HGB, "LGBMClassifier()"], seeds=1, noise=[0.0]
    )
    monkeypatch.setattr(benchmark.importlib.util, "find_spec", lambda _: None)
    # networks that are not better than logistic regression have no other links
    monkeypatch.setattr(benchmark.estimators, "_MUST_GAIN", -1e9)
    state = sweep(part, tmp_path / "out", Resources(folder))
    assert [why for _, why in state.failed] == [
        "ValueError: LGBMClassifier() is of another library: pip install lightgbm"
    ]
    render(part, state, tmp_path / "out")
    (own,) = [record for record in read_records(tmp_path / "out") if record["model"] == benchmark.NETWORK]
    assert own["other_links"].keys() == {"no link", "a temperature", "mean of probabilities"}
    assert own["other_links"]["a temperature"] == pytest.approx(own["log_loss"], abs=0.5)
    text = (tmp_path / "out" / "network.md").read_text()
    assert "| a temperature |" in text
    assert "HistGradientBoostingClassifier() has the lower log-loss on" in text
