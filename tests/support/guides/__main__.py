"""``python -m tests.support.guides [PAGE ...]``: write the console blocks from a run.

A page that shows what the run shows, but for ids, times and sizes, stays as it is.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support import jvm
from tests.support.guides.blocks import ROOT
from tests.support.guides.scenarios import RUNS, run_page


def main(pages: list[str]) -> int:
    jvm.use()
    for page in pages or RUNS:
        with tempfile.TemporaryDirectory("", "flinkish-guides-") as directory:
            outcome = run_page(page, Path(directory))
        print(f"{page}: {'written' if outcome.differences else 'as the run'}")
        print("".join(f"{each}\n" for each in outcome.differences), end="")
        (ROOT / page).write_text(outcome.text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
