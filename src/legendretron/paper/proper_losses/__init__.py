"""The figure of learned proper losses."""
