"""Helpers of the library, which may change at any time: files, checks of arguments, optional packages, process groups."""
