"""A made-up table in files, for processes to share."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write_table(folder, rows=600, n_classes=5):
    """Three files of several row groups, of different length."""
    random = np.random.default_rng(0)
    weight = random.normal(size=(4, n_classes))
    folder.mkdir()
    for part, n in enumerate((rows // 2, rows // 3, rows // 6)):
        X = random.normal(size=(n, 4))
        y = (2.0 * X @ weight + random.gumbel(size=(n, n_classes))).argmax(1)
        columns = {**{f"x{i}": X[:, i] for i in range(4)}, "label": y, "w": random.uniform(0.5, 2.0, n)}
        pq.write_table(pa.table(columns), folder / f"part-{part}.parquet", row_group_size=70)
    return folder
