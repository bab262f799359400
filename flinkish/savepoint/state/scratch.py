"""A directory beside savepoints in which state is rewritten, until a savepoint is made of it.

It is named like a savepoint and has no ``_metadata``: to everybody else it is an unfinished one,
and what a killed process leaves of it goes by the rules for those (``savepoint prune --garbage``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flinkish import storage
from flinkish.savepoint.directory.catalog import new_name
from flinkish.savepoint.directory.leases import Kind, Lease


@contextmanager
def scratch_directory(target: str, job_id: str, owner: str | None) -> Iterator[str]:
    """Yields the location of a new directory below ``target``; it is gone when the block ends.

    Parameters
    ----------
    target: the directory of savepoints; created where missing.
    job_id: of the job whose state is rewritten.
    owner: who does it (``user@host``), for the lease that says so while the block runs.

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
