"""``python -m legendretron`` is the command ``legendretron``."""

import sys

from legendretron.cli import main

sys.exit(main())
