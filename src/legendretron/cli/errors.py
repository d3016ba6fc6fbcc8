"""From exceptions to exit codes: the one place where the command line handles errors.

======  ==========================================================
code    meaning
======  ==========================================================
0       success; also if the reader of a pipe has closed it
1       error: bad data, a missing file, a failure
2       usage error: an unknown option, a value out of range
130     interrupted by Ctrl-C
======  ==========================================================

An error is one line on standard error, ``error: ...``. With ``--json`` it is on standard output as well, ``{"error": ...}``.
With ``--debug``, or LEGENDRETRON_DEBUG=1 in the environment, the traceback comes first.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

import typer

from legendretron._internal.printable import one_line, without_controls

#: What typer raises for usage errors. It has no public name, and its module has moved between versions.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

#: Torch's message, in a RuntimeError, on CPU and CUDA.
_NO_MEMORY = re.compile("(not enough|out of|allocate) memory")
_EXPECTED = (ValueError, OSError, ImportError, MemoryError)


def run(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run the app with these arguments and return the exit code; nothing is raised."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed before Python began
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (until the end)
    try:
        code = _run(app, arguments)
    except BrokenPipeError:
        code = 0  # the reader has closed the pipe
    try:
        sys.stdout.flush()
    except OSError:
        # nothing more can be written there, and Python must not try to at exit
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _run(app: typer.Typer, arguments: Sequence[str]) -> int:
    try:
        command = typer.main.get_command(app)
        with command.make_context("legendretron", list(arguments)) as context:
            command.invoke(context)
        sys.stdout.flush()  # here, not at exit, so that a full disk or a closed pipe is noticed
    except BrokenPipeError:
        raise
    except BaseException as error:
        return _print_error(error, arguments)
    return 0


def _print_error(error: BaseException, arguments: Sequence[str]) -> int:
    """Print the error, and return the exit code."""
    if isinstance(error, typer.Exit | SystemExit):
        code = error.exit_code if isinstance(error, typer.Exit) else error.code
        if isinstance(error.__context__, BrokenPipeError):  # how rich reports it
            raise error.__context__
        return code if isinstance(code, int) else 1
    if "--debug" in arguments or os.environ.get("LEGENDRETRON_DEBUG", "0") not in ("", "0"):
        sys.stderr.write(without_controls("".join(traceback.format_exception(error))))
    message, code = _message_and_code(error)
    message = one_line(message)
    print(f"error: {message}", file=sys.stderr, flush=True)
    if "--json" in arguments:
        with suppress(OSError):  # the output may be what has failed
            print(json.dumps({"error": message}), flush=True)
    return code


def _message_and_code(error: BaseException) -> tuple[str, int]:
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return str(error) or "interrupted", 130
    if isinstance(error, UsageError):
        context = getattr(error, "ctx", None)
        place = context.command_path if context else "legendretron"
        # a parameter of the library that the command line calls otherwise, such as --random-state
        wanted = str(getattr(error, "option_name", "")).lstrip("-").replace("-", "_")
        named = [option.opts[0] for option in context.command.params if option.name == wanted] if context else []
        if named:
            error.possibilities = named  # type: ignore[attr-defined]
        message = error.format_message().rstrip(".")  # type: ignore[attr-defined]
        return f"{message}; see {place} --help", 2
    return describe(error), 1


_OS_ERRORS = {
    errno.ENOENT: "there is no file {}",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "no permission for {}"),
    errno.EROFS: "{} is on a read-only disk",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "no space left on the disk for {}; free some, or write elsewhere"),
    errno.EISDIR: "{} is a folder, but a file is needed",
    errno.ENAMETOOLONG: "the name {} is too long; choose a shorter one",
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "{} cannot be created: a part of its path is a file, not a folder"),
}


def describe(error: BaseException) -> str:
    """Return the message of an exception for users of the command line."""
    if isinstance(error, OSError) and error.errno is not None:
        place = "the output" if error.filename is None else repr(str(error.filename))
        return _OS_ERRORS.get(error.errno, f"{{}}: {error.strerror}").format(place)
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error))):
        return f"not enough memory{f' ({error})' if str(error) else ''}; use fewer rows or columns, or a smaller model"
    if isinstance(error, _EXPECTED):
        return str(error) or type(error).__name__
    return f"unexpected {type(error).__name__}: {error} (--debug shows where)"
