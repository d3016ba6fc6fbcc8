r"""The small convolutional network of the paper's table, with and without a learned loss."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from legendretron._internal.validation import check_integer, check_last_axis
from legendretron.nn.head import LegendreHead


class VGG5(nn.Module):
    r"""A VGG with five weight layers: four 3 x 3 convolutions in two stages, then a linear layer.

    ========  ==============================================================
    stage     layers
    ========  ==============================================================
    1         conv 64, batch norm, ReLU, conv 64, batch norm, ReLU, max-pool 2
    2         conv 128, batch norm, ReLU, conv 128, batch norm, ReLU, max-pool 2
    head      flatten, dropout, linear (and log-softmax)
    ========  ==============================================================

    The paper names a VGG-5 without its layout; the widths and the positions of dropout are ours. ``forward`` returns
    log-probabilities, for ``torch.nn.NLLLoss``, as that of :class:`VGGTron` does.

    Examples
    --------
    >>> import torch
    >>> VGG5()(torch.randn(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self, n_classes: int = 10, in_channels: int = 1, image_size: int = 28, width: int = 64, dropout: float = 0.5
    ) -> None:
        super().__init__()
        check_integer("n_classes", n_classes, 2)
        self.in_channels = check_integer("in_channels", in_channels, 1)
        self.image_size = check_integer("image_size", image_size, 4)
        check_integer("width", width, 1)
        self.features = nn.Sequential(
            *_stage(in_channels, width, dropout / 2),
            *_stage(width, 2 * width, dropout / 2),
            nn.Flatten(),
            nn.Dropout(dropout),
        )
        self.n_features = 2 * width * (image_size // 4) ** 2
        self.head = self._make_head(n_classes)

    def _make_head(self, n_classes: int) -> nn.Module:
        return nn.Sequential(nn.Linear(self.n_features, n_classes), nn.LogSoftmax(dim=-1))

    def forward(self, images: Tensor) -> Tensor:
        """Log-probabilities: ``(n, in_channels, image_size, image_size) -> (n, C)``."""
        check_last_axis("images", images, self.image_size)
        wanted = (self.in_channels, self.image_size, self.image_size)
        if images.dim() != 4 or tuple(images.shape[1:]) != wanted:
            raise ValueError(f"images must have shape (n, {', '.join(map(str, wanted))}), got {tuple(images.shape)}.")
        return self.head(self.features(images))


class VGGTron(VGG5):
    """:class:`VGG5` with a :class:`~legendretron.nn.LegendreHead` for its last layer.

    Examples
    --------
    >>> import torch
    >>> VGGTron(link="canonical")(torch.randn(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        n_classes: int = 10,
        in_channels: int = 1,
        image_size: int = 28,
        width: int = 64,
        dropout: float = 0.5,
        **head: Any,
    ) -> None:
        self._head_options = head  # before the base builds the head
        super().__init__(n_classes, in_channels, image_size, width, dropout)

    def _make_head(self, n_classes: int) -> nn.Module:
        return LegendreHead(self.n_features, n_classes, **self._head_options)


def _stage(channels: int, width: int, dropout: float) -> list[nn.Module]:
    """Two convolutions and a max-pool."""
    layers: list[nn.Module] = []
    for inputs in (channels, width):
        layers += [nn.Conv2d(inputs, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    return [*layers, nn.MaxPool2d(2), nn.Dropout(dropout)]
