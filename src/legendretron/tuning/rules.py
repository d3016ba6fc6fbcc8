r"""Settings that follow from the number of rows, chosen together on a dozen data sets of 120 to 12,000 rows.

- **Steps** grow with the square root of the rows, :math:`80 \sqrt n`, up to 10,000 rows, with the fourth root beyond: 900
  steps for 120 rows, 8,000 for 10,000, 25,000 for a million. So small data are passed over some hundred times, and large
  data a few times. Two classes, whose link is a function of one number, take half of that.
- **Folds**: five. Below 1,000 rows, logistic regression of no more parameters than rows has them three times, dealt out
  anew. From 5,000 rows on, learned links are tried on the first only, and from 50,000 rows on there is no other.
"""

from __future__ import annotations

import math

#: Folds, as usual: models of four fifths of the rows are nearly as good as those of all.
FOLDS = 5
#: How often small data are cross-validated: which rows are held out together matters there.
REPEATS = 3
#: Held-out rows that tell candidates apart.
TOLD_APART = 1000
#: Rows that are enough for any estimate: the standard error of a share is at most half a per cent.
ENOUGH = 10_000
#: Rows from which learned links are tried on one fold only, and from which there is no other.
ONE_FOLD_FROM, ONE_SPLIT_FROM = FOLDS * TOLD_APART, FOLDS * ENOUGH


def steps_for(n_rows: int, n_classes: int) -> int:
    """Steps of Adam."""
    small = min(n_rows, ENOUGH)
    return int((40.0 if n_classes == 2 else 80.0) * math.sqrt(small) * (n_rows / small) ** 0.25)


def link_folds_for(n_rows: int) -> int:
    """On how many of the folds learned links are tried."""
    return FOLDS if n_rows < ONE_FOLD_FROM else 1
