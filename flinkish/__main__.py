"""``python -m flinkish``: the same as the ``flinkish`` command."""

from __future__ import annotations

import sys

from flinkish.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
