"""The restorable contents of a job: its checkpoints as a savepoint taken now would have them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from flinkish.checkpoint.cut import Cut, FilesVanished
from flinkish.checkpoint.wholeness import read_whole_cut
from flinkish.errors import Corrupt, FlinkishError, SavepointNotFound
from flinkish.messages.calls import JobOrigin
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.restore.origin.restore_origin import (
    RestorableQuery,
    RestoreOrigin,
    of_record,
    open_path,
    origin_of,
)
from flinkish.savepoint.write.query_records import check_operators, query_record, query_source

#: Number of attempts to read a checkpoint that Spark trims, and the seconds between two of them.
_ATTEMPTS = 20
_PAUSE = 0.1


def open_origin(
    spec: RestoreSpec, job: JobOrigin | None = None, *, verify: str | None = None
) -> RestoreOrigin:
    """Open what a restore continues from: the checkpoints of ``job``, or else the path of ``spec``.

    ``verify`` and errors are those of :func:`.open_path` and :func:`open_job`.
    """
    if job is None:
        return open_path(spec.path, verify=verify)
    return open_job(job, drops=spec.options.allow_non_restored)


def open_job(job: JobOrigin, *, drops: bool = False) -> RestoreOrigin:
    """Open the newest committed batch of each query of a job. Nothing is copied or locked.

    Queries that the job was restored with and had not started are those of its savepoint.

    ``drops`` says whether these queries are dropped if that savepoint is gone (``-n``); otherwise
    SavepointNotFound is raised. Raises NoCommittedBatch if a query has none, FilesVanished if Spark
    trims a checkpoint faster than it can be read, and Corrupt, UnsupportedFormat or StorageError if
    a checkpoint or the savepoint cannot be read.
    """
    origin = RestoreOrigin(
        {
            query.name: open_query(
                query,
                job.facts.get(query.name),
                running=job.running,
                directory=job.working_directory,
            )
            for query in job.queries
        },
        is_savepoint=False,
        spark_version=job.spark_version,
        left_out=job.left_out,
        complete=job.complete,
    )
    if not job.began_with:
        return origin
    saved = _began_with(job, drops=drops)
    if saved is None:
        return replace(origin, complete=origin.complete and job.claimed)
    taken = {*job.taken, *origin.by_key}
    rest = {key: offer for key, offer in saved.by_key.items() if key not in taken}
    left_out = tuple(each for each in saved.left_out if each.query not in job.taken)
    return replace(
        origin,
        by_key={**origin.by_key, **rest},
        left_out=(*origin.left_out, *left_out),
        complete=origin.complete and saved.complete,
    )


def _began_with(job: JobOrigin, *, drops: bool) -> RestoreOrigin | None:
    """Open the savepoint that a job began with; None if it is gone, and may be."""
    try:
        return open_path(job.began_with)
    except SavepointNotFound as gone:
        if drops or job.claimed:  # a claimed one is deleted when all its queries were started
            return None
        raise SavepointNotFound(
            f"as far as is known, job {job.job_id} ended before it had started all "
            f"queries of {job.began_with}, and that savepoint no longer exists: "
            f"{gone.message}",
            hint="use -n to continue without it: such queries start from the beginning",
            path=job.began_with,
        ) from gone


def open_query(
    query: QueryStatus,
    facts: QueryFacts | None,
    *,
    running: bool = False,
    directory: str | None = None,
) -> RestorableQuery:
    """Open the newest committed batch of a query.

    ``facts`` are its driver's, ``running`` says whether it continues in its checkpoint,
    ``directory`` is the working directory of its job. Raises the errors of :func:`open_job`.
    """
    source = query_source(query, facts)
    cut = newest_cut(query.checkpoint_dir)
    check_operators(source, cut)
    record = query_record(source, query.name, cut, len(cut.files), cut.files.bytes)
    record = replace(record, sink=_absolute(record.sink, directory))
    origin = origin_of(cut, running=running)
    offer = of_record(record, origin, canonical=False)
    return replace(offer, live=running, planned_fault=cut.planned_fault)


def newest_cut(root: str, read: Callable[[str], Cut] = read_whole_cut) -> Cut:
    """Read the newest committed batch, again when Spark has trimmed its files meanwhile.

    As for a savepoint, damage may be a compaction under way; real damage gives the same error
    twice. Raises what ``read`` raises.
    """
    trouble: FlinkishError | None = None
    for _ in range(_ATTEMPTS - 1):
        try:
            return read(root)
        except FilesVanished as error:
            trouble = error
        except Corrupt as error:
            if trouble is not None and trouble.message == error.message:
                raise
            trouble = error
            time.sleep(_PAUSE)
    return read(root)


def _absolute(sink: Any, directory: str | None) -> Any:
    """Return the description of a sink with an absolute path, if that is local."""
    path = sink.get("path") if isinstance(sink, Mapping) else None
    if path is None or directory is None or ":" in path.partition("/")[0]:
        return sink
    return {**sink, "path": os.path.join(directory, path)}
