"""``flinkish list`` outside the fast path: help, ``--watch``, filters, dead jobs, errors."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.jobs import ListDocument
from flinkish.cli.options.arguments import since_option, words_of
from flinkish.cli.output.jobs_text import (
    absent_notice,
    failed_notice,
    list_document,
    notice,
    show,
)
from flinkish.cli.output.live import Draw, redrawn
from flinkish.cli.output.printer import Output
from flinkish.cli.output.streams import flush
from flinkish.cli.output.text import folded, terminal_width
from flinkish.cli.session import Session
from flinkish.client.listing import JobFilter, find_jobs
from flinkish.errors import PartialFailure, UsageError
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import ACTIVE_STATES, SCHEDULED_STATES, JobRecord, JobState

#: Seconds between two refreshes of ``--watch``.
REDRAW = 1.0


def _states(
    _ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> frozenset[JobState]:
    """Return the states that words such as ``running,Failed`` name; UsageError for other words."""
    words = [word.strip().upper() for value in values for word in value.split(",")]
    states = {state.value: state for state in JobState} | {"CANCELLED": JobState.CANCELED}
    for word in words:
        if word not in states:
            names = ", ".join(state.value.lower() for state in JobState)
            raise UsageError(
                f"--state: {word.lower()!r} is not a job state", hint=f"use one of: {names}"
            )
    return frozenset(states[word] for word in words)


@command("list", exit_codes=(3,), documents=(ListDocument,))
@click.option("-r", "--running", is_flag=True, help="Only running, restarting and ending jobs.")
@click.option("-s", "--scheduled", is_flag=True, help="Only starting jobs.")
@click.option("-a", "--all", "everything", is_flag=True, help="Include ended jobs.")
@click.option(
    "--failed", is_flag=True, help="Only jobs that ran, failed and were not acknowledged."
)
@click.option(
    "--stuck",
    is_flag=True,
    help="Only running jobs that commit nothing though they have input "
    "(execution.stuck.timeout); exit code 3 if there is one, except with --watch.",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    callback=_states,
    metavar="STATE[,STATE]...",
    shell_complete=words_of(*(state.value.lower() for state in JobState)),
    help="Only jobs in these states, such as running,failed; includes ended jobs (repeatable).",
)
@since_option("Only jobs started within a DURATION (1d, 2h), or since 10:30 or 2026-11-23T10:30.")
@click.option("--name", metavar="NAME", help="Only jobs with this name; * and ? are wildcards.")
@click.option("--watch", is_flag=True, help="Redraw every second until Ctrl-C (exit code 130).")
def list_command(
    call: Call,
    running: bool,
    scheduled: bool,
    everything: bool,
    failed: bool,
    stuck: bool,
    states: frozenset[JobState],
    since: float | None,
    name: str | None,
    watch: bool,
) -> int:
    """List jobs that have not ended, newest last.

    On a terminal, names and paths are shortened and columns omitted to fit the width.
    """
    if watch and call.out.json:
        raise UsageError("--watch and --json are mutually exclusive", hint="use only one of them")
    if failed and (running or scheduled or everything):
        raise UsageError(
            "--failed cannot be combined with -r, -s or -a", hint="use only one of them"
        )
    if states and (running or scheduled or failed):
        raise UsageError(
            "--state cannot be combined with -r, -s or --failed", hint="use only one of them"
        )
    if stuck and (scheduled or everything or failed or states):
        raise UsageError(
            "--stuck cannot be combined with -s, -a, --failed or --state",
            hint="use only one of them",
        )
    options = ListOptions(running, scheduled, everything, failed, stuck, states, name, since)
    with redrawn(watch) as draw:
        while True:
            with call.session() as session:
                rows, notices = read_jobs(session, options)
                if call.out.json:
                    session.document(list_document(rows))
            if not call.out.json:
                _show(call.out, rows, notices, draw)
            if not watch:
                return PartialFailure.code if stuck and rows else 0
            flush(sys.stdout)
            time.sleep(REDRAW)


def _show(
    out: Output, rows: Sequence[dict[str, Any]], notices: Sequence[str], draw: Draw | None
) -> None:
    text = show(rows, quiet=out.quiet, width=terminal_width(sys.stdout))
    width = terminal_width(sys.stderr)
    lines = [part for notice_ in notices for part in folded(notice_, width)]
    if draw is not None:
        draw([*text.splitlines(), *([] if out.quiet else lines)])
        return
    out.text(text)
    for line in lines:
        out.note(line)


@dataclass(frozen=True)
class ListOptions:
    """The options of ``list`` that choose jobs.

    Jobs in a final state are left out without ``everything``, ``failed`` or ``states``. ``running``
    and ``scheduled`` are Flink's ``-r`` and ``-s``; with both or neither, both kinds are listed.
    ``name`` is a pattern; ``since`` is in seconds since the epoch.
    """

    running: bool = False
    scheduled: bool = False
    everything: bool = False
    failed: bool = False
    stuck: bool = False
    states: frozenset[JobState] = frozenset()
    name: str | None = None
    since: float | None = None

    def wanted(self) -> JobFilter:
        """Return the filter for the jobs that the options ask for. Pure."""
        if self.failed:
            return JobFilter(None, self.name, self.since, failed=True)
        if self.stuck:
            return JobFilter({JobState.RUNNING}, self.name, self.since)
        states = self.states or wanted_states(
            running=self.running, scheduled=self.scheduled, everything=self.everything
        )
        return JobFilter(states, self.name, self.since)


def read_jobs(session: Session, options: ListOptions) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows for :func:`flinkish.cli.output.jobs_text.list_document`, and the notices."""
    jobs = find_jobs(session, options.wanted())
    if options.stuck:
        return _stuck(session, jobs, _none_like("stuck", options))
    rows = _rows(session.registry, jobs)
    if options.failed:
        absent = session.absent_registry
        none = _none_like("unacknowledged failed", options)
        none += [] if absent is None else [absent_notice(absent)]
        return rows, [] if rows else none
    notices = []
    if not rows:
        notices += notice(
            running=options.running,
            scheduled=options.scheduled,
            everything=options.everything,
            name=options.name,
            filtered=bool(options.states) or options.since is not None,
        )
        if session.absent_registry is not None:
            notices.append(absent_notice(session.absent_registry))
    failed = session.registry.unacknowledged()
    return rows, [*notices, *failed_notice([(job.name, job.job_id) for job in failed])]


