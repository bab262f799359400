"""Savepoints without the job's driver: of dead jobs and of foreign checkpoints.

Native ones are taken in this process. Of a canonical one only the cut is: a driver of its own, as
that of ``migrate``, rewrites it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.checkpoint.found import find_checkpoints, last_written, query_id_of
from flinkish.cli.arguments import requester
from flinkish.cli.output import Output
from flinkish.cli.progress import progress
from flinkish.cli.rewriting import rewrite
from flinkish.cli.session import Session
from flinkish.cli.spark_options import resolved
from flinkish.errors import ConsentNeeded, FlinkishError, NoCommittedBatch, RegistryError
from flinkish.jobs import migrator
from flinkish.jobs.model import (
    Job,
    Launch,
    QueryFacts,
    QueryStatus,
    Request,
    RequestKind,
    RequestState,
    SavepointRecord,
)
from flinkish.jobs.offline import TRIGGER, check_owner, check_savable, job_id_of, may_be_running
from flinkish.jobs.registry import new_request_id
from flinkish.operators.meaning import StateMeaning
from flinkish.savepoint.model import (
    FORMAT_CANONICAL,
    FORMAT_NATIVE,
    OperatorFacts,
    QuerySource,
    SavepointInfo,
    SavepointJob,
)
from flinkish.savepoint.scratch import scratch_directory
from flinkish.savepoint.writer import write_savepoint
from flinkish.storage import base_name, join, locate


def save_dead_job(
    session: Session, job: Job, target: str, *, full: bool, format_: str, dry_run: bool
) -> Request:
    """Take a savepoint of what a dead job has left: its checkpoints, and the registry's facts.

    A canonical one is rewritten by the Spark that the job ran on.

    Returns the request as it stands in the job's history. Raises what
    :func:`~flinkish.jobs.offline.check_savable` and ``write_savepoint`` raise.
    """
    registry = session.registry
    queries = registry.queries(job.job_id)
    facts = registry.facts(job.job_id)
    committed = {q.name: newest_committed_batch(q.checkpoint_dir) for q in queries}
    empty = check_savable(job, queries, facts, committed)
    queries = [query for query in queries if query.name not in empty]
    for query in queries:
        check_owner(registry, query.query_id, query.checkpoint_dir)
    out = session.out
    out.warning(
        f"job {job.name} ({job.job_id}) is {job.state.value}: the savepoint is taken from its "
        "checkpoint, at the newest committed batch"
    )
    for name in sorted({query.name for query in queries} - facts.keys()):
        out.warning(
            f"query '{name}' was run by an older flinkish that kept no operator ids: the savepoint "
            "can only be restored by the same program, operator by operator in order"
        )
    request = _request(registry.now(), job.job_id, target, full=full, format_=format_)
    if dry_run:
        return request
    left = [{"query": name, "reason": "it had committed no batch"} for name in empty]
    launch = replace(
        job.launch,
        application=None,
        module=None,
        arguments=(),
        restore=None,
        working_directory=os.getcwd(),
    )
    try:
        shown, kept = _write(
            session,
            request,
            launch,
            SavepointJob(
                job_id=job.job_id,
                name=job.name,
                spark_version=job.spark_version,
                python_version=next((f.python_version for f in facts.values()), None),
                restored_from=job.launch.restore.path if job.launch.restore else None,
                owner=request.requester,
            ),
            [query_source(query, facts.get(query.name)) for query in queries],
        )
    except FlinkishError as error:
        failed = replace(request, state=RequestState.FAILED, error=error.to_record())
        _remember(session, lambda: registry.record_request(_finished(failed, registry.now())))
        raise
    done = _done(request, shown)
    if left:
        done = replace(done, result={**(done.result or {}), "left_out": left})
    record = SavepointRecord(**kept, request_id=done.request_id)
    _remember(session, lambda: registry.add_savepoint(record))
    _remember(session, lambda: registry.record_request(_finished(done, registry.now())))
    return done


def save_checkpoints(
    session: Session,
    url: str,
    target: str,
    name: str | None,
    *,
    full: bool,
    format_: str,
    yes: bool,
    dry_run: bool,
) -> Request:
    """Take a savepoint of checkpoints that flinkish never saw.

    Parameters
    ----------
    url: one checkpoint, or a directory of several.
    name: of the job in the savepoint; None: the directory's.
    yes: do not ask when the checkpoint was written to a moment ago.

    Returns the request, which is in no history. Raises SavepointNotFound where there is none,
    WrongState when a job that is not dead has it, ConsentNeeded, NoCommittedBatch, and what
    ``write_savepoint`` raises.
    """
    root = locate(url)
    found = find_checkpoints(root)
    by_name = {key or base_name(place): place for key, place in found.items()}
    ids = {key: query_id_of(place) for key, place in by_name.items()}
    newest = 0.0
    for key, place in by_name.items():
        check_owner(session.registry, ids[key], place)
        if newest_committed_batch(place) is None:
            raise NoCommittedBatch(f"the query at {place} has not committed a batch yet")
        newest = max(newest, last_written(place))
    if may_be_running(newest, time.time()) and not (yes or dry_run):
        _agree(session.out, root, time.time() - newest)
    if None in found:
        session.out.note(
            f"The query is called '{base_name(root)}' in the savepoint, as its directory: a "
            "program takes it with a query of that name (.queryName)."
        )
    job_id = job_id_of(ids.values())
    request = _request(time.time(), job_id, target, full=full, format_=format_)
    if dry_run:
        return request
    job = SavepointJob(
        job_id=job_id,
        name=name or base_name(root) or "checkpoint",
        restored_from=None,
        owner=request.requester,
    )
    sources = [QuerySource(key, place) for key, place in by_name.items()]
    launch = Launch(
        application=None, options=session.config.to_options(), working_directory=os.getcwd()
    )
    shown, kept = _write(session, request, launch, job, sources)
    _remember(session, lambda: session.registry.add_savepoint(SavepointRecord(**kept)))
    return _done(request, shown)


def query_source(query: QueryStatus, facts: QueryFacts | None) -> QuerySource:
    """A query of a dead job as its driver would have given it to the writer, but for row counts.

    ``facts`` is None where the driver was of a flinkish that kept none.
    """
    if facts is None:
        return QuerySource(query.name, query.checkpoint_dir, run_id=query.run_id)
    return QuerySource(
        name=query.name,
        checkpoint=query.checkpoint_dir,
        run_id=facts.run_id,
        source=[dict(source) for source in facts.sources],
        sink=dict(facts.sink),
        operators=tuple(_operator(record) for record in facts.operators),
    )


def _operator(record: Mapping[str, Any]) -> OperatorFacts:
    known = {k: v for k, v in record.items() if k in OperatorFacts.__dataclass_fields__}
    meaning = known.pop("meaning", None)
    return OperatorFacts(
        **known, meaning=None if meaning is None else StateMeaning.from_json(meaning)
    )


def _done(request: Request, shown: Mapping[str, Any]) -> Request:
    result = {"savepoint": shown, "rung": None}
    return replace(request, state=RequestState.COMPLETED, result=result)


def _write(
    session: Session,
    request: Request,
    launch: Launch,
    job: SavepointJob,
    sources: Sequence[QuerySource],
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Take the savepoint that the request asks for: what is shown of it, what the registry keeps.

    ``launch`` is the Spark that rewrites it, if that is needed.
    """
    target = str(request.arguments["target"])
    if request.arguments["format"] == FORMAT_NATIVE:
        info = _write_native(session, request, target, job, sources)
        return info.to_json(), info.to_record()
    launch, installation = resolved(launch)
    with scratch_directory(target, job.job_id, job.owner) as scratch:
        native = _write_native(session, request, join(scratch, "native"), job, sources)
        answer = rewrite(
            session.out,
            migrator.Migration(
                path=native.path,
                target=target,
                owner=job.owner,
                type=FORMAT_CANONICAL,
                instead=True,
            ),
            launch,
            installation,
        )
    return answer["savepoint"], answer["record"]


