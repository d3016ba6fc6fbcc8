"""Where the time of ``make unit`` goes: by folder of tests, and the slowest of them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from harness import run_cases

ROOT = Path(__file__).resolve().parents[1]
SLOWEST = 20


def unit_tests() -> dict[str, Any]:
    """Seconds of the tests, as pytest measures them while one worker for each core runs them."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        environment = {**os.environ, "PYTEST_ADDOPTS": f"--junitxml={report}"}
        subprocess.run(["make", "unit"], cwd=ROOT, env=environment, check=True)
        (suite,) = ElementTree.parse(report).getroot()
    times = {f"{case.get('classname')}::{case.get('name')}": float(case.get("time", 0)) for case in suite}
    folders: Counter[str] = Counter()
    for name, seconds in times.items():
        folders[".".join(name.partition("::")[0].split(".")[:2])] += seconds
    return {
        "tests": len(times),
        "seconds": float(suite.get("time", 0)),
        "seconds_of_all_workers": sum(times.values()),
        "seconds_by_folder": dict(folders.most_common()),
        "slowest": dict(Counter(times).most_common(SLOWEST)),
    }


if __name__ == "__main__":
    run_cases(unit_tests)
