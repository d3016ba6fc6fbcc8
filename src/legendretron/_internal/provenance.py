"""Where a figure comes from: versions, device and commit, to be kept beside every result."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import numpy
import scipy
import sklearn
import torch

from legendretron._internal.version import __version__


def provenance(device: str = "cpu") -> dict[str, object]:
    """Return what a reader needs to judge or repeat a measurement that a torch device made.

    Examples
    --------
    >>> sorted(provenance())
    ['commit', 'device', 'threads', 'versions']
    """
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.machine()
    return {
        "commit": _commit(),
        "device": f"{device} ({name})",
        "threads": torch.get_num_threads(),
        "versions": {
            "legendretron": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        },
    }


def _commit() -> str | None:
    """Commit of the checkout the package runs from, with a plus if files have changed.

    Where there is no checkout, the environment variable LEGENDRETRON_COMMIT can tell; else None.
    """
    if told := os.environ.get("LEGENDRETRON_COMMIT"):
        return told
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(here), *words], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "--", "provenance.py")  # a checkout of ours, not one we are installed into
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--", "*.py") else "")
    except (OSError, subprocess.SubprocessError):
        return None
