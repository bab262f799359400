"""The output of ``flinkish list``, used by the fast path and by the general case."""

from __future__ import annotations

from flinkish.cli.output.text import counted, iso_time, json_document, local_time, table, visible

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_HEAD = ("START", "JOB ID", "NAME", "STATE", "QUERIES", "BATCH", "LAST SAVEPOINT")
_NUMBERS = "45"


def show(rows: Sequence[dict[str, Any]], *, json: bool, quiet: bool) -> str:
    """Return the text for stdout, with its line ends; empty when there is nothing to show. Pure.

    Parameters
    ----------
    rows
        For each job: job_id, name, state, start_time and end_time (seconds since the epoch),
        queries (name to newest committed batch), last_savepoint (path or None).
    """
    if json:
        return json_document({"jobs": [_document(row) for row in rows]}) + "\n"
    if quiet:
        lines = [visible(row["job_id"]) for row in rows]
    else:
        lines = table(_HEAD, [_cells(row) for row in rows], right=_NUMBERS) if rows else []
    return "".join(line + "\n" for line in lines)


def notice(*, running: bool, scheduled: bool, everything: bool, name: str | None) -> list[str]:
    """Return Flink's notices for an empty list (``CliFrontend.list``), one per line. Pure."""
    named = visible(f" named {name}") if name else ""
    if everything:
        return [f"No jobs{named}."]
    notices = []
    if running or not scheduled:
        notices.append(f"No running jobs{named}.")
    if scheduled or not running:
        notices.append(f"No scheduled jobs{named}.")
    return notices


def failed_notice(failed: Sequence[tuple[str, str]]) -> list[str]:
    """Return the line on failed jobs that nobody has acknowledged, if there are any. Pure.

    Parameters
    ----------
    failed
        Their names and ids.
    """
    if not failed:
        return []
    names = ", ".join(f"{visible(name)} ({visible(job_id)})" for name, job_id in failed[:3])
    more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
    return [
        f"{counted(len(failed), 'job')} failed: {names}{more}; see: flinkish list --failed, "
        "flinkish ack JOB"
    ]


def _last_batch(row: dict[str, Any]) -> int | None:
    batches = [batch for batch in row["queries"].values() if batch is not None]
    return max(batches) if batches else None


def _document(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "job_id": row["job_id"],
        "name": row["name"],
        "state": row["state"],
        "start_time": iso_time(row["start_time"]),
        "end_time": iso_time(row["end_time"]),
        "queries": [{"name": name, "batch_id": batch} for name, batch in row["queries"].items()],
        "last_batch": _last_batch(row),
        "last_savepoint": row["last_savepoint"],
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    batch = _last_batch(row)
    return (
        local_time(row["start_time"]),
        row["job_id"],
        row["name"],
        row["state"],
        str(len(row["queries"])),
        "-" if batch is None else str(batch),
        row["last_savepoint"] or "-",
    )
