"""How wide is the Gaussian that LIBSVM's images of usps were smoothed with?

    python benchmarks/usps_pixels.py ORIGINAL --out docs/results/usps_pixels.json

``ORIGINAL`` is a LIBSVM file of the 7,291 original images, pixels from -1 to 1. LIBSVM's own, brought to the range from 0
to 1 and cut to 8 bits as torchvision does, are widely quoted to have a mean of 0.2469 and a standard deviation of 0.2989.
Prints both for the original images after smoothing by Gaussians of several widths.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.datasets import read_libsvm

WIDTHS = (0.0, 0.5, 0.73, 0.74, 0.75, 0.76, 0.77, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("original", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    X, _ = read_libsvm(options.original, 256)
    ink = ((X + 1) / 2).reshape(-1, 16, 16)
    rows = []
    for width in WIDTHS:
        smooth = gaussian_filter(ink, (0, width, width), mode="constant", truncate=8) if width else ink
        bits = np.floor(255 * np.clip(smooth, 0, 1)) / 255
        rows.append(
            {"width": width, "mean": round(float(bits.mean()), 4), "standard_deviation": round(float(bits.std()), 4)}
        )
        print(rows[-1])
    if options.out:
        record = {
            "command": "python benchmarks/usps_pixels.py ORIGINAL",
            "quoted": {"mean": 0.2469, "standard_deviation": 0.2989},
            "rows": rows,
            **provenance("cpu"),
        }
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
