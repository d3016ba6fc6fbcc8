"""The 18 data sets of the LegendreTron paper: what they are, who publishes them, and what their files must contain.

Counts refer to the files that the paper's tables name. Checksums, where known, are those of the published files; they are
used for downloads only, since a recompressed copy has another checksum. Licenses are quoted from the sources.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True)
class RemoteFile:
    """A file as its publisher names it."""

    name: str
    address: str  #: HTTPS
    sha256: str | None = None  #: None where unknown


#: Training images and labels, test images and labels.
_IMAGES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
_LICENSES = {
    "": "not stated by the source",
    "UCI": "not stated by the source (LIBSVM); the UCI repository, which has the original data, says CC BY 4.0 for its data "
    "sets",
}
_COMPRESSIONS = ("", ".bz2", ".xz", ".gz")


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a data set.

    Examples
    --------
    >>> info = dataset_info("letter")
    >>> info.rows, info.features, info.classes
    (15000, 16, 26)
    >>> info.files
    ('letter.scale', 'letter.scale.bz2', 'letter.scale.xz', 'letter.scale.gz')
    """

    name: str
    kind: str  #: ``"libsvm"`` or ``"images"``
    rows: int  #: of the file; of the training part for images
    features: int  #: columns; pixels for images
    classes: int
    labels: tuple[int, int]  #: smallest and largest label a file may have
    remote_files: tuple[RemoteFile, ...]  #: the files as their publisher names them
    licence: str
    origin: str  #: who made the data, and what to cite
    notes: str = ""
    test_rows: int = 0  #: of the separate test part, for images
    sparse: bool = False  #: whether its matrix stays sparse

    @property
    def files(self) -> tuple[str, ...]:
        """File names to look for, in order; for images all of them are needed."""
        if self.kind == "images":
            return tuple(file.name for file in self.remote_files)
        name = self.remote_files[0].name
        spellings = [name] + [self.stem + ending for ending in _COMPRESSIONS]
        return tuple(dict.fromkeys(spellings))

    @property
    def stem(self) -> str:
        """The first file's name without the extension of a compression."""
        name = self.remote_files[0].name
        return name if self.kind == "images" else name.removesuffix(".bz2")

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where each file is published."""
        return tuple(file.address for file in self.remote_files)

    @property
    def shape(self) -> str:
        """Size as text, for error messages and tables."""
        rows = f"{self.rows:,} + {self.test_rows:,} rows" if self.test_rows else f"{self.rows:,} rows"
        return f"{rows} x {self.features:,} features, {self.classes:,} classes"

    @property
    def how_to_get(self) -> str:
        """Where to get the files by hand, in one line."""
        return f"Get {' and '.join(self.addresses)}."


def _read_published() -> Iterator[DatasetInfo]:
    """Read ``published.csv``: LIBSVM's have a file there; images have an address, and checksums of their four files."""
    for row in csv.DictReader((files(__package__) / "published.csv").read_text(encoding="utf-8").splitlines()):
        file, images, folder = row["file"], not row["file"], row["address"]
        four = zip(_IMAGES, row["checksums"].split(), strict=images)
        yield DatasetInfo(
            name=row["name"],
            kind="images" if images else "libsvm",
            rows=int(row["rows"]),
            features=int(row["features"]),
            classes=int(row["classes"]),
            labels=(int(row["first_label"]), int(row["last_label"])),
            remote_files=tuple(RemoteFile(name, folder + name, checksum) for name, checksum in four)
            if images
            else (RemoteFile(file.rpartition("/")[2], _LIBSVM + file),),
            licence=_LICENSES.get(row["licence"], row["licence"]),
            origin=row["origin"],
            notes=row["notes"],
            test_rows=10_000 if images else 0,
            sparse=row["sparse"] == "yes",
        )


#: Every data set by its name, in the order of the paper's tables.
DATASETS: dict[str, DatasetInfo] = {info.name: info for info in _read_published()}


