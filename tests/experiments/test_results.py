"""What an experiment of one's own may return: plain numbers, those of numpy and torch, and what is refused."""

import errno
import fcntl
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from legendretron.experiments import Batch, Experiment, Outcome, Resources, Run, Store, read_records, sweep

GOOD = {"accuracy": 90.0}


def write(records, folder):
    path = folder / "table.txt"
    path.write_text(str(len(records)))
    return [path]


def own(execute=lambda batch: Outcome({"rows": 3}, [GOOD]), settings=lambda model: {"depth": 1}, **changed):
    """Two models, of which the first is done as told and the second well."""
    well = Outcome({"rows": 3}, [GOOD])
    made = Experiment(
        name="own",
        title="of one's own",
        datasets=("d",),
        models=("first", "second"),
        settings=lambda model, dataset: settings(model) if model == "first" else {},
        execute=lambda batch, resources: execute(batch) if batch.model == "first" else well,
        report=write,
    )
    return replace(made, **changed)


def test_numbers_of_numpy_and_torch_become_plain(tmp_path):
    measured = {
        "accuracy": np.float32(87.5),
        "rows": np.int64(3),
        "good": np.bool_(True),
        "long": np.longdouble(0.5),
        "counts": np.array([1, 2]),
        "loss": torch.tensor(0.25),
        "by_class": {np.int64(0): np.float64(1.0), np.int64(1): 2.0},
        "pair": (np.int8(1), [np.float16(0.5)]),
        "name": np.str_("a"),
        "none": None,
    }
    data = {"rows": np.int64(3), "means": np.array([0.5]), "whole": np.bool_(False)}
    settings = {"alpha": np.float32(0.5), "depth": np.int64(2), "range": (np.int64(1), 2), "flag": np.bool_(True)}
    seen = []

    def execute(batch):
        seen.append(batch.settings)
        return Outcome(data, [measured])

    state = sweep(own(execute, lambda model: settings), tmp_path, Resources())
    assert (state.now, state.failed) == (2, [])
    assert seen == [{"alpha": 0.5, "depth": 2, "range": (1, 2), "flag": True}]
    assert [type(value) for value in seen[0].values()] == [float, int, tuple, bool]
    (record,) = (record for record in read_records(tmp_path) if record["model"] == "first")
    assert {name: record[name] for name in measured} == {
        "accuracy": 87.5, "rows": 3, "good": True, "long": 0.5, "counts": [1, 2], "loss": 0.25,
        "by_class": {"0": 1.0, "1": 2.0}, "pair": [1, [0.5]], "name": "a", "none": None,
    }  # fmt: skip
    assert record["data"] == {"source": "complete", "rows": 3, "means": [0.5], "whole": False}
    plainly = own(execute, lambda model: {"alpha": 0.5, "depth": 2, "range": [1, 2], "flag": True})
    assert sweep(plainly, tmp_path, Resources()).before == 2, "the same settings"


@pytest.mark.parametrize(("result", "message"), [
    (None, "execute must return an Outcome, got NoneType"),
    (Outcome({"rows": 3}, [GOOD, GOOD]), "a dict for each of the 1 runs, got "),
    (Outcome({"rows": 3}, [90.0]), r"must have a dict of data, and a dict for each of the 1 runs, got .* runs=\[90.0\]"),
    (Outcome(3, [GOOD]), r"got Outcome\(data=3, "),
    (Outcome({"rows": 3}, [{"accuracy": float("nan")}]), r"runs\[0\]\['accuracy'\] is nan, not a finite number"),
    (Outcome({"rows": 3}, [{"loss": [0.1, np.float32("inf")]}]), r"runs\[0\]\['loss'\]\[1\] is inf"),
    (Outcome({"rows": 3}, [{"model": object()}]), r"runs\[0\]\['model'\] is of type object"),
    (Outcome({"classes": {1, 2}}, [GOOD]), r"data\['classes'\] is of type set"),
    (Outcome({"names": {1: 2, "a": 3}}, [GOOD]), r"the keys of data\['names'\] must be all text or all numbers"),
])  # fmt: skip
def test_results_that_cannot_be_kept_fail_their_batch_alone(result, message, tmp_path):
    state = sweep(own(lambda batch: result), tmp_path, Resources())
    ((batch, why),) = state.failed
    assert batch.model == "first"
    assert re.search(message, why)
    assert (state.total, state.now, state.cost_done) == (2, 1, 2.0)
    assert [record["model"] for record in read_records(tmp_path)] == ["second"]


@pytest.mark.parametrize(("settings", "message"), [
    ({"alpha": float("nan")}, "settings of 'first'['alpha'] is nan, not a finite number."),
    ({"model": {"kind": object}}, "settings of 'first'['model']['kind'] is of type type, which JSON does not have."),
])  # fmt: skip
def test_settings_that_are_not_json_are_refused(settings, message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)):
        sweep(own(settings=lambda model: settings), tmp_path, Resources())


@pytest.mark.parametrize("seeds", [0, True, 1.5])
def test_an_experiment_has_at_least_one_seed(seeds):
    with pytest.raises(ValueError, match="seeds must be an integer of at least 1"):
        own(seeds=seeds)


@pytest.mark.parametrize("with_locks", [True, False])
def test_several_sweeps_may_write_to_one_folder(tmp_path, monkeypatch, with_locks):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    if not with_locks:  # as on some file systems
        monkeypatch.setattr(fcntl, "flock", refuse)

    def add(model):
        store = Store(tmp_path)
        for seed in range(50):
            batch = Batch("own", "d", model, {"long": "x" * 10_000}, "complete", (Run("d", model, 0.0, None, seed),))
            store.add(batch, Outcome({"rows": 3}, [GOOD]), 0.1, {}, "")

    with ThreadPoolExecutor(4) as pool:  # each opens the file itself, as processes do
        list(pool.map(add, "abcd"))
    assert len(read_records(tmp_path)) == 200
