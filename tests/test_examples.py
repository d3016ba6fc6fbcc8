"""The examples run as a reader would run them, only shorter."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.mark.parametrize(("script", "arguments", "least"), [
    # most of their time goes into importing torch and other libraries
    pytest.param("train_loop.py", ["--epochs", "5"], 0.9, marks=pytest.mark.exhaustive),
    pytest.param("lightning_module.py", ["--epochs", "5"], 0.9, marks=pytest.mark.exhaustive),
    pytest.param("huggingface_trainer.py", ["--epochs", "5", "--rows", "1000"], 0.5, marks=pytest.mark.exhaustive),
    pytest.param("skorch_net.py", ["--epochs", "10"], 0.9, marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_networks(tmp_path, script, arguments, least):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments],
        capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    accuracy, log_loss = re.search(r"test accuracy ([\d.]+), log-loss ([\d.]+)", done.stdout).groups()
    assert float(accuracy) > least
    assert float(log_loss) < 1.3
