"""How wide is the Gaussian that LIBSVM's images of usps were smoothed with?

    python benchmarks/usps_pixels.py --original DIR --out docs/results/usps_pixels.json

The original images are a LIBSVM file of 7,291, pixels from -1 to 1. LIBSVM's own, brought to the range from 0 to 1 and cut
to 8 bits as torchvision does, are widely quoted to have a mean of 0.2469 and a standard deviation of 0.2989. Shows both for
the original images after smoothing by Gaussians of several widths.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from harness import Benchmark, show
from legendretron.datasets import read_libsvm


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.add_argument("--original", type=Path, required=True, help="the LIBSVM file")
    X, _ = read_libsvm(benchmark.start().original, 256)
    ink = ((X + 1) / 2).reshape(-1, 16, 16)
    rows = []
    for width in (0.0, 0.5, 0.73, 0.74, 0.75, 0.76, 0.77, 1.0):
        smooth = gaussian_filter(ink, (0, width, width), mode="constant", truncate=8) if width else ink
        bits = np.floor(255 * np.clip(smooth, 0, 1)) / 255
        mean, deviation = round(float(bits.mean()), 4), round(float(bits.std()), 4)
        rows.append(show({"width": width, "mean": mean, "standard_deviation": deviation}))
    benchmark.write(quoted={"mean": 0.2469, "standard_deviation": 0.2989}, rows=rows)


if __name__ == "__main__":
    main()
