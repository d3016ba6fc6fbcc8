"""Training on two processes, which really run: worker.py says what they do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock  # which torch needs, so it is there

LINKS = ["softmax", "composite", "cpflow", "canonical", "leaky", "rate", "known rate"]
MATRICES = ["matrix", "known matrix"]
RANK = 9  # r of the worker's links: H = 2 units, M = 4 layers, and the output
N_NESTS = 4


# two processes that import torch and compile; one set-up for all of these tests
pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def measured(shared_folder):
    out = shared_folder / "measured.json"
    with FileLock(shared_folder / "measured.lock"):
        if not out.exists():
            measure(out)
    ranks = json.loads(out.read_text())
    assert len(ranks) == 2
    return ranks


def measure(out):
    worker = Path(__file__).with_name("worker.py")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*torchrun, str(worker), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for _ in range(3):
        done = subprocess.run(command, env=environment, capture_output=True, timeout=300, text=True)
        # gloo's threads can abort a process when a group is dropped; that says nothing about what is tested here
        if "terminate called without an active exception" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("link", LINKS + MATRICES)
@pytest.mark.parametrize("kind", ["data_parallel", "fully_sharded"])
def test_gradients_and_training_equal_one_process_on_the_joined_batch(measured, kind, link):
    for rank in measured:
        case = rank[f"{kind} {link}"]
        assert case["gradient"] < 1e-5
        assert case["final"] < 1e-5


@pytest.mark.parametrize("link", LINKS + MATRICES)
def test_methods_of_a_sharded_head_see_whole_parameters(measured, link):
    for rank in measured:
        case = dict(rank[f"sharded_methods {link}"])
        calls = ["loss", "log_proba_observed", "blocks"] + ["label_quality"] * (
            link in ["rate", "known rate", *MATRICES]
        )
        for name in calls:
            assert "register_fsdp_forward_method" in case.pop(f"error {name}")
        assert len(case) == len(calls) + 6  # a gradient and the trained parameters, three times
        assert {name: value for name, value in case.items() if not value < 1e-5} == {}


@pytest.mark.parametrize("link", LINKS)
def test_class_parallel_head_equals_the_whole_one(measured, link):
    for rank in measured:
        case = dict(rank[f"class_parallel {link}"])
        case.pop("elements sent per row")
        # otherwise there would be a message of an entry for each row and class
        assert case.pop("kinds of messages back") == ["all_reduce"]
        assert case.pop("share of the linear layer") in (pytest.approx(4 / 7), pytest.approx(3 / 7))
        assert len(case) == 12
        # noise bounds the log-probabilities, so that the rounding of large predictors is seen beside smaller numbers
        most = {"large": 1e-4 if "rate" in link else 1e-5}
        assert {name: value for name, value in case.items() if not value < most.get(name.split()[0], 1e-5)} == {}


def test_first_batches_and_meshes(measured):
    for rank in measured:
        assert rank["checkpoint_on_one_rank"] == {"moved": 0.0}
        assert rank["compiled_first_batch"]["difference"] < 1e-5
        assert rank["compiled_first_batch"]["waits"] == 0.0
        assert rank["split_and_sharded"]["difference"] < 1e-5


@pytest.mark.parametrize(("link", "sizes"), [
    ("softmax", [1, 1, 1]),  # largest entry, sum of exponentials, the label's entry
    ("composite", [1, 1, 1, RANK, RANK]),  # and the projections of two blocks
    ("canonical", [1, 1, N_NESTS, N_NESTS]),  # and largest entry and sum of each nest
    ("leaky", [1, 1, 1]),  # nothing else: each process has the slopes of its own classes
    ("rate", [1, 1, 1, RANK, RANK]),  # noise needs nothing else
])  # fmt: skip
def test_only_projections_and_log_sum_exps_travel(measured, link, sizes):
    assert measured[0][f"class_parallel {link}"]["elements sent per row"] == sizes


def test_heads_with_a_matrix_of_noise(measured):
    for found in measured:
        for name in MATRICES:
            assert "Use label_noise='learn' or a number" in found["matrices"][f"error {name}"]
            assert found["matrices"][f"sharded {name}"] < 1e-5


def test_a_reset_of_shards_is_the_start_of_one_process(measured):
    for rank in measured:
        case = rank["reset"]
        assert len(case) == 4 * (2 * len(LINKS) + len(MATRICES))
        assert {name: value for name, value in case.items() if value} == {}
