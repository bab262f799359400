"""One job in full, for people: what ``flinkish status`` shows. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from flinkish import __version__
from flinkish.cli.output.charts import sparkline
from flinkish.cli.output.text import folded, local_time
from flinkish.client.listing import JobDescription
from flinkish.config import mask_secrets
from flinkish.errors import with_job
from flinkish.messages.launch import ExternalLauncher
from flinkish.messages.queries import QueryStatus
from flinkish.messages.upgrades import Upgrade
from flinkish.registry.jobs import JobRecord, JobStateChange, Request
from flinkish.restore.plan.plan_text import of_query
from flinkish.units import shortened, size_text, table, visible, width_of

#: The number of bars on a wide terminal, the number of columns that make a terminal wide, and the
#: number of bars on a narrower terminal.
_BARS, _WIDE, _FEW_BARS = 30, 120, 12


def render(description: JobDescription, width: int | None = None) -> list[str]:
    """Return a job as lines for people, at most ``width`` columns wide. Pure."""
    job = description.job
    lines = [_title(job, width), ""]
    facts = {
        "program": " ".join([job.launch.application or f"-m {job.launch.module}"]),
        "launcher": _external_text(job.launch.external),
        "started": local_time(job.start_time),
        "ended": local_time(job.end_time) if job.end_time else None,
        "spark": job.spark_version,
        "application": job.application_id,
        "restored from": (job.launch.restore.path or None) if job.launch.restore else None,
        "checkpoints": job.checkpoint_dir,
        "log": job.log_path,
        "restarts": _restarts(description.restarts),
        "exit status": None if job.exit_status is None else str(job.exit_status),
    }
    indent = max(len(name) for name in facts) + 2
    for name, value in facts.items():
        if value:
            lines += _fact(name.ljust(indent), value, width)
    if job.failure:
        failure = [f"failure ({job.failure.get('id')}): {job.failure.get('message')}"]
        failure += [f"  {line}" for line in job.failure.get("tail") or ()]
        if job.failure.get("hint"):
            failure.append(f"hint: {with_job(str(job.failure['hint']), job.job_id)}")
        lines += ["", *_sentences(failure, width)]
    lines += ["", "STATES"]
    for change in description.history:
        reason = f"  {change.reason}" if change.reason else ""
        state = f"  {local_time(change.time)}  {change.state.value}{reason}"
        lines += _sentences([state], width)
    queries = description.queries
    inner = None if width is None else width - 2
    if queries:
        lines += ["", "QUERIES", *_indented(_query_table(queries, job.state.is_final, inner))]
    batches = _batch_table(queries, inner)
    if batches:
        lines += ["", "LAST BATCHES", *_indented(batches)]
    operators = [(query.name, op) for query in queries for op in query.operators]
    if operators:
        rows = [
            (name, str(op.ordinal), op.kind, op.uid or "-", _number(op.rows))
            for name, op in operators
        ]
        head = ("QUERY", "ORDINAL", "OPERATOR", "UID", "ROWS")
        drawn = table(head, rows, right="14", width=inner, flexible={0: 8, 2: 10}, optional=(1,))
        lines += ["", "STATEFUL OPERATORS", *_indented(drawn)]
    notes = [
        f"  {of_query(query.name, note, len(queries))}" for query in queries for note in query.notes
    ]
    if notes:
        lines += ["", "NOTES", *_sentences(notes, width)]
    if description.savepoints:
        rows_ = [
            (
                local_time(s.created),
                s.trigger,
                size_text(s.bytes),
                str(s.files),
                mask_secrets(s.path),
            )
            for s in description.savepoints
        ]
        head_ = ("TAKEN", "BY", "SIZE", "FILES", "PATH")
        drawn = table(head_, rows_, right="23", width=inner, flexible={4: 24}, optional=(3, 1))
        lines += ["", "SAVEPOINTS", *_indented(drawn)]
    if description.requests:
        drawn = _request_table(description.requests, inner)
        lines += ["", "REQUESTS", *_indented(drawn)]
    upgrades = [_upgrade_row(upgrade) for upgrade in description.upgrades]
    if upgrades:
        drawn = table(("BEGUN", "STATE", "UPGRADE ID", ""), upgrades, width=inner, flexible={3: 8})
        lines += ["", "UPGRADES", *_indented(drawn)]
    return [mask_secrets(line) for line in lines]


def _title(job: JobRecord, width: int | None) -> str:
    rest = f"  {job.job_id}  {job.state.value}"
    name = visible(job.name)
    return (name if width is None else shortened(name, max(width - len(rest), 8))) + rest


def _fact(title: str, value: str, width: int | None) -> list[str]:
    """Return a fact as lines: a path is shortened to fit, a sentence is wrapped."""
    text = visible(mask_secrets(value))
    if width is None or width_of(title + text) <= width:
        return [title + text]
    if "/" in text and " " not in text:
        return [title + shortened(text, max(width - len(title), 8))]
    return folded(title + text, width, " " * len(title))


def _sentences(lines: Sequence[str], width: int | None) -> list[str]:
    """Return lines, wrapped and indented where they do not fit."""
    return [part for line in lines for part in folded(mask_secrets(line), width, indent=" " * 4)]


def _query_table(queries: Sequence[QueryStatus], has_ended: bool, width: int | None) -> list[str]:
    """Return the table of a job's queries; a driver that died may not have recorded their end."""
    rows = [
        (
            query.name,
            _query_state(query, has_ended),
            _number(query.batch_id),
            query.watermark or "-",
            "-" if query.active and has_ended else _rate(query.input_rows_per_second),
            "-" if query.active and has_ended else _rate(query.processed_rows_per_second),
            _number(query.state_rows),
            query.query_id,
        )
        for query in queries
    ]
    head = ("NAME", "STATE", "BATCH", "WATERMARK", "IN/S", "DONE/S", "STATE ROWS", "QUERY ID")
    # An id is left out rather than shortened: --json has it.
    return table(head, rows, right="2456", width=width, flexible={0: 8}, optional=(7, 5, 4))


