"""Parameters in messages: how they are spelled, and errors that carry the name of the one that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class ParameterError(ValueError):
    """A parameter has a value that cannot be used; ``reason`` is the rest of the sentence.

    Examples
    --------
    >>> error = ParameterError("alpha", "must not be negative, got -1.")
    >>> str(error), error.parameter
    ('alpha must not be negative, got -1.', 'alpha')
    """

    def __init__(self, parameter: str, reason: str) -> None:
        super().__init__(parameter, reason)
        self.parameter, self.reason = parameter, reason

    def __str__(self) -> str:
        return f"{spell(self.parameter)} {self.reason}"


def _as_code(name: str, *value: object) -> str:
    return f"{name}={value[0]!r}" if value else name


# not a context variable: messages are also made in threads
_spell: Callable[..., str] = _as_code


def spell(name: str, *value: object, code: str | None = None) -> str:
    """Return a parameter, or a parameter with a value, as users write it: in Python, unless inside :func:`spelling`.

    ``code`` is what to write in Python, where that is no parameter.

    Examples
    --------
    >>> spell("alpha"), spell("solver", "adam")
    ('alpha', "solver='adam'")
    """
    return code if code is not None and _spell is _as_code else _spell(name, *value)


@contextmanager
def spelling(how: Callable[[str], str | None], say: Callable[[str, object], str]) -> Iterator[None]:
    """Inside the block, call parameters as ``how`` does, if not None, and write such a name with a value as ``say`` does."""
    global _spell

    def spell_otherwise(name: str, *value: object) -> str:
        other = how(name)
        if other is None:
            return _as_code(name, *value)
        return say(other, value[0]) if value else other

    before, _spell = _spell, spell_otherwise
    try:
        yield
    finally:
        _spell = before
