"""Handwritten digits for the examples: tensors, split and scaled."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Training images and labels, test images and labels: (n, 64) in [0, 1] and (n,)."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, test_size=0.3, random_state=0, stratify=y)
    return (
        torch.tensor(X_train, dtype=torch.float32),
        torch.tensor(y_train),
        torch.tensor(X_test, dtype=torch.float32),
        torch.tensor(y_test),
    )