def _write_native(
    session: Session,
    request: Request,
    target: str,
    job: SavepointJob,
    sources: Sequence[QuerySource],
) -> SavepointInfo:
    with progress(session.out) as show:
        return write_savepoint(
            target,
            job,
            sources,
            trigger=TRIGGER,
            reporter=_Progress(show, request),
            full=bool(request.arguments["full"]),
            deadline=time.monotonic(),  # nobody will commit the first batch of a dead query
        )


class _Progress:
    """Progress of the writer shown like that of a request."""

    def __init__(self, show: Callable[[Request], object], request: Request) -> None:
        self._show = show
        self._request = replace(request, state=RequestState.IN_PROGRESS)
        self._facts: dict[str, Any] = {}

    def phase(self, name: str) -> None:
        """See :class:`flinkish.savepoint.reporter.Reporter`."""
        self._tell(phase=name)

    def files(self, done: int, total: int) -> None:
        """See :class:`flinkish.savepoint.reporter.Reporter`."""
        self._tell(files=done, files_total=total)

    def bytes(self, done: int, total: int) -> None:
        """See :class:`flinkish.savepoint.reporter.Reporter`."""
        self._tell(bytes=done, bytes_total=total)

    def _tell(self, **facts: Any) -> None:
        self._facts.update(facts)
        self._show(replace(self._request, progress=dict(self._facts)))


def _request(now: float, job_id: str, target: str, *, full: bool, format_: str) -> Request:
    return Request(
        request_id=new_request_id(),
        job_id=job_id,
        kind=RequestKind.SAVEPOINT,
        state=RequestState.PENDING,
        created=now,
        arguments={"target": target, "format": format_, "offline": True, "full": full},
        requester=requester(),
        started=now,
    )


def _finished(request: Request, now: float) -> Request:
    return replace(request, finished=now)


def _remember(session: Session, write: Callable[[], object]) -> None:
    """Write into the registry; the savepoint is what counts, and it may be imported later."""
    try:
        write()
    except RegistryError as error:
        session.out.warning(f"the registry does not know of it: {error.message}")


def _agree(out: Output, root: str, age: float) -> None:
    what = f"the checkpoint {root} was written to {max(age, 0):.0f} s ago"
    refused = ConsentNeeded(
        f"{what}: the query that owns it may be running",
        hint="stop it first; or give --yes for a savepoint of its newest committed batch",
    )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise refused
    if not out.ask(f"{what}, and its query may be running. Take a savepoint of it?"):
        raise refused
