r"""Settings that follow from the number of rows.

They were chosen on a dozen data sets of 120 to 12,000 rows, together, and are deliberately few and smooth:

- **Steps** grow with the square root of the rows, :math:`80 \sqrt n`, up to 10,000 rows, with the fourth root beyond: 900
  steps for 120 rows, 8,000 for 10,000, 25,000 for a million. So small data are passed over some hundred times, and large
  data a few times. Two classes, whose link is a function of one number, take half of that.
- **Rows in a step**: 64, for large data a sixteenth of the rows up to 256.
- **Width** of the networks: 4 units in a layer below 300 rows, else 8; 2 for two classes.
- **Rate**: 0.03 at first, falling to 0 along half a cosine.
- **Folds**: five. Below 1,000 rows, logistic regression of up to 256 parameters has them three times, dealt out anew each
  time: its fits are cheap there, and which rows happen to be held out together matters. From 5,000 rows on, learned links are
  tried on the first of them only, and from 50,000 rows on there is no other: a single split, with a fifth of the rows held
  out.
"""

from __future__ import annotations

import math

#: Initial rate of Adam.
LEARNING_RATE = 0.03
#: Rows from which steps grow more slowly: about as many as were looked at.
LARGE = 10_000
#: Folds, of which each holds out a fifth of the rows.
FOLDS = 5
#: How often logistic regression of small data is cross-validated: which rows are held out together matters there.
REPEATS = 3
#: Rows below which, and parameters up to which, that is cheap.
REPEAT_BELOW, REPEAT_PARAMETERS = 1000, 256
#: Rows from which learned links are tried on one fold only: a thousand held-out rows tell them apart.
ONE_FOLD_FROM = 5000
#: Rows from which there is one split only: a fifth of them is enough for strengths, too.
ONE_SPLIT_FROM = 50_000


def steps_for(n_rows: int, n_classes: int) -> int:
    """Steps of Adam."""
    small = min(n_rows, LARGE)
    scale = 40.0 if n_classes == 2 else 80.0
    return max(200, int(scale * math.sqrt(small) * (n_rows / small) ** 0.25))


def link_folds_for(n_rows: int) -> int:
    """On how many of the folds learned links are tried."""
    return FOLDS if n_rows < ONE_FOLD_FROM else 1


def batch_size_for(n_rows: int) -> int:
    """Rows in a step."""
    return min(n_rows, max(64, min(256, n_rows // 16)))


def hidden_for(n_rows: int, n_classes: int) -> int:
    """Units per layer of a composite link's networks; of two classes, a link is a function of one number."""
    if n_classes == 2:
        return 2
    return 4 if n_rows < 300 else 8
