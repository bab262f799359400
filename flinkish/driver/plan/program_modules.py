"""Which modules are the program's own: those whose classes a savepoint may name."""

from __future__ import annotations

import os
import pkgutil
import site
import sys
import sysconfig

from flinkish.state.snapshots import DEFAULT_MODULES


def snapshot_modules(configured: str | None) -> tuple[str, ...]:
    """Return the modules whose classes are imported if a savepoint names them.

    ``configured`` is ``engine.snapshot-modules``, separated by commas. None means the program
    itself, and what is importable from its directory and from what was sent with it, as opposed to
    what is installed.
    """
    if configured is not None:
        names = [name.strip() for name in configured.split(",")]
        return (*DEFAULT_MODULES, *(name for name in names if name))
    entries = [entry for entry in sys.path if not _is_installed(entry)]
    found = {module.name for module in pkgutil.iter_modules(entries)}
    return (*DEFAULT_MODULES, "__main__", *sorted(found - set(DEFAULT_MODULES)))


def _is_installed(entry: str) -> bool:
    """Return whether an entry of the import path has installed software: Python, packages."""
    import pyspark

    path = os.path.abspath(entry or os.getcwd())
    homes = {
        *sysconfig.get_paths().values(),
        *site.getsitepackages(),
        site.getusersitepackages(),
        os.path.dirname(os.path.dirname(pyspark.__file__)),
    }
    home = os.environ.get("SPARK_HOME")
    return any(path == each or path.startswith(f"{each}{os.sep}") for each in homes) or bool(
        home and path.startswith(os.path.abspath(home) + os.sep)
    )
