"""The table of VGG and VGGTron, on a few made-up images; `tests/test_docs.py` tests its report."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import nll_loss

from legendretron.datasets import load_images
from legendretron.experiments import Resources, read_records, sweep
from legendretron.paper import EXPERIMENTS
from legendretron.paper.vgg import recipe
from legendretron.paper.vgg_network import VGGTron, log_probabilities, train_network
from tests.paper.made_up import write_images

TABLE = EXPERIMENTS["table_vgg"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    write_images(folder / "mnist", 10, 10, noise=40.0)
    return folder


def small(models=TABLE.models, datasets=("mnist",), seeds=2, batch=5):
    part = TABLE.narrow(models=models, datasets=datasets, seeds=seeds).shorten(1)
    return replace(part, settings=lambda model, dataset: {**recipe(model, dataset), "epochs": 1, "batch": batch})


@pytest.fixture(scope="module")
def done(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    torch.backends.cudnn.benchmark = False  # another library may have changed it in this process
    return out, sweep(small(), out, Resources(folder)), read_records(out)


def test_records(done):
    _, state, records = done
    assert state.failed == []
    assert (state.total, state.now, len(records)) == (6, 6, 6)
    for record in records:
        assert record["data"]["rows"] == sum(record["data"]["train_counts"]) == 10
        assert "(10 of 60,000 images" in record["data"]["label"]
        assert record["batch_runs"] == 1
        assert 0.0 <= record["accuracy"] <= 100.0
        assert 0.0 <= record["calibration_error"] <= 1.0
        assert 0.0 < record["training_seconds"] <= record["seconds"]
        assert record["settings"]["epochs"] == 1
    assert {r["settings"]["network"] for r in records if r["model"] != "VGG"} == {"VGGTron"}
    losses = [r["log_loss"] for r in records]
    assert len(set(losses)) == len(losses), "all networks and seeds differ"


def test_a_run_is_what_training_it_alone_gives(done, folder):
    (record,) = [r for r in done[2] if (r["dataset"], r["model"], r["seed"]) == ("mnist", "VGGTron", 1)]
    images = load_images("mnist", folder)
    mean, deviation = images.train_images.mean(), images.train_images.std()
    x, x_test = (
        torch.as_tensor((pixels - mean) / deviation, dtype=torch.float32).unsqueeze(1)
        for pixels in (images.train_images, images.test_images)
    )
    torch.manual_seed(1)
    network = VGGTron()
    train_network(network, x, torch.as_tensor(images.train_labels), record["settings"], seed=1)
    log_p = log_probabilities(network, x_test)
    labels = torch.as_tensor(images.test_labels)
    assert record["log_loss"] == pytest.approx(float(nll_loss(log_p, labels)), rel=1e-4)
    assert record["accuracy"] == pytest.approx(100 * float((log_p.argmax(-1) == labels).double().mean()))


def test_what_the_experiment_does_not_know_is_refused(folder, tmp_path):
    ((_, why),) = sweep(
        small(models=("VGG",), datasets=("mnist",), seeds=1, batch=11), tmp_path, Resources(folder)
    ).failed
    assert "batch must be at most the number of training images, 10, got 11" in why
    assert read_records(tmp_path) == []
