"""The output of ``flinkish list``, used by its fast path and by its general path."""

from __future__ import annotations

from flinkish.cli.output.text import iso_time, known_time, table_time
from flinkish.units import counted, first_of, table, visible

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flinkish.cli.documents.jobs import ListDocument, ListedJob

_HEAD = ("START", "JOB ID", "NAME", "STATE", "QUERIES", "BATCH", "LAST SAVEPOINT")
_NUMBERS = "45"
#: Columns that are shortened on a narrow terminal (name, savepoint), and columns that are left out
#: if shortening is not enough (savepoint, queries).
_FLEXIBLE = {2: 12, 6: 24}
_OPTIONAL = (6, 4)


def list_document(rows: Sequence[dict[str, Any]]) -> ListDocument:
    """Return the rows as the JSON document. Pure.

    A row has job_id, name, state, start_time and end_time (seconds since the epoch), queries (name
    to newest committed batch, or None) and last_savepoint (path or None); with ``--stuck``, stuck.
    """
    return {"jobs": [_document(row) for row in rows]}


def show(rows: Sequence[dict[str, Any]], *, quiet: bool, width: int | None = None) -> str:
    """Return the text for people, with line ends; empty without rows. Pure.

    The rows are those of :func:`list_document`.
    """
    if quiet:
        lines = [visible(row["job_id"]) for row in rows]
    else:
        lines = jobs_table(rows, width) if rows else []
    return "".join(line + "\n" for line in lines)


def jobs_table(rows: Sequence[dict[str, Any]], width: int | None) -> list[str]:
    """Return the lines of the table, see :func:`list_document`. Pure."""
    cells = [_cells(row, width) for row in rows]
    return table(_HEAD, cells, right=_NUMBERS, width=width, flexible=_FLEXIBLE, optional=_OPTIONAL)


def notice(
    *,
    running: bool,
    scheduled: bool,
    everything: bool,
    name: str | None,
    filtered: bool = False,
) -> list[str]:
    """Return Flink's notices for an empty list (``CliFrontend.list``), one per line. Pure.

    ``filtered``: whether other filters chose the jobs, such as states or a start time.
    """
    named = visible(f" named {name}") if name else ""
    if filtered:
        return [f"No such jobs{named}."]
    if everything:
        return [f"No jobs{named}."]
    notices = []
    if running or not scheduled:
        notices.append(f"No running jobs{named}.")
    if scheduled or not running:
        notices.append(f"No scheduled jobs{named}.")
    return notices


def absent_notice(url: str) -> str:
    """Return the line about a default registry that does not exist yet. Pure."""
    return f"There is no registry yet: flinkish run creates {url}"


def failed_notice(failed: Sequence[tuple[str, str]]) -> list[str]:
    """Return the line about unacknowledged failed jobs (names and ids), if there are any. Pure."""
    if not failed:
        return []
    names = first_of([f"{visible(name)} ({visible(job_id)})" for name, job_id in failed], limit=3)
    which = visible(failed[0][1]) if len(failed) == 1 else "JOB"
    return [
        f"{counted(len(failed), 'job')} failed: {names}; see: flinkish list --failed, "
        f"flinkish ack {which}"
    ]


def _last_batch(row: dict[str, Any]) -> int | None:
    batches = [batch for batch in row["queries"].values() if batch is not None]
    return max(batches) if batches else None


def _document(row: dict[str, Any]) -> ListedJob:
    document: ListedJob = {
        "job_id": row["job_id"],
        "name": row["name"],
        "state": row["state"],
        "start_time": iso_time(row["start_time"]),
        "end_time": known_time(row["end_time"]),
        "queries": [{"name": name, "batch_id": batch} for name, batch in row["queries"].items()],
        "last_batch": _last_batch(row),
        "last_savepoint": row["last_savepoint"],
    }
    if "stuck" in row:
        document["stuck"] = row["stuck"]
    return document


def _cells(row: dict[str, Any], width: int | None) -> tuple[str, ...]:
    batch = _last_batch(row)
    return (
        table_time(row["start_time"], width),
        row["job_id"],
        row["name"],
        row["state"],
        str(len(row["queries"])),
        "-" if batch is None else str(batch),
        row["last_savepoint"] or "-",
    )
