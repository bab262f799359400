"""Creation of a restored checkpoint whose state the engine rewrites, in the job's own driver."""

from __future__ import annotations

import os
from importlib.machinery import PathFinder
from typing import Any

from flinkish import storage
from flinkish.driver.log import log
from flinkish.restore.materialize.new_checkpoint import check_free, make_checkpoint, recorded_files
from flinkish.restore.plan.query_restore import StateRewrite
from flinkish.restore.recipe import Recipe
from flinkish.state.shipping import ship_package

#: Packages that the engine imports besides the standard library.
NEEDED = ("fastavro", "numpy", "pyarrow", "rocksdict", "cramjam", "zstandard", "xxhash", "crc32c")


def engine_is_here() -> bool:
    """Return whether this interpreter has the packages that rewriting state needs.

    They come with the extra ``engine``. Packages that only the driver finds, in the installation of
    the command (see ``driver/__main__``), do not count: the workers of the executors do the work.
    """
    return all(PathFinder.find_spec(name) is not None for name in NEEDED)


def make_rewritten(
    session: Any,
    recipe: Recipe,
    rewrite: StateRewrite,
    target: str,
    *,
    location: str | None = None,
) -> None:
    """Create the Spark checkpoint ``target`` as ``recipe`` describes it, with its state rewritten.

    For ``location`` see :func:`~flinkish.restore.materialize.new_checkpoint.make_checkpoint`.

    The checkpoint of the recipe is made next to ``target`` and removed at the end. Leftovers of a
    killed restore to the same place are removed first. After an error nothing is left over. Raises
    the errors of :func:`~flinkish.restore.materialize.new_checkpoint.make_checkpoint` and
    :func:`~flinkish.driver.migration.query_migration.rewrite_restored`.
    """
    from flinkish.driver.migration.query_migration import rewrite_restored

    final = storage.locate(target)
    staging = storage.join(storage.parent(final), f".{storage.base_name(final)}-before-rewriting")
    _clear_leftovers(final, staging)
    check_free(final)
    log("rewriting the state ...")
    try:
        make_checkpoint(recipe, staging)
        ship_package(session.sparkContext)
        recorded = recorded_files(recipe, staging)
        rows = rewrite_restored(
            session.sparkContext, staging, final, rewrite, recorded, location=location
        )
    except BaseException:
        storage.remove_tree(*storage.split(final))
        raise
    finally:
        storage.remove_tree(*storage.split(staging))
    log(f"state rewritten: {rows:,} rows")


def _clear_leftovers(final: str, staging: str) -> None:
    """Remove the leftovers of a killed restore from both places.

    If ``staging`` exists, the restore that made it was killed before its end, so Spark has never
    used ``final``. On a local disk, ``staging`` itself is made under a temporary name first.
    """
    if storage.is_directory(staging):
        storage.remove_tree(*storage.split(final))
        storage.remove_tree(*storage.split(staging))
    directory = storage.parent(final)
    if storage.is_local(directory) and storage.is_directory(directory):
        name = storage.base_name(staging)
        for left in os.listdir(directory):
            if left.startswith(f".{name}.") and left.endswith(".tmp"):
                storage.remove_tree(directory, left)
