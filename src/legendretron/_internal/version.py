"""The version of the library, which the package and its build read from here."""

__version__ = "0.2.0"
