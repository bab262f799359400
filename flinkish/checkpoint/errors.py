"""Errors for a missing or damaged file of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable

from flinkish.checkpoint.format.errors import CheckpointFormatError, UnsupportedCheckpointFormat
from flinkish.errors import Corrupt, FlinkishError, UnsupportedFormat

#: What to do about a checkpoint that is damaged at its newest batch.
HINT_WHOLE = (
    "put the file back from a copy, or restore an older batch: flinkish savepoint "
    "--from-checkpoint URL TARGET --batch newest-whole"
)


class FilesVanished(FlinkishError):
    """Spark trimmed a file between listing and reading; a newer batch is available."""

    id = "files-vanished"
    default_hint = (
        "try again; if it always happens, raise spark.sql.streaming.minBatchesToRetain of the job"
    )


def missing(root: str, batch: int, path: str, newest: Callable[[str], int | None]) -> FlinkishError:
    """Return the error for ``path``, which ``batch`` needs and which is missing.

    It is FilesVanished when the query has committed a newer batch by now (``newest(root)``), so
    that trimming explains the loss; else Corrupt.
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
        f"(state version {batch + 1}), and there is no newer batch",
        hint=HINT_WHOLE,
        path=path,
        batch=batch,
    )


def unreadable(
    path: str, error: CheckpointFormatError, what: str = "is not a log that Spark wrote"
) -> FlinkishError:
    """Return the error for an unreadable file: Corrupt, or UnsupportedFormat if it is too new.

    ``what`` is the predicate of the message for a damaged file.
    """
    if isinstance(error, UnsupportedCheckpointFormat):
        return UnsupportedFormat(f"{path} cannot be read: {error.detail}", path=path)
    return Corrupt(f"{path} {what}: {error.detail}", hint=HINT_WHOLE, path=path)