def _stuck(
    session: Session, running: Sequence[JobRecord], otherwise: list[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    from flinkish.client.stuck import find_stuck

    stuck = find_stuck(session, running)
    jobs = [job for job in running if job.job_id in stuck]
    notices = [
        f"{job.name} ({job.job_id}): {each.describe()}"
        for job in jobs
        for each in stuck[job.job_id]
    ]
    rows = [
        {
            **row,
            "stuck": [
                {"query": each.query, "seconds": round(each.seconds, 3)}
                for each in stuck[row["job_id"]]
            ],
        }
        for row in _rows(session.registry, jobs)
    ]
    if not running:
        session.warn_of_absent_registry()
    return rows, notices or otherwise


def _none_like(kind: str, options: ListOptions) -> list[str]:
    """Return the notices when no jobs of a kind, such as stuck jobs, are found. Pure."""
    if options.name is None and options.since is None:
        return [f"No {kind} jobs."]
    return notice(
        running=False, scheduled=False, everything=False, name=options.name, filtered=True
    )


def _rows(registry: Registry, jobs: Sequence[JobRecord]) -> list[dict[str, Any]]:
    ids = [job.job_id for job in jobs]
    queries = registry.queries_of(ids)
    savepoints = registry.last_savepoints(ids)
    return [
        {
            "job_id": job.job_id,
            "name": job.name,
            "state": job.state.value,
            "start_time": job.start_time,
            "end_time": job.end_time,
            "queries": {query.name: query.batch_id for query in queries.get(job.job_id, ())},
            "last_savepoint": savepoints[job.job_id].path if job.job_id in savepoints else None,
        }
        for job in jobs
    ]


def wanted_states(
    *, running: bool, scheduled: bool, everything: bool
) -> frozenset[JobState] | None:
    """Return the states to list; None for all. Pure."""
    if everything:
        return None
    if running == scheduled:
        return ACTIVE_STATES
    return SCHEDULED_STATES if scheduled else ACTIVE_STATES - SCHEDULED_STATES
