"""The learned link for any network: heads, adapters for logits, optimiser groups, class-parallel heads, VGG-5."""

from typing import Any

from legendretron.nn.head import LegendreHead, LegendreLink
from legendretron.nn.parameter_groups import parameter_groups
from legendretron.nn.vgg import VGG5, VGGTron

__all__ = ["VGG5", "ClassParallel", "LegendreHead", "LegendreLink", "VGGTron", "parameter_groups"]


def __getattr__(name: str) -> Any:
    if name == "ClassParallel":  # only when asked for: what it stands on takes a second to import
        from legendretron.nn.class_parallel import ClassParallel

        return ClassParallel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
