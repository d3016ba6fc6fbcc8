"""The version of the library, which files and records name."""

__version__ = "0.1.0.dev0"
