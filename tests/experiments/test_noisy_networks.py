"""The experiment on networks and wrong labels, on a few made-up images."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import noisy_networks as benchmark
from legendretron.experiments import Resources, read_records, render, sweep
from tests.paper.made_up import write_images

CHOSEN = ["generalised cross-entropy", "LegendreHead, learned rate", "LegendreHead, learned matrix"]
SMALL = {"width": 2, "epochs": 1, "batch": 32}


def small(method, dataset):
    return {**benchmark.SETTINGS, **SMALL, **benchmark.METHODS[method]}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noisy")
    write_images(folder / "data" / "mnist", 64, 40, noise=40.0)
    part = benchmark.EXPERIMENT.narrow(datasets=["mnist"], models=CHOSEN, seeds=1)
    part = replace(part, settings=small, trial=True)
    state = sweep(part, folder, Resources(folder / "data"))
    assert (state.now, state.failed) == (12, [])
    return folder, part, state


def test_the_records(done):
    records = read_records(done[0])
    for record in records:
        assert 0.0 <= record["accuracy"] <= 100.0
        assert 0.0 < record["brier"] < 2.0
        assert ("rates" in record) == ("learned" in record["model"])
        if "rates" in record:
            assert len(record["rates"]) == 2  # before training and after one epoch
            assert record["rates"][0] == pytest.approx(0.09 if "matrix" in record["model"] else 0.225, rel=1e-5)
    wrong = {record["noise"]: record["wrong_share"] for record in records}
    assert wrong[0.0] == 0.0
    assert wrong[0.5] == pytest.approx(0.5, abs=0.2)


def test_the_report(done):
    folder, part, state = done
    text, _, *pictures = render(part, state, folder)
    report = text.read_text()
    assert "A trial" in report
    assert report.count("| pair flips 30 % |") == len(CHOSEN)
    assert report.count("**") == 2 * len(benchmark.NOISES) + 2  # the best of each noise, and that it is a trial
    assert all(path.stat().st_size > 10_000 for path in pictures)


def test_generalised_cross_entropy():
    log_p, y = torch.randn(20, 10).log_softmax(-1), torch.arange(20) % 10
    expected = ((1 - log_p.exp()[torch.arange(20), y] ** 0.7) / 0.7).mean()
    torch.testing.assert_close(benchmark.generalised_loss(0.7)(None, log_p, y), expected)


def test_known_noise_is_what_made_the_labels_wrong():
    for noise, (_, matrix) in benchmark.NOISES.items():
        known = benchmark.METHODS["forward correction, known noise"]["head"]
        head = benchmark.network_of(known, noise, 2, 0).head
        assert head.noise_rate == pytest.approx(noise, abs=1e-6)
        np.testing.assert_allclose(head.noise_matrix, matrix, atol=1e-6)
    first, second = (benchmark.network_of(benchmark.METHODS[m]["head"], 0.0, 2, 0).features for m in CHOSEN[:2])
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
