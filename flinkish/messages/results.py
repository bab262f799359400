"""Results of use cases that JSON documents contain as they are.

They are here, and not where they are made, so that the types of documents import only records.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkish.annotations import public_evolving


@public_evolving
@dataclass(frozen=True)
class SavepointCopy:
    """A savepoint that was copied, or would be.

    Parameters
    ----------
    path : str
        The location of the copy.
    source : str
        The location of the savepoint.
    files, bytes : int
        Number and size of all data files of the copy.
    sent_files, sent_bytes : int
        Those that were sent from the source.
    present_files : int
        Files that were in place already.
    reused_files : int
        Files that were taken from an earlier savepoint of the job at the target.
    duration : float
        Seconds.
    """

    path: str
    source: str
    files: int
    bytes: int
    sent_files: int
    sent_bytes: int
    present_files: int
    reused_files: int
    duration: float


@dataclass(frozen=True)
class PartitionOffset:
    """The saved offset of one partition.

    ``entry``: the source's line in the offset log. ``source``: its uid, or what it reads; None if
    unknown. ``offset``: the row to read next; None for a partition that the savepoint does not
    know. ``begin``, ``end``: the first offset that the broker has, and the next one that it will
    assign; None if the broker was not asked, or has no such partition. ``lag``: the rows that wait,
    at most. ``note``: what is wrong or new with the partition; empty otherwise.
    """

    entry: int
    source: str | None
    topic: str
    partition: int
    offset: int | None
    begin: int | None = None
    end: int | None = None
    lag: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Bundle:
    """A file that other launchers start (:func:`flinkish.client.bundling.bundle_program`).

    Parameters
    ----------
    path : str
        Where it is.
    bytes : int
        Its size.
    program : str or None
        The program in it; None if the launcher names it.
    packages : tuple of str
        The distributions in it, besides flinkish.
    platform : str
        Where their compiled parts run.
    """

    path: str
    bytes: int
    program: str | None
    packages: tuple[str, ...]
    platform: str
