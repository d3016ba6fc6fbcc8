"""Numbers in the documents are those of the recorded results."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from legendretron.experiments import EXPERIMENTS, read_records

ROOT = Path(__file__).resolve().parent.parent
_spec = importlib.util.spec_from_file_location("render", ROOT / "docs" / "render.py")
render = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(render)


@pytest.mark.parametrize("document", render.TABLES)
def test_tables_are_those_of_the_records(document):
    assert render.rendered(document) == (ROOT / document).read_text()


def test_counterexample_of_the_theory_page():
    low, high = json.loads((ROOT / "docs/results/theory.json").read_text())["counterexample_eigenvalues"]
    assert f"eigenvalues {low:.2f} and {high:.2f}" in (ROOT / "docs/theory.md").read_text()


def test_every_record_tells_where_it_comes_from():
    for path in (ROOT / "docs/results").rglob("*.json"):
        record = json.loads(path.read_text())
        for key in ("command", "commit", "device", "versions", "threads"):
            assert record.get(key), f"{path.name} lacks {key}"


@pytest.mark.parametrize("folder", sorted((ROOT / "docs/results").rglob("runs")), ids=lambda path: path.parent.name)
def test_reports_are_those_of_the_records(folder, tmp_path):
    """What `legendretron reproduce` has written follows from the runs that lie beside it."""
    records = {record["key"]: record for record in read_records(folder)}
    name = next(iter(records.values()))["experiment"]
    written = (folder.parent / f"{name}.csv").read_text()
    again = EXPERIMENTS[name].report(in_order(EXPERIMENTS[name], records), tmp_path)
    assert (tmp_path / f"{name}.csv").read_text() == written
    text = (tmp_path / f"{name}.md").read_text()
    assert text == (folder.parent / f"{name}.md").read_text()
    assert len(again) >= 2


def in_order(experiment, records):
    """Records as the runner hands them over: by data set, model, noise, size and seed."""
    axes = (experiment.datasets, experiment.models, experiment.noise, experiment.sizes)

    def place(record):
        values = (record["dataset"], record["model"], record["noise"], record["size"])
        return (*(axis.index(value) for axis, value in zip(axes, values, strict=True)), record["seed"])

    return sorted(records.values(), key=place)


def test_local_links_lead_somewhere():
    for document in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
