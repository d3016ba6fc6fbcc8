"""The example of docs/own_comparison.md: data and models that the library knows nothing of, in a module of its own."""

import importlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from legendretron.experiments import MissingDataError, Resources, read_records, render, sweep

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_comparison.py"


@pytest.fixture
def script(tmp_path):
    code = EXAMPLE.read_text()
    assert "    seeds=5,\n" in code
    path = tmp_path / "my_comparison.py"
    path.write_text(code.replace("    seeds=5,\n", "    seeds=3,\n"))  # shorter
    return path


@pytest.fixture
def module(script, monkeypatch):
    monkeypatch.syspath_prepend(str(script.parent))
    sys.modules.pop("my_comparison", None)
    yield importlib.import_module("my_comparison")
    sys.modules.pop("my_comparison", None)


def measured(folder):
    return {
        record["key"]: (record["dataset"], record["model"], record["seed"], record["accuracy"], record["log_loss"])
        for record in read_records(folder)
    }


@pytest.mark.exhaustive
def test_the_script_of_the_page_runs_and_goes_on(script, module):
    done = subprocess.run(
        [sys.executable, str(script)], cwd=script.parent, capture_output=True, text=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "12 runs done, 0 before" in done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| iris", "| wine"]
    trained = [float(line.split(" | ")[2].split(" ± ")[0]) for line in lines[2:]]
    assert all(accuracy > 93.0 for accuracy in trained), "both models are trained to the end"
    again = sweep(module.COMPARISON, script.parent / "results" / "my_comparison", Resources())
    assert (again.before, again.now) == (12, 0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", ["loky", "ray"])
def test_other_processes_get_what_is_in_the_module(backend, module, tmp_path):
    part = module.COMPARISON.narrow(datasets=["iris"], seeds=2).shorten(2)
    alone = sweep(part, tmp_path / "alone", Resources())
    others = sweep(part, tmp_path / backend, Resources(), backend=backend, n_jobs=2)
    assert (alone.now, others.now, others.failed) == (4, 4, [])
    assert measured(tmp_path / backend) == measured(tmp_path / "alone")
    assert "A trial" in render(part, others, tmp_path / backend)[0].read_text()


def test_data_that_are_missing_are_left_out(module, tmp_path):
    def find_data(dataset, resources, on_download):
        if dataset == "wine":
            raise MissingDataError("wine is sold out; get it elsewhere.")
        on_download(dataset, 10, 10)
        return f"from {resources.data.name}"

    seen = []
    part = replace(module.COMPARISON, find_data=find_data).narrow(models=["random forest"], seeds=1)
    resources = Resources(tmp_path / "cellar")
    state = sweep(part, tmp_path, resources, on_download=lambda *progress: seen.append(progress))
    assert state.skipped == {"wine": "wine is sold out; get it elsewhere."}
    assert (state.total, state.now, seen) == (1, 1, [("iris", 10, 10)])
    (record,) = read_records(tmp_path)
    assert record["data"] == {"source": "from cellar", "rows": 150}
    assert json.loads(json.dumps(record)) == record
    elsewhere = replace(part, find_data=lambda *_: "complete").narrow(datasets=["iris"])
    assert sweep(elsewhere, tmp_path, resources).before == 0, "other data are other runs"
