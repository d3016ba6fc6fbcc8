"""Tables that are read in batches of rows, again and again: sources, a first pass, shuffling, reading ahead."""

from legendretron.streaming.as_source import as_source
from legendretron.streaming.scan import Summary, scan
from legendretron.streaming.source import BadRowError, Batch, BlockSource, Source

__all__ = ["BadRowError", "Batch", "BlockSource", "Source", "Summary", "as_source", "scan"]
