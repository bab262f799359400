"""Which locations are the same savepoint, and which of a savepoint's times are credible.

Paths do not identify a directory: it may be a link, be mounted twice, or be reached through a link
above it. Times do not give an order: every host has its own clock, which may be wrong.
"""

from __future__ import annotations

import os

from flinkish import storage
from flinkish.errors import FlinkishError, StorageError
from flinkish.savepoint.format.metadata import FILE_NAME
from flinkish.savepoint.format.reader import savepoint_directory

#: Seconds by which a time may be ahead of this host's clock before it counts as in the future.
SKEW = 300.0


def place_keys(location: str) -> frozenset[str]:
    """Return the names of the place at ``location``; two locations with a common name are the same.

    On the local file system these are the path without links and the directory's inode, which
    identifies a directory that is mounted twice. Elsewhere it is the location in one spelling. Any
    spelling of a location is accepted, and text that is not a location has one name.
    """
    try:
        place = storage.locate(location)
        if not storage.is_local(place):
            return frozenset({storage.one_name(place)})
        keys = {os.path.realpath(place)}
    except (StorageError, ValueError):
        return frozenset({location})
    try:
        status = os.stat(place)
    except OSError:
        return frozenset(keys)
    if status.st_ino:  # 0: the file system has no inodes
        keys.add(f"{status.st_dev}:{status.st_ino}")
    return frozenset(keys)


def savepoint_meant(path: str) -> str:
    """Return the directory of the savepoint that a link or a ``_metadata`` file names.

    That directory is the path which the savepoint has once it is opened. If ``path`` is neither a
    link nor a ``_metadata`` file, or cannot be read, it is only located; remote storage is asked
    only about a ``_metadata`` file. Raises the errors of ``locate``.
    """
    location = storage.locate(path)
    if not is_link(location) and storage.base_name(location) != FILE_NAME:
        return location
    try:
        directory = savepoint_directory(location)
        if not storage.exists(storage.join(directory, FILE_NAME)):
            return location
    except FlinkishError:
        return location  # opening it raises the error
    return os.path.realpath(directory) if is_link(directory) else directory


def is_link(location: str) -> bool:
    """Return whether the location itself is a link; links above it do not matter."""
    return storage.is_local(location) and os.path.islink(location)


def credible_time(created: float, written: float | None, now: float) -> float | None:
    """Return when a savepoint was taken, as far as its times can be believed. Pure.

    ``created`` is from its metadata, by the clock of the host that took it; a copy keeps this time.
    If it is in the future, that clock is wrong, and ``written`` is used: the time of ``_metadata``
    by the clock of the storage. Returns None if ``written`` is then unknown or in the future.
    """
    return next(
        (each for each in (created, written) if each is not None and not is_future(each, now)), None
    )


def is_future(seconds: float, now: float) -> bool:
    """Return whether a time is in the future by more than :data:`SKEW`. Pure."""
    return not seconds <= now + SKEW  # true also for NaN


def written_at(directory: str, name: str) -> float | None:
    """Return when a file of a directory was written, by its storage's clock; None if unknown."""
    try:
        return storage.list_directory(directory).modified(name) or None
    except (FileNotFoundError, KeyError, StorageError):
        return None
