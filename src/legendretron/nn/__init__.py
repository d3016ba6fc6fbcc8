"""The learned link for any network: heads, adapters for logits, optimiser groups, class-parallel heads, VGG-5."""

from legendretron.nn.head import LegendreHead, LegendreLink
from legendretron.nn.parameter_groups import parameter_groups
from legendretron.nn.vgg import VGG5, VGGTron

__all__ = ["VGG5", "LegendreHead", "LegendreLink", "VGGTron", "parameter_groups"]
