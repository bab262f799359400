"""``python -m flinkish.operators.hasher FILE.json``: see :mod:`flinkish.operators.golden`."""

from __future__ import annotations

import sys

from flinkish.operators.golden import main

if __name__ == "__main__":
    sys.exit(main())
