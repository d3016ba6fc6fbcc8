"""A network with a learned loss in a plain training loop.

    python examples/train_loop.py

One line differs from a network with cross-entropy: the last layer is a LegendreHead, and the loss is NLLLoss.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

from digits_data import digits
from legendretron.nn import LegendreHead, parameter_groups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    torch.manual_seed(0)
    X, y, X_test, y_test = digits()
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), LegendreHead(64, 10))
    criterion = nn.NLLLoss()
    # the link at a rate of its own, and without weight decay
    optimizer = torch.optim.AdamW(parameter_groups(net, link={"lr": 1e-2}), lr=3e-3)
    for _ in range(options.epochs):
        for rows in torch.randperm(len(X)).split(64):
            optimizer.zero_grad()
            criterion(net(X[rows]), y[rows]).backward()
            optimizer.step()
    net.eval()
    with torch.no_grad():
        log_proba = net(X_test)
    accuracy = (log_proba.argmax(1) == y_test).float().mean()
    print(f"test accuracy {accuracy:.3f}, log-loss {criterion(log_proba, y_test):.3f}")


if __name__ == "__main__":
    main()
