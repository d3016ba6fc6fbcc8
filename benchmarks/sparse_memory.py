"""Time and peak memory of training on news20: 15,935 x 62,061, sparse, 20 classes.

    OMP_NUM_THREADS=1 python benchmarks/sparse_memory.py --data DIR --out docs/results/sparse_memory.json

Dense the features alone would take 7.9 GB in double precision. A few epochs are trained, validated and predicted; peak
memory is that of the whole process, Python and libraries included.
"""

from __future__ import annotations

import time
from pathlib import Path

from harness import Benchmark, peak_mb
from legendretron import LegendreTronClassifier
from legendretron.datasets import read_libsvm


def peak_gb() -> float:
    return round(peak_mb() / 1e3, 2)


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.add_argument("--data", type=Path, required=True, help="folder with news20.scale.bz2")
    benchmark.add_argument("--epochs", type=int, default=3)
    options = benchmark.start()
    peaks = {"libraries": peak_gb()}
    X, y = read_libsvm(options.data / "news20.scale.bz2", dense=False)
    peaks["data loaded"] = peak_gb()
    began = time.perf_counter()
    clf = LegendreTronClassifier.from_paper("libsvm", max_epochs=options.epochs, random_state=0).fit(X, y)
    seconds = time.perf_counter() - began
    accuracy = clf.score(X, y)
    peaks["all"] = peak_gb()
    benchmark.write(
        shape=[*X.shape, len(clf.classes_)],
        stored_entries=int(X.nnz),
        epochs=options.epochs,
        seconds_an_epoch=round(seconds / options.epochs, 2),
        training_accuracy=round(accuracy, 4),
        peak_gb=peaks,
    )


if __name__ == "__main__":
    main()
