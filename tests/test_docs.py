"""Numbers in the documents are those of the recorded results."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_theory_table_matches_the_record():
    record = json.loads((ROOT / "docs/results/theory.json").read_text())
    text = (ROOT / "docs/theory.md").read_text()
    for row in record["links"]:
        line = (
            f"| {row['data']} | {row['link']} | {row['n_points']} | {row['median_asymmetry']:.1e} "
            f"| {row['indefinite_share']:.0%} | {row['nonmonotone_share']:.1%} |"
        )
        assert line in text
    low, high = record["counterexample_eigenvalues"]
    assert f"eigenvalues {low:.2f} and {high:.2f}" in text


def test_local_links_lead_somewhere():
    for document in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
