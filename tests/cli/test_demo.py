"""The demonstration, shorter."""

import joblib
import numpy as np
import torch


def test_demo(run, tmp_path, monkeypatch):
    monkeypatch.setattr("legendretron.cli.demo.STRENGTHS", np.array([0.01]))
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    with joblib.parallel_config(backend="sequential"):  # processes would take longer to start than to work
        result = run("demo", "--epochs", 2, "--out", tmp_path / "new", "--json", "--quiet").json
    after = torch.get_num_threads()
    torch.set_num_threads(threads)
    assert after == threads + 1
    assert list(result["models"]) == [
        "logistic regression",
        "LegendreTron, composite link",
        "LegendreTron, canonical link",
    ]
    assert result["models"]["logistic regression"]["accuracy"] > 0.95
    assert all(scores["accuracy"] > 0.5 for scores in result["models"].values())
    for path in result["plots"]:
        with open(path, "rb") as file:
            assert file.read(4) == b"\x89PNG"
