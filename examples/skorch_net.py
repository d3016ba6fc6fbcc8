"""A network with a learned loss as a scikit-learn classifier, by skorch.

    pip install skorch
    python examples/skorch_net.py

Log-probabilities are logits that are normalized already, so that skorch takes the network for one that gives logits.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from sklearn.metrics import log_loss
from skorch import NeuralNetClassifier
from torch import nn

from digits_data import digits
from legendretron.nn import LegendreHead


class Net(nn.Module):
    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), LegendreHead(hidden, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    torch.manual_seed(0)
    X, y, X_test, y_test = (np.asarray(part) for part in digits())
    net = NeuralNetClassifier(
        Net,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.AdamW,
        lr=3e-3,
        max_epochs=options.epochs,
        batch_size=64,
        verbose=0,
    )
    net.fit(X, y)
    print(f"test accuracy {net.score(X_test, y_test):.3f}, log-loss {log_loss(y_test, net.predict_proba(X_test)):.3f}")


if __name__ == "__main__":
    main()
