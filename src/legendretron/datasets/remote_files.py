"""Files to download: their names, their addresses, and their checksums where known.

The checksums of the MNIST family are the ones that several independent projects record for the files at these addresses.
LIBSVM publishes none for its files, so their downloads are checked by content.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RemoteFile:
    """A file as its publisher names it.

    Examples
    --------
    >>> RemoteFile("iris.scale", ("https://example.org/iris.scale",)).sha256 is None
    True
    """

    name: str
    addresses: tuple[str, ...]  #: HTTPS, in the order they are tried
    sha256: str | None = None  #: None where unknown


_PARTS = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def _four(folders: tuple[str, ...], checksums: tuple[str, str, str, str]) -> tuple[RemoteFile, ...]:
    return tuple(
        RemoteFile(name, tuple(folder + name for folder in folders), checksum)
        for name, checksum in zip(_PARTS, checksums, strict=True)
    )


#: The four files of each set of images: training images and labels, test images and labels.
IMAGE_FILES: dict[str, tuple[RemoteFile, ...]] = {
    "mnist": _four(
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "fashion-mnist": _four(
        ("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",),
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
    "kmnist": _four(
        ("https://codh.rois.ac.jp/kmnist/dataset/kmnist/",),
        (
            "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
            "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
            "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
            "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
        ),
    ),
}
