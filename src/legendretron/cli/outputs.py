"""Files that commands write: checked before the work, and written atomically."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from legendretron._internal.extras import arrow, import_extra, parquet
from legendretron._internal.files import atomic_file, write_atomically
from legendretron._internal.printable import without_controls
from legendretron.cli.options import wrong
from legendretron.cli.terminal import Terminal

TABLES, PICTURES = (".csv", ".tsv", ".parquet"), (".png", ".svg", ".pdf")
#: How the files that options name may end.
_ENDS = {"--plot": PICTURES, "--report": (".html", ".htm"), "--tuning": TABLES + PICTURES}


def file_or_none(path: Path | None) -> Path | None:
    """Return the file of an option for which ``-`` is standard output, as if it were not given."""
    return None if path == Path("-") else path


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, Path], *, out_ends: tuple[str, ...] = ()
) -> None:
    """Raise an error, before anything is read, for outputs that replace an input or each other, or cannot be written.

    ``out_ends`` are the extensions of formats for ``--out``, if not any will do; those of other options are known.
    """
    taken = dict(inputs)
    for option, path in outputs.items():
        if path is None:
            continue
        check_is_named(option, path)
        ends, own = out_ends if option == "--out" else _ENDS.get(option, ()), path.suffix.lower()
        if ends and own not in ends:
            raise wrong(option, f"{str(path)!r} must end in {' or '.join(ends)}.")
        if ends and own in PICTURES:
            import_extra("matplotlib", "drawing", "plots")
        if ends and own == ".parquet":
            import_extra("pyarrow", "writing Parquet", "cli")
        check_no_input({option: path}, taken)
        taken[option] = path
        # not created, as folders of results are: the name of a file is more often misspelled
        folder = Path(os.path.realpath(path)).parent
        there = next(known for known in (folder, *folder.parents) if known.exists())
        if there != folder and there.is_dir():
            raise ValueError(f"there is no folder {str(folder)!r} for {path.name!r}; create it, or write elsewhere.")
        check_writable(path)


def check_is_named(option: str, path: Path) -> None:
    """Raise a usage error for ``-``, standard output, where a file or a folder is written."""
    if path == Path("-"):
        raise wrong(option, "'-' is standard output, but this needs a name.")


def check_no_input(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path]) -> None:
    """Raise a usage error for outputs that would replace an input; see :func:`check_outputs`."""
    for option, path in outputs.items():
        for name, other in inputs.items():
            if path is not None and _same_file(path, other):
                raise wrong(
                    option, f"{str(path)!r} is the file of {name}, which would be replaced; choose another name."
                )


def _same_file(one: Path, other: Path) -> bool:
    """Whether two names refer to one file: through links, or on a case-insensitive file system."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist yet
        return os.path.realpath(one) == os.path.realpath(other)


def check_writable(path: Path) -> None:
    """Raise an error, before any work, for a file that cannot be written.

    This opens a temporary file in the same folder, since permissions do not tell: they allow root to write to a read-only
    disk too. Nothing is left behind, and the file itself is not touched.
    """
    if path.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():  # a device or a pipe, which writing would replace by a file
        raise ValueError(f"{str(path)!r} exists and is not a regular file; write elsewhere.")
    new = [folder for folder in Path(os.path.realpath(path)).parents if not os.path.exists(folder)]
    try:
        with naming(path), suppress(_TriedError), atomic_file(path):
            raise _TriedError  # leaves the file unchanged, as any error does
    except FileNotFoundError as error:  # the kernel's own folders, such as /proc
        raise ValueError(f"nothing can be written to {str(path)!r}; write elsewhere.") from error
    finally:
        for folder in new:
            with suppress(OSError):
                folder.rmdir()


class _TriedError(Exception):
    """Aborts the trial write."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Inside the block, make an ``OSError`` name this file instead of the temporary one that is written first."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_output(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with naming(path):
        write_atomically(path, content)


def save_model(terminal: Terminal, model: Any, path: Path) -> None:
    """Write a model, and say in which format if the name of the file tells of another one."""
    with naming(path):
        model.save(path)
    if path.suffix.lower() not in ("", ".safetensors"):
        terminal.warning(
            f"{str(path)!r} is written in the format of models, safetensors, whatever its name says; a better name is "
            f"{path.with_suffix('.safetensors').name!r}"
        )


@contextmanager
def frames_to(path: Path | None) -> Iterator[Callable[[Any], None]]:
    """Yield a function that appends data frames to a CSV, TSV or Parquet file, which is there, whole, after the block.

    Without a file, they are printed as CSV.
    """
    suffix = ".csv" if path is None else path.suffix.lower()
    with ExitStack() as stack:
        if path is not None:
            stack.enter_context(naming(path))
            file = stack.enter_context(atomic_file(path))
        writer: Any = None

        def append(frame: Any) -> None:
            nonlocal writer
            if suffix != ".parquet":
                mark = "\t" if suffix == ".tsv" else ","
                text = frame.to_csv(index=False, lineterminator="\n", sep=mark, header=writer is None)
                writer = _print_data if path is None else lambda text: file.write(text.encode())
                writer(text)
                return
            table = arrow.Table.from_pandas(frame, preserve_index=False)
            if writer is None:
                # a column without values in the first rows may have text in later ones
                fields = [f.with_type(arrow.string()) if arrow.types.is_null(f.type) else f for f in table.schema]
                writer = stack.enter_context(parquet.ParquetWriter(file, arrow.schema(fields)))
            writer.write_table(table.cast(writer.schema))

        yield append


def _print_data(text: str) -> None:
    """Print what programs may read, as it is; on a terminal without control characters."""
    sys.stdout.write(without_controls(text) if sys.stdout.isatty() else text)


def write_picture(path: Path, draw: Callable[[], Any]) -> None:
    """Write the figure of the display that a function draws, in the format of the file extension."""
    import_extra("matplotlib", "drawing", "plots").use("Agg")  # a file, never a window
    from legendretron.plots.axes import picture_bytes

    write_output(path, picture_bytes(draw().figure_, path.suffix.lstrip(".").lower(), dpi=130))


def json_columns(frame: Any, kept: Any) -> dict[str, Any]:
    """Return the columns of a result; of those that were kept, none where a value is missing, dates and the like as text."""

    def plain(column: Any) -> list[Any]:
        return [
            None if missing else value if isinstance(value, str | bool | int | float) else str(value)
            for value, missing in zip(column.tolist(), column.isna(), strict=True)
        ]

    as_text = () if kept is None else kept
    return {name: plain(frame[name]) if name in as_text else frame[name].to_numpy() for name in frame}
