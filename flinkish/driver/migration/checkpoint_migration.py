"""A restored checkpoint whose state the engine rewrites first, in the job's own application."""

from __future__ import annotations

import os
from importlib.machinery import PathFinder
from typing import Any

from flinkish import storage
from flinkish.driver.log import log
from flinkish.driver.migration.file_transfer import ship_package
from flinkish.restore.materialize.new_checkpoint import check_free, make_checkpoint
from flinkish.restore.plan.state_migration import StateRewrite
from flinkish.restore.recipe import Recipe

#: What the engine imports beside the standard library.
NEEDED = ("fastavro", "numpy", "pyarrow", "rocksdict", "cramjam", "zstandard", "xxhash", "crc32c")


def engine_is_here() -> bool:
    """Whether this interpreter has what rewriting state needs (the extra ``engine``).

    What only the driver finds, in the installation of the command (see ``driver/__main__``), does
    not count: the executors' workers do the work.
    """
    return all(PathFinder.find_spec(name) is not None for name in NEEDED)


def make_rewritten(session: Any, recipe: Recipe, rewrite: StateRewrite, target: str) -> None:
    """Create the Spark checkpoint ``target`` as ``recipe`` has it, with its state rewritten.

    The checkpoint of the recipe is made beside it, and removed. What a restore to the same place
    has left that was killed goes first. Raises what
    :func:`~flinkish.restore.materialize.new_checkpoint.make_checkpoint` and
    :func:`~flinkish.driver.migration.query_migration.rewrite_restored` raise; nothing is left then.
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
        rows = rewrite_restored(session.sparkContext, staging, final, rewrite)
    except BaseException:
        storage.remove_tree(*storage.split(final))
        raise
    finally:
        storage.remove_tree(*storage.split(staging))
    log(f"state rewritten: {rows:,} rows")


def _clear_leftovers(final: str, staging: str) -> None:
    """Remove what a killed restore has left of both.

    Spark has never had a ``final`` beside which there is still a ``staging``: the restore that
    made it has not ended. On a local disk the staging is itself made under a temporary name.
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