def spelling(name: str) -> str:
    """``name`` without case, hyphens, underscores and blanks: ``Fashion_MNIST`` and ``fashion-mnist`` are one."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


_SPELLINGS = {spelling(name): name for name in DATASETS}


def dataset_info(name: str) -> DatasetInfo:
    """Return the description of the data set ``name``; case, hyphens and underscores do not matter.

    Examples
    --------
    >>> dataset_info("Fashion_MNIST").licence
    'MIT'
    """
    known = _SPELLINGS.get(spelling(name)) if isinstance(name, str) else None
    if known is None:
        raise ValueError(
            f"name must be one of {', '.join(DATASETS)}, got {name!r}; read_libsvm and read_idx read your own files."
        )
    return DATASETS[known]


class DatasetStatus(NamedTuple):
    """State of a data set in a folder, judged by file names."""

    info: DatasetInfo
    path: Path | None  #: the file, or the folder of images; None if missing
    state: str  #: ``"complete"``, ``"subset"``, ``"incomplete"`` (some files of images) or ``"missing"``
    declared_rows: int | None = None  #: number of rows that the name of a subset declares


def cache_folder() -> Path:
    """Where downloads are kept: ``$LEGENDRETRON_DATA``, or ``legendretron`` in the user's cache folder."""
    chosen = os.environ.get("LEGENDRETRON_DATA")
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # the XDG specification ignores relative paths
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "legendretron"


def find_dataset(name: str, data: str | Path | None = None) -> DatasetStatus:
    """Look for a data set without reading its files: in a folder and its sub-folders, or in :func:`cache_folder`."""
    info = dataset_info(name)
    folder = cache_folder() if data is None else Path(data).expanduser()
    if data is not None and not folder.is_dir():
        raise ValueError(f"data must be a folder that exists, got {str(data)!r}; leave it out to download the files.")
    return _find_images(info, folder) if info.kind == "images" else _find_file(info, folder)


def _entries(folder: Path) -> dict[str, Path]:
    """Files of a folder by lower-case name; empty if there is no such folder."""
    try:
        return {path.name.lower(): path for path in sorted(folder.iterdir())}
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _find_file(info: DatasetInfo, folder: Path) -> DatasetStatus:
    folders = [_entries(inner) for inner in (folder, folder / "libsvm", folder / info.name)]
    for entries in folders:
        for name in info.files:
            path = entries.get(name.lower())
            if path is not None and path.is_file():
                return DatasetStatus(info, path, "complete")
    first, dot, rest = info.stem.partition(".")
    pattern = re.compile(rf"{re.escape(first)}\.subset(\d+){re.escape(dot + rest)}(\.bz2|\.xz|\.gz)?", re.IGNORECASE)
    subsets = [
        (int(match[1]), path)
        for entries in folders
        for name, path in entries.items()
        if (match := pattern.fullmatch(name))
    ]
    if subsets:
        rows, path = max(subsets, key=lambda subset: subset[0])
        return DatasetStatus(info, path, "subset", rows)
    return DatasetStatus(info, None, "missing")


def _find_images(info: DatasetInfo, folder: Path) -> DatasetStatus:
    # file names are the same for all sets of images, so the folder's name must identify the set
    named = [path for path in (folder, *_entries(folder).values()) if spelling(path.name) == spelling(info.name)]
    best = DatasetStatus(info, None, "missing")
    for inner in (inner for path in named for inner in (path, path / "raw")):
        entries = _entries(inner)
        parts = [_part(name, entries) for name in info.files]
        if all(rows == 0 for rows in parts):
            return DatasetStatus(info, inner, "complete")
        if None not in parts:
            best = DatasetStatus(info, inner, "subset", max(rows for rows in parts if rows is not None))
        elif best.path is None and any(rows is not None for rows in parts):
            best = DatasetStatus(info, inner, "incomplete")
    return best


def _part(name: str, entries: dict[str, Path]) -> int | None:
    """0 if the file exists, the number in its name if it is a declared subset, None if it is missing."""
    if name in entries:
        return 0
    first, _, rest = name.partition("-")
    declared = [match[1] for entry in entries if (match := re.fullmatch(rf"{first}(\d+)-{re.escape(rest)}", entry))]
    return int(declared[0]) if declared else None
