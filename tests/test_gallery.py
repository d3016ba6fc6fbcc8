"""The examples show every plot, and run."""

import os
import re
import runpy
import subprocess
import sys

import pytest
import torch

from legendretron import plots
from tests.test_docs import ROOT

EXAMPLES = ROOT / "examples"


def test_every_display_is_shown_in_an_example():
    shown = "".join(path.read_text() for path in (EXAMPLES / "gallery").glob("plot_*.py"))
    assert [name for name in plots.__all__ if name.endswith("Display") and f"{name}.from_" not in shown] == []


# --- the examples run as a reader would run them, only shorter ---


@pytest.mark.exhaustive  # most of their time goes into importing torch and other libraries
@pytest.mark.parametrize(("script", "arguments", "least"), [
    ("train_loop.py", ["--epochs", "5"], 0.9),
    ("lightning_module.py", ["--epochs", "5"], 0.9),
    ("huggingface_trainer.py", ["--epochs", "5", "--rows", "1000"], 0.5),
    ("skorch_net.py", ["--epochs", "10"], 0.9),
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


@pytest.mark.exhaustive  # importing the Trainer takes long
@pytest.mark.parametrize("steps", [1, 4])
def test_the_loss_that_a_trainer_logs_is_that_of_its_batches_when_gradients_are_accumulated(tmp_path, steps):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    example = runpy.run_path(str(EXAMPLES / "huggingface_trainer.py"))
    config = transformers.BertConfig(
        vocab_size=5, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, num_labels=5,
        max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model, data = example["BertWithLearnedLoss"](config), example["MostFrequentToken"](32, seed=0)
    arguments = transformers.TrainingArguments(
        output_dir=tmp_path, max_steps=1, per_device_train_batch_size=32 // steps, gradient_accumulation_steps=steps,
        logging_steps=1, report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True, dataloader_pin_memory=False,
    )  # fmt: skip
    with torch.no_grad():
        expected = model(data.tokens, data.labels).loss.item()
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=data)
    trainer.train()
    assert trainer.state.log_history[0]["loss"] == pytest.approx(expected, rel=1e-3)


def test_the_five_minutes_run():
    pytest.importorskip("matplotlib").use("Agg")
    names = runpy.run_path(str(EXAMPLES / "gallery/plot_0_five_minutes.py"))
    scores = names["scores"]
    assert scores.keys() == {"logistic regression", "gradient boosting", "linear", "network"}
    assert scores["network"]["log-loss"] < scores["gradient boosting"]["log-loss"]
    assert names["held"] > 0.85
    assert (names["folder"] / "report.html").stat().st_size > 50_000
