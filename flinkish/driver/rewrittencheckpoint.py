"""A restored checkpoint whose state the engine rewrites first, in the job's own application."""

from __future__ import annotations

import importlib.util
import secrets
from typing import Any

from flinkish import storage
from flinkish.driver.carrier import ship_package
from flinkish.driver.log import say
from flinkish.restore.checkpoint import make_checkpoint
from flinkish.restore.migration import StateRewrite
from flinkish.restore.recipe import Recipe

#: What the engine imports beside the standard library.
_NEEDED = ("numpy", "pyarrow", "rocksdict", "cramjam", "zstandard", "xxhash", "crc32c")


def engine_is_here() -> bool:
    """Whether this interpreter has what rewriting state needs (the extra ``engine``)."""
    return all(importlib.util.find_spec(name) is not None for name in _NEEDED)


def make_rewritten(session: Any, recipe: Recipe, rewrite: StateRewrite, target: str) -> None:
    """Create the Spark checkpoint ``target`` as ``recipe`` has it, with its state rewritten.

    The checkpoint of the recipe is made beside it, and removed. Raises what
    :func:`~flinkish.restore.checkpoint.make_checkpoint` and
    :func:`~flinkish.driver.rewriting.rewrite_restored` raise; nothing is left then.
    """
    from flinkish.driver.rewriting import rewrite_restored

    final = storage.locate(target)
    name = f".{storage.base_name(final)}-{secrets.token_hex(6)}"
    staging = storage.join(storage.parent(final), name)
    say("rewriting the state ...")
    try:
        make_checkpoint(recipe, staging)
        ship_package(session.sparkContext)
        rows = rewrite_restored(session.sparkContext, staging, final, rewrite)
    except BaseException:
        storage.remove_tree(final)
        raise
    finally:
        storage.remove_tree(staging)
    say(f"state rewritten: {rows:,} rows")
