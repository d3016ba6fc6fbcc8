"""Time and peak memory of training on news20: 15,935 x 62,061, sparse, 20 classes.

    OMP_NUM_THREADS=1 python benchmarks/sparse_memory.py --data DIR --out docs/results/sparse_memory.json

Dense the features alone would take 7.9 GB in double precision. A few epochs are trained, validated and predicted; peak
memory is that of the whole process, Python and libraries included.
"""

from __future__ import annotations

import argparse
import bz2
import io
import json
import resource
import time
from pathlib import Path

from sklearn.datasets import load_svmlight_file

from legendretron import LegendreTronClassifier
from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with news20.scale.bz2")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    libraries = peak_gb()
    X, y = load_svmlight_file(io.BytesIO(bz2.decompress((options.data / "news20.scale.bz2").read_bytes())))
    loaded = peak_gb()
    began = time.perf_counter()
    clf = LegendreTronClassifier.from_paper("libsvm", max_epochs=options.epochs, random_state=0).fit(X, y)
    seconds = time.perf_counter() - began
    accuracy = clf.score(X, y)
    record = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/sparse_memory.py --data DIR",
        "shape": [*X.shape, len(clf.classes_)],
        "stored_entries": int(X.nnz),
        "epochs": options.epochs,
        "seconds_an_epoch": round(seconds / options.epochs, 2),
        "training_accuracy": round(accuracy, 4),
        "peak_gb": {"libraries": round(libraries, 2), "data loaded": round(loaded, 2), "all": round(peak_gb(), 2)},
        **provenance(),
    }
    print(json.dumps(record, indent=1))
    if options.out:
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
