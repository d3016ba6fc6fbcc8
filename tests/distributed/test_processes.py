"""Fits by two processes of torchrun, which really run: worker.py says what they do."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock  # which torch needs, so it is there

import killed_workers
from legendretron import LegendreTronClassifier
from legendretron.datasets.streams import source_of
from legendretron.distributed.fitting import fit_shards
from legendretron.training.layout import Layout
from tests.distributed.made_up import write_table

_spec = importlib.util.spec_from_file_location("distributed_worker", Path(__file__).with_name("worker.py"))
worker = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(worker)

# processes that import torch, and take seconds to find each other
pytestmark = pytest.mark.exhaustive
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


def launched(words, cwd=None):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for _ in range(3):
        done = subprocess.run(
            [*TORCHRUN, *words], env=environment, cwd=cwd, capture_output=True, timeout=300, text=True
        )
        # gloo's threads can abort a process when a group is dropped; that says nothing about what is tested here
        if "terminate called without an active exception" not in done.stderr:
            break
    return done


@pytest.fixture(scope="module")
def written(shared_folder):
    out = shared_folder / "two-processes"
    with FileLock(shared_folder / "two-processes.lock"):
        if not out.exists():
            out.mkdir()
            write_table(out / "table")
            done = launched([str(Path(__file__).with_name("worker.py")), str(out / "table"), str(out)])
            assert done.returncode == 0, done.stderr[-4000:]
    return out


@pytest.mark.parametrize("case", worker.CASES)
def test_two_processes_are_one_on_the_joint_batches(written, case):
    source = source_of(written / "table", target="label", weight="w")
    alone = worker.make(case)
    fit_shards(alone, source, Layout.alone(), n_shards=worker.N_SHARDS)
    together = LegendreTronClassifier.load(written / f"{case}.safetensors")
    np.testing.assert_allclose(together.coef_, alone.coef_, atol=1e-5)
    np.testing.assert_allclose(together.intercept_, alone.intercept_, atol=1e-5)
    X = pd.DataFrame(np.random.default_rng(1).normal(size=(50, 4)), columns=["x0", "x1", "x2", "x3"])
    np.testing.assert_allclose(together.predict_proba(X), alone.predict_proba(X), atol=1e-5)
    for column in ("train_loss", "accuracy", "validation_loss"):
        np.testing.assert_allclose(together.history_[column], alone.history_[column], atol=1e-5)


def test_checkpoints_are_removed_and_errors_shared(written):
    assert not list(written.glob("state*"))
    errors = [(written / f"error-{rank}").read_text() for rank in range(2)]
    assert errors[0] == errors[1]
    assert errors[0].startswith("JointError: ")
    assert "no target column 'lable'" in errors[0]


def test_a_process_is_killed():
    found = killed_workers.compare(killed_workers.by_torchrun, rows=20_000, epochs=4, kills=1)
    assert found["kills"] == 1
    assert found["largest_difference"] <= 1e-6
