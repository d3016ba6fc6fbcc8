"""Small networks behind the same link: their form, their inputs, and their training on the folds of a table."""

__all__: list[str] = []
