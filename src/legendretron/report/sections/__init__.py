"""Sections of the report: a function each, from what was measured to HTML."""
