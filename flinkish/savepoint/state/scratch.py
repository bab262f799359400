"""A temporary directory next to savepoints, in which state is rewritten before it is saved.

It is named like a savepoint and has no ``_metadata``. Other processes see an unfinished savepoint,
and the remains of a killed process are removed like one (``savepoint prune --garbage``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flinkish import storage
from flinkish.savepoint.directory.catalog import new_name
from flinkish.savepoint.directory.leases import Kind, Lease


@contextmanager
def scratch_directory(target: str, job_id: str, owner: str | None) -> Iterator[str]:
    """Yield the location of a new directory below ``target``; remove it when the block ends.

    ``target`` is a directory of savepoints, created if missing; ``job_id`` is the job whose state
    is rewritten. ``owner`` is the user (``user@host``) for the lease that is held inside the block.
    Raises StorageError.
    """
    parent = storage.locate(target)
    storage.make_directory(parent)
    path = storage.join(parent, new_name(job_id))
    with Lease.take(parent, Kind.REWRITE, owner=owner or "flinkish", job_id=job_id, path=path):
        try:
            storage.make_directory(path)
            yield path
        finally:
            storage.remove_tree(*storage.split(path))