def _query_state(query: QueryStatus, has_ended: bool) -> str:
    if query.active:
        return "lost" if has_ended else "running"
    return "failed" if query.error else "ended"


def _batch_table(queries: Sequence[QueryStatus], width: int | None) -> list[str]:
    """Return the table of the last batches: their seconds and input rows, as bars and numbers.

    A query with fewer than two batches is left out.
    """
    number = _BARS if width is None or width >= _WIDE else _FEW_BARS
    rows = []
    for query in queries:
        batches = query.recent_batches[-number:]
        if len(batches) < 2:
            continue
        first, last = batches[0], batches[-1]
        seconds, read = [each.seconds for each in batches], [each.rows for each in batches]
        which = f"{first.batch_id} to {last.batch_id}"
        if last.batch_id - first.batch_id >= len(batches):
            which = f"{len(batches)} of {which}"
        row = (query.name, which, sparkline(seconds), f"{last.seconds:.1f}", f"{max(seconds):.1f}")
        rows.append((*row, sparkline(read), str(last.rows), str(max(read))))
    head = ("NAME", "BATCHES", "SECONDS", "LAST", "MOST", "ROWS", "LAST", "MOST")
    optional = (7, 4, 1)
    return (
        table(head, rows, right="3467", width=width, flexible={0: 8}, optional=optional)
        if rows
        else []
    )


def _request_table(requests: Sequence[Request], width: int | None) -> list[str]:
    head = ("CREATED", "KIND", "STATE", "REQUEST ID", "")
    rows = [
        (
            local_time(request.created),
            request.kind.value,
            request.state.value,
            request.request_id,
            mask_secrets(str((request.error or {}).get("message") or "")),
        )
        for request in requests
    ]
    lines = table(head, rows)
    if width is None or all(width_of(line) <= width for line in lines):
        return lines
    # The messages go below the rows.
    first, *lines = table(head[:4], [row[:4] for row in rows])
    folded_lines = [first]
    for line, row in zip(lines, rows, strict=True):
        folded_lines += [line, *(folded(f"    {row[4]}", width, " " * 4) if row[4] else [])]
    return folded_lines


def _restarts(changes: Sequence[JobStateChange]) -> str | None:
    """Return how often a job was started again, and why the last time; None if it never was."""
    return f"{len(changes)}; the last: {changes[-1].reason}" if changes else None


def _external_text(launcher: ExternalLauncher | None) -> str | None:
    if launcher is None:
        return None
    other = "" if launcher.agent == __version__ else f", with flinkish {launcher.agent}"
    return f"external ({launcher.name}{other})"


def _indented(lines: list[str]) -> list[str]:
    return ["  " + line for line in lines]


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _upgrade_row(upgrade: Upgrade) -> tuple[str, str, str, str]:
    """Return an upgrade as a row: when it began, its state, its id, why it failed."""
    reason = str((upgrade.failure or {}).get("message") or "")
    return local_time(upgrade.created), upgrade.state.value, upgrade.upgrade_id, reason
