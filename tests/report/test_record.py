"""What the guide says about time and size is what was recorded."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_guide_has_the_figures_of_the_record():
    record = json.loads((ROOT / "docs" / "results" / "report_speed.json").read_text())
    assert record["shape"] == [100_000, 50, 26]
    text = " ".join((ROOT / "docs" / "guide" / "report.md").read_text().split())
    assert f"{record['processor_seconds']:.0f} s of one processor" in text
    assert f"a page of {record['megabytes']:.1f} MB" in text
