"""The calls of a driver that runs no job, and its answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from flinkish.spec.codec import OMIT_DEFAULT
from flinkish.spec.launch import RestoreSpec
from flinkish.spec.plan import RestorePlan
from flinkish.spec.queries import QueryFacts, QueryStatus
from flinkish.spec.requests import LeftOut


@dataclass(frozen=True)
class KnownRun:
    """A job that ran a query of the savepoint, as the registry knows it.

    Attributes
    ----------
    state
        The name of the job's state.
    last_batch
        The newest known batch of the query, from its commit log or its reports.
    begun_batch
        The newest batch that its offset log has planned, where that is known.
    since
        The batch after which it went on under another query id; ``last_batch`` counts from there.
        None for a run of the query's own id.
    """

    job_id: str
    state: str
    last_batch: int | None = None
    begun_batch: int | None = None
    since: int | None = field(default=None, metadata=OMIT_DEFAULT)


@dataclass(frozen=True)
class KnownWriter:
    """A query of another job that has not ended, and the place that it writes to.

    Attributes
    ----------
    state
        The name of the job's state.
    place
        A location, or the name of a table.
    is_table
        Whether several queries may write there.
    elsewhere
        Whether its driver runs on another host, where a local path may be another directory.
    last_batch, last_batch_end
        The newest batch that it has committed, and when that ended, ISO 8601; None if not known.
    """

    job_id: str
    name: str
    state: str
    query: str
    place: str
    is_table: bool = False
    elsewhere: bool = False
    last_batch: int | None = None
    last_batch_end: str | None = None


@dataclass(frozen=True)
class JobOrigin:
    """A job whose checkpoints stand for a savepoint of it, as the registry knows it.

    Attributes
    ----------
    running
        Whether it goes on while the plan is made: the plan is that of its end now.
    working_directory
        Where relative paths of its program start.
    queries
        The queries that a savepoint would have, and their facts by name.
    left_out, complete
        As in a savepoint.
    began_with
        The savepoint that the job was restored from, if it was ended before all queries of that
        had been started; else empty.
    claimed
        Whether the job was to delete ``began_with`` as soon as it needed it no more.
    taken
        The names of the queries of ``began_with`` that are not needed any more; None is that of a
        plain checkpoint.
    """

    job_id: str
    running: bool
    queries: tuple[QueryStatus, ...]
    facts: Mapping[str, QueryFacts] = field(default_factory=dict)
    spark_version: str | None = None
    working_directory: str | None = None
    left_out: tuple[LeftOut, ...] = ()
    complete: bool = True
    began_with: str = ""
    claimed: bool = False
    taken: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class RestoreQuestion:
    """A restore whose plan is requested.

    Attributes
    ----------
    runs
        The jobs that ran each query, by Spark query id.
    job
        The job whose checkpoints are to be restored, instead of the savepoint of ``spec``.
    writers
        The places that queries of other jobs write to.
    """

    VERSION: ClassVar[int] = 4

    spec: RestoreSpec
    runs: Mapping[str, tuple[KnownRun, ...]] = field(default_factory=dict)
    job: JobOrigin | None = None
    writers: tuple[KnownWriter, ...] = ()


@dataclass(frozen=True)
class Described:
    """A driver's description of a program.

    Attributes
    ----------
    queries
        Its queries as ``flinkish.driver.tasks.describe.query_record`` describes them.
    plan
        The plan of the restore, if one was requested.
    """

    queries: tuple[dict[str, Any], ...] = ()
    plan: RestorePlan | None = None


@dataclass(frozen=True)
class StateTask:
    """A request to show rows of a savepoint's state, or with a ``target`` to export them.

    Attributes
    ----------
    path
        The savepoint.
    name
        ``UID[/STATE]``.
    where
        A SQL condition on ``partition``, ``key`` and ``value``.
    limit
        The maximum number of rows to show.
    partition
        The only state partition to show; None for all.
    target
        The directory to create.
    format
        ``parquet``, ``avro`` or ``json``.
    raw
        Whether the values of typed state stay bytes.
    """

    path: str
    name: str
    where: str | None = None
    limit: int = 20
    partition: int | None = None
    target: str | None = None
    format: str = "parquet"
    raw: bool = False


@dataclass(frozen=True)
class StateAnswer:
    """The result of a :class:`StateTask`.

    Attributes
    ----------
    rows, more
        The rows to show, and whether there are others.
    exported
        The number of rows written.
    """

    rows: tuple[dict[str, Any], ...] = ()
    more: bool = False
    exported: int = 0
