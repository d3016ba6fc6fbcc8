"""A network with a learned loss under Lightning.

pip install lightning
python examples/lightning_module.py
"""

from __future__ import annotations

import argparse

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from digits_data import digits
from legendretron.nn import LegendreHead, parameter_groups


class Classifier(lightning.LightningModule):
    def __init__(self, in_features: int, n_classes: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(in_features, 64), nn.ReLU(), LegendreHead(64, n_classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        x, y = batch
        return nn.functional.nll_loss(self(x), y)

    def test_step(self, batch: list[torch.Tensor]) -> None:
        x, y = batch
        log_proba = self(x)
        self.log("accuracy", (log_proba.argmax(1) == y).float().mean())
        self.log("log-loss", nn.functional.nll_loss(log_proba, y))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameter_groups(self, link={"lr": 1e-2}), lr=3e-3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    lightning.seed_everything(0, verbose=False)
    X, y, X_test, y_test = digits()
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = lightning.Trainer(max_epochs=options.epochs, accelerator="auto", devices=1, **quiet)
    model = Classifier(64, 10)
    trainer.fit(model, DataLoader(TensorDataset(X, y), batch_size=64, shuffle=True))
    (result,) = trainer.test(model, DataLoader(TensorDataset(X_test, y_test), batch_size=len(X_test)), verbose=False)
    print(f"test accuracy {result['accuracy']:.3f}, log-loss {result['log-loss']:.3f}")


if __name__ == "__main__":
    main()
