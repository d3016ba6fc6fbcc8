"""Tables that are read in batches of rows, again and again: sources, a first pass, shuffling, reading ahead."""

from legendretron.streaming.as_source import as_source
from legendretron.streaming.row_check import BadRowError
from legendretron.streaming.scan import Summary, scan
from legendretron.streaming.source import Batch, BlockSource, Source

__all__ = ["BadRowError", "Batch", "BlockSource", "Source", "Summary", "as_source", "scan"]
