"""A checkpoint's file is missing or damaged: what that means, and the error for it."""

from __future__ import annotations

from collections.abc import Callable

from flinkish.checkpoint.format.errors import CheckpointFormatError, UnsupportedCheckpointFormat
from flinkish.errors import Corrupt, FlinkishError, UnsupportedFormat


class FilesVanished(FlinkishError):
    """Spark trimmed a file between listing and reading; a newer batch is there to be taken."""

    id = "files-vanished"
    default_hint = (
        "try again; if it happens always, raise spark.sql.streaming.minBatchesToRetain of the job"
    )


def missing(root: str, batch: int, path: str, newest: Callable[[str], int | None]) -> FlinkishError:
    """The error for ``path``, needed by ``batch`` and not there.

    FilesVanished when the query has committed a newer batch by now (``newest(root)``), so that
    trimming explains it; else Corrupt.
    """
    now = newest(root)
    if now is not None and now > batch:
        return FilesVanished(
            f"{path}, needed by batch {batch}, was trimmed while batch {now} was committed",
            path=path,
            batch=batch,
        )
    return Corrupt(
        f"the checkpoint {root} lacks {path}, needed by batch {batch} "
        f"(state version {batch + 1}), and no newer batch is there",
        hint="restore the file, or start from an older savepoint",
        path=path,
        batch=batch,
    )


def unreadable(
    path: str, error: CheckpointFormatError, what: str = "is not a log Spark wrote"
) -> FlinkishError:
    """Make the error for the file at ``path``: Corrupt, or UnsupportedFormat if of a newer Spark.

    Parameters
    ----------
    what: says what a damaged file is.
    """
    if isinstance(error, UnsupportedCheckpointFormat):
        return UnsupportedFormat(f"{path} cannot be read: {error.detail}", path=path)
    return Corrupt(f"{path} {what}: {error.detail}", path=path)
