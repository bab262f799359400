"""The calls of a driver that runs no job, and its answers.

The question is in a file, because an environment variable's size is limited. Only the file's owner
can read it, because the configuration may contain passwords. The driver removes the file as soon as
it has read it, and writes the answer next to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.errors import Corrupt
from flinkish.messages.codec import OMIT_DEFAULT, decode, encode
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.migration import Migration
from flinkish.messages.plan import RestorePlan
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.messages.rehearsals import RehearsalLimits
from flinkish.messages.requests import LeftOut

#: The environment variable with the path of the call.
CALL_VARIABLE = "FLINKISH_CALL"
#: Formats to which a state can be exported.
EXPORT_FORMATS = ("parquet", "avro", "json")


def answer_path(call_path: str) -> str:
    """Return the path of the answer to a call: JSON, written last."""
    return f"{call_path}.answer"


def progress_path(call_path: str) -> str:
    """Return the path of a JSON list with the numbers of rows and bytes written so far."""
    return f"{call_path}.progress"


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
        The newest batch planned in the query's offset log, where that is known.
    since
        The batch after which the job continued under another query id; ``last_batch`` is ``since``
        plus the number of batches that followed. None for a run under the query's own id.
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
        Whether ``place`` is a table, to which several queries may write.
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
    """A job whose checkpoints take the place of a savepoint, as the registry knows it.

    Attributes
    ----------
    running
        Whether it is still running: the plan is then made as if it ended now.
    working_directory
        Where relative paths of its program start.
    queries, facts
        The queries that a savepoint would have, and their facts by name.
    left_out, complete
        As in a savepoint.
    began_with
        The savepoint that the job was restored from, if the job ended before all queries of that
        savepoint had been started; else empty.
    claimed
        Whether the job may have deleted ``began_with`` because it no longer needed it.
    taken
        The names of the queries of ``began_with`` that are no longer needed; None stands for the
        query of a plain checkpoint.
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
    read_elsewhere
        The newest batch of the runs that read on under other query ids after a query was saved, by
        its Spark query id.
    begun_elsewhere
        The newest batch that these runs have begun, for queries that write with ``foreachBatch``.
    """

    spec: RestoreSpec
    runs: Mapping[str, tuple[KnownRun, ...]] = field(default_factory=dict)
    job: JobOrigin | None = None
    writers: tuple[KnownWriter, ...] = ()
    read_elsewhere: Mapping[str, int] = field(default_factory=dict, metadata=OMIT_DEFAULT)
    begun_elsewhere: Mapping[str, int] = field(default_factory=dict, metadata=OMIT_DEFAULT)


@dataclass(frozen=True)
class DescribeTask:
    """A request to describe the queries that a program starts.

    Attributes
    ----------
    restore
        The restore that is to be planned, if any.
    """

    restore: RestoreQuestion | None = None


@dataclass(frozen=True)
class Described:
    """The answer to a :class:`DescribeTask`.

    Attributes
    ----------
    queries
        The queries as ``flinkish.driver.plan.planned_queries.query_record`` describes them.
    plan
        The plan of the restore, if one was requested.
    """

    queries: tuple[dict[str, Any], ...] = ()
    plan: RestorePlan | None = None


@dataclass(frozen=True)
class RehearsalTask:
    """A request to run a program's queries on copies of state; answered with ``Rehearsed``.

    Attributes
    ----------
    question
        The restore.
    directory
        The directory for all that is written, checkpoints and output; it is removed at the end.
    drop_output
        Whether the output of every query is discarded, even that of file sinks.
    """

    question: RestoreQuestion
    directory: str
    limits: RehearsalLimits
    drop_output: bool = False


@dataclass(frozen=True)
class ExportTask:
    """A request to make checkpoints for a program's queries; answered with an :class:`Exported`.

    The checkpoints are made in ``directory``, each under the name of its query, and will be in
    ``location`` when Spark reads them. With ``is_single``, ``location`` is the one checkpoint
    itself. ``query`` is the only query that gets a checkpoint; None: all queries get one.
    """

    question: RestoreQuestion
    directory: str
    location: str
    query: str | None = None
    is_single: bool = False


@dataclass(frozen=True)
class Exported:
    """The checkpoints that were made: the names of their directories, by query.

    ``warnings`` say what Spark alone does not do for the queries.
    """

    directories: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    plan: RestorePlan = field(default_factory=RestorePlan)


@dataclass(frozen=True)
class StateTask:
    """A request to show rows of a savepoint's state, or with a ``target`` to export them.

    Attributes
    ----------
    path
        The savepoint.
    name
        ``[QUERY/]UID[/STATE]``.
    where
        A SQL condition on ``partition``, ``key`` and ``value``.
    limit
        The maximum number of rows to show.
    partition
        The only state partition to show; None for all.
    target
        The directory to create.
    format
        One of :data:`EXPORT_FORMATS`.
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


#: What a driver can be asked.
Question = DescribeTask | RehearsalTask | ExportTask | Migration | StateTask
_CLASSES: tuple[type[Question], ...] = (
    DescribeTask,
    RehearsalTask,
    ExportTask,
    Migration,
    StateTask,
)


@dataclass(frozen=True)
class DriverCall:
    """A question to a driver, as it is written to a file.

    Attributes
    ----------
    kind
        The name of the question's class.
    question
        The question as a document.
    options
        The configuration.
    """

    kind: str
    question: Mapping[str, Any]
    options: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(question: Question, options: Mapping[str, str]) -> DriverCall:
        """Return the call that asks a question."""
        return DriverCall(type(question).__name__, encode(question), options)

    def asked(self) -> Question:
        """Return the question; raises Corrupt or UnsupportedFormat if it cannot be read."""
        for each in _CLASSES:
            if each.__name__ == self.kind:
                return decode(each, self.question)
        raise Corrupt(f"a driver cannot answer a question of the kind {self.kind!r}", hint="")
