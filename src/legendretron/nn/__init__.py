"""Learned links for any network: heads, layers for logits, parameter groups, class-parallel heads."""

from typing import Any

from legendretron.nn.head import LegendreHead, LegendreLink
from legendretron.nn.link_module import init_weights
from legendretron.nn.parameter_groups import parameter_groups

__all__ = ["ClassParallel", "LegendreHead", "LegendreLink", "init_weights", "parameter_groups"]


def __getattr__(name: str) -> Any:
    if name == "ClassParallel":  # on first use: its dependencies take a second to import
        from legendretron.nn.class_parallel import ClassParallel

        return ClassParallel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
