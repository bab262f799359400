"""Savepoints without the job's driver: of dead jobs and of foreign checkpoints.

A native savepoint is taken in this process. For a canonical one, this process only makes a native
cut; a separate driver, as for ``migrate``, then rewrites it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flinkish.checkpoint.cut import committed_batches, newest_committed_batch
from flinkish.checkpoint.discovery import find_checkpoints, last_written, query_id_of
from flinkish.checkpoint.wholeness import newest_whole_batch, read_whole_cut
from flinkish.client.context import Agree, Context, refuse, requester
from flinkish.client.migration import rewrite
from flinkish.client.program import pinned
from flinkish.client.pruning import with_removal
from flinkish.client.reporter import WriterProgress
from flinkish.client.requests import Outcome, reported, savepoint_target
from flinkish.config import working_directory
from flinkish.errors import ConsentNeeded, Corrupt, FlinkishError, RegistryError
from flinkish.launch.job_origin import left_queries
from flinkish.launch.known_jobs import check_began
from flinkish.launch.offline import (
    check_owner,
    check_savable,
    job_id_of,
    kept_from_purge,
    may_be_running,
)
from flinkish.launch.secret_settings import without_masked
from flinkish.messages.launch import Launch
from flinkish.messages.migration import Migration
from flinkish.messages.requests import (
    TRIGGER_OFFLINE,
    LeftOut,
    RequestResult,
    SavepointArguments,
    SavepointSummary,
)
from flinkish.registry.job_registry import new_request_id
from flinkish.registry.jobs import JobRecord, Request, RequestKind, RequestState
from flinkish.registry.resumed_runs import ever_ran
from flinkish.savepoint.format.contents import (
    FORMAT_CANONICAL,
    FORMAT_NATIVE,
    QuerySource,
    SavepointJob,
)
from flinkish.savepoint.state.state_directories import scratch_directory
from flinkish.savepoint.write.query_records import query_source
from flinkish.savepoint.write.writer import write_savepoint
from flinkish.storage import base_name, join, locate

if TYPE_CHECKING:
    from flinkish.savepoint.manage.retention import Policy

#: The value of ``--batch`` for the newest batch whose files are whole.
NEWEST_WHOLE = "newest-whole"


def save_dead_job(
    context: Context,
    job: JobRecord,
    target: str,
    *,
    full: bool = False,
    format_: str = FORMAT_NATIVE,
    dry_run: bool = False,
    batch: int | str | None = None,
) -> Outcome:
    """Take a savepoint of a dead job from its checkpoints and the facts in the registry.

    A canonical savepoint is rewritten by the Spark that the job ran on, with the recorded settings;
    secret ones, which are not recorded, are those of the configuration. ``dry_run`` only checks
    that a savepoint can be taken; ``batch`` is the committed batch of each query, as for
    :func:`save_checkpoints`. The history records the request, unless it is refused or a dry run.

    Raises WrongState, NoCommittedBatch or NotSavepointable if no savepoint can be taken; Corrupt,
    StorageError or Locked if a checkpoint cannot be read or the savepoint cannot be written; the
    errors of :func:`~.migration.rewrite` for a canonical one.
    """
    registry = context.registry
    queries = registry.queries(job.job_id)
    facts = registry.facts(job.job_id)
    committed = {q.name: newest_committed_batch(q.checkpoint_dir) for q in queries}
    empty = check_savable(job, queries, facts, committed)
    check_began(registry, job)
    queries = [query for query in queries if query.name not in empty]
    for query in queries:
        check_owner(registry, query.query_id, query.checkpoint_dir)
    reporter = context.reporter
    reporter.warning(f"job {job.name} ({job.job_id}) is {job.state.value}: saving its checkpoints")
    for name in sorted({query.name for query in queries} - facts.keys()):
        reporter.warning(
            f"query '{name}' ended before its driver recorded its operator ids: only the same "
            "program can restore the savepoint, operator by operator in order"
        )
    started = registry.now()
    arguments = SavepointArguments(target, format_, offline=True, full=full)
    places = {query.name: locate(query.checkpoint_dir) for query in queries}
    batches = {key: _batch_of(context, place, batch) for key, place in places.items()}
    if dry_run:
        _check_whole(places, batches)
        return Outcome(job_id=job.job_id, kind=RequestKind.SAVEPOINT, target=target)
    left = (
        *(LeftOut(name, "it had committed no batch") for name in empty),
        *left_queries(registry, job),
    )
    complete = ever_ran(registry, job)
    recorded = without_masked(job.launch)
    launch = replace(
        recorded,
        conf={**context.config.extra("spark."), **recorded.conf},
        application=None,
        module=None,
        arguments=(),
        secret_arguments=(),
        restore=None,
        working_directory=working_directory(instead="/"),
    )
    sources = [query_source(query, facts.get(query.name)) for query in queries]
    sources = [replace(source, batch_id=batches[source.name]) for source in sources]
    try:
        with kept_from_purge(job, requester()), _naming_whole_batches(places, batches):
            savepoint = _write(
                context,
                arguments,
                launch,
                SavepointJob(
                    job_id=job.job_id,
                    name=job.name,
                    spark_version=job.spark_version,
                    python_version=next((f.python_version for f in facts.values()), None),
                    restored_from=job.launch.restore.path if job.launch.restore else None,
                    owner=requester(),
                    left_out=left,
                    complete=complete,
                ),
                sources,
            )
    except FlinkishError as error:
        _record(context, job, arguments, started, error=error.to_record())
        raise
    savepoint = replace(savepoint, request_id=new_request_id())
    result = RequestResult(savepoint, left_out=left, complete=complete)
    _remember(context, savepoint.path, lambda: registry.add_savepoint(savepoint))
    request = _record(context, job, arguments, started, savepoint.request_id, result=result)
    return reported(reporter, Outcome.of(request, job))


def save_checkpoints(
    context: Context,
    url: str,
    target: str | None,
    name: str | None = None,
    *,
    full: bool = False,
    format_: str = FORMAT_NATIVE,
    agree: Agree = refuse,
    dry_run: bool = False,
    batch: int | str | None = None,
    keep: Policy | None = None,
    on_taken: Callable[[Outcome], object] = lambda _outcome: None,
) -> Outcome:
    """Take a savepoint of checkpoints that were not written by flinkish.

    ``url``: one checkpoint, or a directory of several. ``target``: the directory of savepoints.
    Default: ``execution.checkpointing.savepoint-dir``. ``name``: the job's name in the savepoint.
    Default: the directory's name. ``agree``: called when the checkpoint was written to a moment
    ago, so that its query may be running. ``batch``: the committed batch of each checkpoint: a
    number, or :data:`NEWEST_WHOLE` for the newest whose files are whole. Default: the newest, which
    must be whole. ``keep``, ``on_taken``: as for :func:`.lifecycle.save_job`.

    Raises NoSavepointDirectory if no target is given or configured; SavepointNotFound or
    NoCommittedBatch if there is no checkpoint, or nothing to save; WrongState if the checkpoint
    belongs to a job that is not dead; ConsentNeeded if ``agree`` returned False; Corrupt,
    StorageError or Locked if a checkpoint cannot be read or the savepoint cannot be written; the
    errors of :func:`~.migration.rewrite` for a canonical one.
    """
    directory = savepoint_target(context, target)
    root = locate(url)
    checkpoints = find_checkpoints(root)
    by_name = {key or base_name(place): place for key, place in checkpoints.items()}
    ids = {key: query_id_of(place) for key, place in by_name.items()}
    newest = 0.0
    for key, place in by_name.items():
        check_owner(context.registry, ids[key], place)
        committed_batches(place)  # raises an error if there is no committed batch
        newest = max(newest, last_written(place))
    batches = {key: _batch_of(context, place, batch) for key, place in by_name.items()}
    if may_be_running(newest, time.time()) and not dry_run:
        _ask(agree, root, time.time() - newest)
    if None in checkpoints:
        context.reporter.note(
            f"In the savepoint, the query is named '{base_name(root)}' after its "
            "directory: the program's query must have the same name (.queryName)."
        )
    job_id = job_id_of(ids.values())
    outcome = Outcome(job_id=job_id, kind=RequestKind.SAVEPOINT, target=directory)
    if dry_run:
        _check_whole(by_name, batches)
        return outcome
    job = SavepointJob(
        job_id=job_id,
        name=name or base_name(root) or "checkpoint",
        restored_from=None,
        owner=requester(),
    )
    sources = [QuerySource(key, place, batch_id=batches[key]) for key, place in by_name.items()]
    launch = Launch(
        application=None,
        conf=context.config.extra("spark."),
        options=context.config.to_options(),
        working_directory=working_directory(instead="/"),
    )
    with _naming_whole_batches(by_name, batches):
        arguments = SavepointArguments(directory, format_, offline=True, full=full)
        savepoint = _write(context, arguments, launch, job, sources)
    _remember(context, savepoint.path, lambda: context.writable_registry.add_savepoint(savepoint))
    taken = replace(outcome, state=RequestState.COMPLETED, result=RequestResult(savepoint))
    return with_removal(context, taken, keep, on_taken)


def _batch_of(context: Context, place: str, batch: int | str | None) -> int | None:
    """Return the number of the batch to save, or None for the newest; warn of skipped batches."""
    if batch != NEWEST_WHOLE:
        return None if batch is None else int(batch)
    whole = newest_whole_batch(place)
    if whole.batch is None:
        error = whole.skipped[0]
        error.hint = f"none of its last {len(whole.skipped)} committed batches is intact"
        raise error
    for error in whole.skipped:
        context.reporter.warning(error.message)
    if whole.skipped:
        context.reporter.warning(
            f"saving {place} at batch {whole.batch}, the newest intact one: later batches "
            "will be processed again"
        )
    return whole.batch


def _check_whole(places: Mapping[str, str], batches: Mapping[str, int | None]) -> None:
    """Raise the error that a savepoint of these checkpoints would raise if they are damaged."""
    with _naming_whole_batches(places, batches):
        for key, place in places.items():
            read_whole_cut(place, batches[key])


@contextmanager
def _naming_whole_batches(
    places: Mapping[str, str], batches: Mapping[str, int | None]
) -> Iterator[None]:
    """Let the hint of an error for a damaged newest batch name the newest whole batch, if any.

    ``places``: checkpoints by query. ``batches``: the saved batch by query; None for the newest.
    """
    try:
        yield
    except Corrupt as error:
        damaged = str(error.data.get("path"))
        for key, place in places.items():
            if batches[key] is None and damaged.startswith(f"{place}/"):
                error.hint = _way_out(place)
        raise


def _way_out(place: str) -> str:
    """Return the hint for a checkpoint that is damaged at its newest batch."""
    whole = newest_whole_batch(place)
    if whole.batch is None:
        return f"none of its last {len(whole.skipped)} committed batches is intact"
    return (
        f"restore the file from a copy; or continue from batch {whole.batch}, the newest "
        f"intact one, with --batch newest-whole or --batch {whole.batch}"
    )


def _write(
    context: Context,
    arguments: SavepointArguments,
    launch: Launch,
    job: SavepointJob,
    sources: Sequence[QuerySource],
) -> SavepointSummary:
    """Take the requested savepoint; ``launch`` is the Spark that rewrites a canonical one."""
    target = arguments.target
    if arguments.format == FORMAT_NATIVE:
        return _write_native(context, target, job, sources, full=arguments.full)
    launch, installation = pinned(launch)
    with scratch_directory(target, job.job_id, job.owner) as scratch:
        native = _write_native(context, join(scratch, "native"), job, sources, full=arguments.full)
        answer = rewrite(
            context,
            Migration(
                path=native.path,
                target=target,
                owner=job.owner,
                type=FORMAT_CANONICAL,
                instead=True,
            ),
            launch,
            installation,
        )
    return answer.savepoint


def _write_native(
    context: Context,
    target: str,
    job: SavepointJob,
    sources: Sequence[QuerySource],
    *,
    full: bool,
) -> SavepointSummary:
    return write_savepoint(
        target,
        job,
        sources,
        trigger=TRIGGER_OFFLINE,
        reporter=WriterProgress(context.reporter),
        full=full,
        deadline=time.monotonic(),  # do not wait: a dead query never commits its first batch
    )


def _record(
    context: Context,
    job: JobRecord,
    arguments: SavepointArguments,
    started: float,
    request_id: str | None = None,
    *,
    result: RequestResult | None = None,
    error: Mapping[str, Any] | None = None,
) -> Request:
    """Record in a dead job's history that a savepoint was taken, or could not be taken."""
    registry = context.registry
    request = Request(
        request_id=request_id or new_request_id(),
        job_id=job.job_id,
        kind=RequestKind.SAVEPOINT,
        state=RequestState.COMPLETED if error is None else RequestState.FAILED,
        created=started,
        arguments=arguments,
        requester=requester(),
        started=started,
        result=result,
        error=error,
    )
    _remember(
        context,
        f"the request {request.request_id}",
        lambda: registry.record_request(replace(request, finished=registry.now())),
    )
    return request


def _remember(context: Context, what: str, write: Callable[[], object]) -> None:
    """Write ``what`` into the registry; a failure only causes a warning, which names ``what``.

    A savepoint is complete without its record, and can be imported later.
    """
    try:
        write()
    except RegistryError as error:
        context.reporter.warning(f"{what} could not be added to the registry: {error.message}")


def _ask(agree: Agree, root: str, age: float) -> None:
    what = f"the checkpoint {root} was written to {max(age, 0):.0f} s ago"
    if not agree(f"{what}, so its query may be running. Take a savepoint of it?"):
        raise ConsentNeeded(
            f"{what}: its query may be running",
            hint="stop it first; or use --yes to save its newest committed batch",
        )
