"""The experiment on networks and wrong labels, on a few made-up images."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.paper.made_up_images import write_images

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("noisy_networks", ROOT / "benchmarks" / "noisy_networks.py")
noisy_networks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(noisy_networks)

CHOSEN = ["cross-entropy", "LegendreHead, learned rate", "LegendreHead, learned matrix, penalty"]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noisy")
    write_images(folder / "data" / "mnist", 64, 40, noise=40.0)
    arguments = ["--data", str(folder / "data"), "--out", str(folder / "record.json"), "--tiny", "--datasets", "mnist"]
    arguments += ["--epochs", "1", "--width", "2", "--methods", ";".join(CHOSEN)]
    noisy_networks.main([*arguments, "--seeds", "1"])
    return folder, arguments


def test_the_record(done):
    folder, _ = done
    record = json.loads((folder / "record.json").read_text())
    assert {"settings", "trial", "data", "seeds", "command", "commit", "device", "versions"} <= set(record)
    assert len(record["runs"]) == len(noisy_networks.NOISES) * len(CHOSEN)
    for run in record["runs"]:
        assert 0.0 <= run["accuracy"] <= 100.0
        assert 0.0 < run["brier"] < 2.0
        assert ("rates" in run) == ("learned" in run["method"])
        if "rates" in run:
            assert len(run["rates"]) == 2  # before training and after one epoch
            assert run["rates"][0] == pytest.approx(0.09 if "matrix" in run["method"] else 0.225, rel=1e-5)
    wrong = {run["noise"]: run["wrong_share"] for run in record["runs"]}
    assert wrong["none"] == 0.0
    assert wrong["symmetric 50 %"] == pytest.approx(0.5, abs=0.2)


def test_it_goes_on_where_it_was_stopped(done):
    folder, arguments = done
    before = json.loads((folder / "record.json").read_text())["runs"]
    noisy_networks.main([*arguments, "--seeds", "2", "--seconds", "0.001"])  # no time at all
    assert json.loads((folder / "record.json").read_text())["runs"] == before
    noisy_networks.main([*arguments, "--seeds", "2"])
    after = json.loads((folder / "record.json").read_text())["runs"]
    assert after[: len(before)] == before
    assert [run["seed"] for run in after] == [0] * len(before) + [1] * len(before)
    with pytest.raises(SystemExit, match="other settings"):
        noisy_networks.main([*arguments, "--epochs", "2"])


def test_the_report(done):
    folder, _ = done
    noisy_networks.main(["--render", str(folder / "record.json")])
    report = (folder / "report.md").read_text()
    assert "A trial" in report
    assert report.count("| pair flips 30 % |") == len(CHOSEN)
    assert report.count("**") == 2 * len(noisy_networks.NOISES) + 2  # the best of each noise, and that it is a trial
    for name in ("accuracy.png", "rates.png"):
        assert (folder / name).stat().st_size > 10_000


def test_generalised_cross_entropy():
    loss = noisy_networks.loss_of("generalised cross-entropy", noisy_networks.SETTINGS)
    log_p, y = torch.randn(20, 10).log_softmax(-1), torch.arange(20) % 10
    expected = ((1 - log_p.exp()[torch.arange(20), y] ** 0.7) / 0.7).mean()
    torch.testing.assert_close(loss(None, log_p, y), expected)


def test_known_noise_is_what_made_the_labels_wrong():
    for noise, (share, matrix) in noisy_networks.NOISES.items():
        head = noisy_networks.network_of("forward correction, known noise", noise, 2, 0).head
        assert head.noise_rate == pytest.approx(share, abs=1e-6)
        np.testing.assert_allclose(head.noise_matrix, matrix, atol=1e-6)
    first, second = (noisy_networks.network_of(method, "none", 2, 0).features for method in CHOSEN[:2])
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
