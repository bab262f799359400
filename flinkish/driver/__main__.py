"""The entry point for ``spark-submit``: makes flinkish importable, then runs the bootstrap.

The interpreter may belong to a different virtual environment from the flinkish command's (another
Spark, another Python). So flinkish itself always comes from the installation that launched the job
(``FLINKISH_HOME``), and so do the few packages it needs (``FALLBACK``) where this interpreter lacks
them. No other packages are looked up in that installation, because with its whole
``site-packages`` on ``sys.path`` this interpreter would also import a foreign pyspark or NumPy.

Arguments: ``APP [ARGS...]`` or ``--module NAME [ARGS...]``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

#: Packages that the driver's part of flinkish imports besides Spark; psycopg is for PostgreSQL
#: registries.
FALLBACK = ("fsspec", "fastavro", "psycopg", "psycopg_binary", "typing_extensions")


class NamedFinder:
    """A ``sys.meta_path`` finder that looks up a few top-level packages in given directories."""

    def __init__(self, names: Sequence[str], directories: Sequence[str]) -> None:
        self.names = frozenset(names)
        self.directories = list(directories)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return a spec for one of ``names``, else None (see ``importlib.abc.MetaPathFinder``)."""
        if fullname not in self.names:
            return None
        return PathFinder.find_spec(fullname, self.directories, target)


def make_importable() -> None:
    """Install the finders and remove this file's own directory from ``sys.path``."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    home = os.environ.get("FLINKISH_HOME") or os.path.dirname(os.path.dirname(here))
    sys.meta_path.insert(0, NamedFinder(["flinkish"], [home]))
    fallback = [p for p in os.environ.get("FLINKISH_FALLBACK_PATH", "").split(os.pathsep) if p]
    if fallback:
        more = os.environ.get("FLINKISH_FALLBACK_NAMES", "")
        sys.meta_path.append(NamedFinder(more.split(",") if more else FALLBACK, fallback))


if __name__ == "__main__":
    make_importable()
    from flinkish.driver.bootstrap import main

    sys.exit(main(sys.argv[1:]))
