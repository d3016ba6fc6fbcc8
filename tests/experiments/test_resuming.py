"""A sweep that is killed again and again ends with the results of one that is left alone."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from filelock import FileLock  # which torch needs, so it is there

from legendretron.experiments import read_records

pytestmark = pytest.mark.exhaustive
#: each costs a start of Python, torch and the workers; `make resuming` has ten
KILLS = int(os.environ.get("LEGENDRETRON_KILLS", "2"))
COMMAND = [
    sys.executable, "-m", "legendretron", "reproduce", "table_libsvm", "--datasets", "iris,wine", "--seeds", "4",
    "--noise", "0,0.2", "--epochs", "15", "--model", "LegendreTron", "--model", "logistic regression", "--batch", "1",
    "--quiet",
]  # fmt: skip


def started(out, data_folder, *options):
    command = [*COMMAND, "--data", str(data_folder), "--out", str(out), *options]
    with (out / "said.txt").open("w") as said:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)


def ended(process, out):
    """Wait for a sweep that is left alone."""
    assert process.wait(300) == 0, (out / "said.txt").read_text()


def finished(out):
    path = out / "table_libsvm" / "runs.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def results(out):
    facts = ("dataset", "model", "seed", "noise", "accuracy", "log_loss", "train_counts", "test_counts", "settings")
    records = read_records(out / "table_libsvm")
    return {record["key"]: json.dumps({name: record[name] for name in facts}) for record in records}


@pytest.fixture(scope="module")
def undisturbed(data_folder, shared_folder):
    out = shared_folder / "undisturbed"
    with FileLock(shared_folder / "undisturbed.lock"):
        if not out.exists():
            out.mkdir()
            ended(started(out, data_folder), out)
    expected = results(out)
    assert len(expected) == 32
    return expected


@pytest.mark.parametrize("backend", ["loky", "ray"])
def test_killed_at_random_moments(backend, data_folder, tmp_path, undisturbed):
    chance = random.Random(backend)
    seen: dict[str, str] = {}
    for kill in range(KILLS):
        process = started(tmp_path, data_folder, "--backend", backend, "--jobs", "2")
        before = finished(tmp_path)
        # most kills hit while results come in, some while everything is starting
        if kill % 4:
            while finished(tmp_path) == before and process.poll() is None:
                time.sleep(0.01)
        time.sleep(chance.random() * 0.4)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        now = results(tmp_path)  # raises if a file is only half there
        assert seen.items() <= now.items(), "a finished run was lost or changed"
        seen = now
    assert len(seen) > 0, "the sweep never got to a result before it was killed"
    path = tmp_path / "table_libsvm" / "runs.jsonl"
    *written, _ = path.read_bytes().split(b"\n")
    ended(started(tmp_path, data_folder, "--backend", backend, "--jobs", "2"), tmp_path)
    assert results(tmp_path) == undisturbed
    assert path.read_bytes().split(b"\n")[: len(written)] == written, "a finished run was repeated"
