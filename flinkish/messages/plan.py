"""The plan of a restore: what happens to each query, operator, source and sink, and why.

The planner (:mod:`flinkish.restore.plan`) makes it in the driver. Each query of a job keeps its
part in the registry, ``flinkish check --json`` prints the plan, and ``check -o`` saves it. Each
class is a part of that document, and has its keys in the document's order. Adding a key means
raising the ``VERSION`` of the documents that contain a plan, for instance
:class:`~flinkish.messages.queries.QueryStatus` and :class:`~flinkish.messages.launch.Launch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from flinkish.messages.codec import OMIT_DEFAULT, named

#: The verdict on a whole restore, or on one query.
PlanVerdict = Literal["ok", "consent-needed", "incompatible"]


class StateVerdict(str, Enum):
    """What happens to an operator's state, from the least to the most severe."""

    AS_IS = "as-is"
    RENUMBERED = "renumbered"  # the same state under another ordinal, or in another query
    NEW = "new"  # starts empty
    DROPPED = "dropped"  # in the savepoint, and no operator takes it
    RESCALE = "rescale"  # the same rows in another number of state partitions
    MIGRATE = "migrate"  # rows have to be rewritten
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True)
class StateChange:
    """One difference between a saved state and that of the new program.

    Attributes
    ----------
    store
        The state store (or the variable) with the difference.
    reason
        A stable id.
    text
        A sentence that names the input or output that makes the difference.
    advice
        What the user can do.
    partial
        Whether results for existing keys or rows may be incomplete: the user has to consent.
    """

    store: str
    verdict: StateVerdict
    reason: str
    text: str
    advice: str = ""
    partial: bool = False


class RestoreOutcome(str, Enum):
    """The outcome of a check of a restore, the least severe first."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    CONSENT = "consent-needed"
    REFUSED = "incompatible"


@dataclass(frozen=True)
class Check:
    """One precondition: a stable ``id``, its outcome, and what the user can do.

    Attributes
    ----------
    batches
        For a Kafka sink, how many batches at most are written to it again; None if unknown because
        a job continues. -1 for all other checks.
    query
        The query that it is about; None for the whole restore.
    """

    id: str
    outcome: RestoreOutcome
    text: str
    advice: str = ""
    batches: int | None = field(default=-1, metadata=OMIT_DEFAULT)
    query: str | None = field(default=None, metadata=OMIT_DEFAULT)


@dataclass(frozen=True)
class Move:
    """One partition whose offset is changed.

    Attributes
    ----------
    before
        The saved offset; None for a partition that the savepoint does not know.
    after
        The new offset; None for a partition that is no longer read.
    skipped, repeated
        How many rows at most are never read, and how many are read again.
    """

    topic: str
    partition: int
    before: int | None
    after: int | None
    skipped: int = 0
    repeated: int = 0


@dataclass(frozen=True)
class KeptQueryId:
    """Whether a query keeps the savepoint's query id, and why."""

    keep: bool
    reason: str


@dataclass(frozen=True)
class HistoryShift:
    """The shift of a query's history batches, and whether it is the savepoint's."""

    shift: int
    keep: bool


@dataclass(frozen=True)
class Refusal:
    """Why a query is not restored: an error's message, hint and id."""

    message: str
    hint: str
    id: str


@dataclass(frozen=True)
class QueryRow:
    """A query of the program.

    Attributes
    ----------
    origin
        The name of the saved query that it continues from; None for an empty start, and for the one
        query of a plain checkpoint.
    from_batch
        The saved batch of that query; None for an empty start.
    batch_id
        The batch that the query continues from, in its own numbering; None if it is not restored.
    writes
        ``format``, ``path`` and ``table`` of its sink, as far as the program says, and ``place``:
        what the sink writes to, in the spelling of the registry's claims; None if unknown.
    notes
        Sentences for the user.
    """

    name: str
    verdict: PlanVerdict = "ok"
    origin: str | None = field(default=None, metadata=named("from"))
    from_batch: int | None = None
    batch_id: int | None = None
    query_id: KeptQueryId | None = None
    history: HistoryShift | None = None
    writes: Mapping[str, str | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusal: Refusal | None = None


@dataclass(frozen=True)
class OperatorOrigin:
    """The saved operator whose state is taken or dropped.

    ``query`` is the name of its saved query, as ``origin`` in :class:`QueryRow`.
    """

    query: str | None = None
    ordinal: int | None = None
    uid: str | None = None
    partitions: int | None = None


@dataclass(frozen=True)
class OperatorRow:
    """An operator of the program, or saved state that no operator takes.

    Attributes
    ----------
    verdict
        A :class:`StateVerdict`, or ``consent-needed``.
    executable
        Whether the restore can carry the verdict out.
    reason
        A stable id.
    text, advice
        A sentence, and what the user can do.
    rows, bytes
        The size of the saved state.
    """

    query: str | None
    name: str
    uid: str | None = None
    operator_id: str | None = None
    kind: str | None = None
    ordinal: int | None = None
    verdict: str = StateVerdict.AS_IS.value
    executable: bool = True
    reason: str = ""
    text: str = ""
    advice: str = ""
    rows: int | None = None
    bytes: int | None = None
    origin: OperatorOrigin | None = field(default=None, metadata=named("from"))
    changes: tuple[StateChange, ...] = ()

    @property
    def label(self) -> str:
        """What people call it: its uid, else its name."""
        return self.uid or self.name


@dataclass(frozen=True)
class SourceOrigin:
    """The saved position of a source: a line of its query's offset log, and the line's number."""

    query: str | None = None
    entry: int | None = None
    offset: str | None = None


@dataclass(frozen=True)
class SourceRow:
    """A source of the program, or a saved position that no source takes.

    Attributes
    ----------
    entry
        Its number among the sources of its query; None for a saved position.
    reason
        A stable id.
    text, advice
        A sentence, and what the user can do.
    lost_rows, repeated_rows
        How many rows at most are never read, or read again; None if that is unknown, and for rows
        that are read again also if that is no issue.
    set_to
        The position that replaces the saved one (``--set-offsets``).
    moves
        What ``set_to`` does to each partition of Kafka.
    """

    query: str | None
    uid: str | None = None
    signature: str | None = None
    entry: int | None = None
    verdict: str = StateVerdict.AS_IS.value
    reason: str = ""
    text: str = ""
    advice: str = ""
    lost_rows: int | None = None
    repeated_rows: int | None = None
    set_to: str | None = None
    moves: tuple[Move, ...] = ()
    origin: SourceOrigin | None = field(default=None, metadata=named("from"))

    @property
    def label(self) -> str:
        """What people call it: its uid, else what it reads."""
        return self.uid or self.signature or f"source {self.entry}"


@dataclass(frozen=True)
class SinkRow:
    """The sink of a query.

    Attributes
    ----------
    path
        The sink's location or table.
    newest_batch
        The newest batch that it has.
    rollback_to
        The version to which a table goes back.
    reason
        A stable id.
    text, advice
        A sentence, and what the user can do.
    """

    query: str
    format: str = ""
    path: str = ""
    newest_batch: int | None = None
    rollback_to: int | None = None
    verdict: str = StateVerdict.AS_IS.value
    reason: str = ""
    text: str = ""
    advice: str = ""

    @property
    def label(self) -> str:
        """What people call it: the location or the table."""
        return self.path


@dataclass(frozen=True)
class PinRow:
    """A setting that the savepoint pins, and for which the program requests another value.

    Attributes
    ----------
    verdict
        ``rescale`` where the state would have to be rewritten for the requested value, ``migrate``
        where it is written for the requested value anyway (the backend of canonical state), and
        ``pinned`` where the savepoint's value stays in force.
    """

    query: str
    key: str
    name: str
    pinned: str
    asked: str
    verdict: str
    text: str = ""
    advice: str = ""


@dataclass(frozen=True)
class SparkLimitation:
    """What does not work between two versions of Spark."""

    id: str
    text: str


@dataclass(frozen=True)
class SparkVersions:
    """What the version matrix says.

    Attributes
    ----------
    created, running
        The version of the Spark that wrote the savepoint, and of the Spark that will run; each is
        None if unknown.
    """

    created: str | None = field(metadata=named("from"))
    running: str | None = field(metadata=named("to"))
    verdict: str
    limitations: tuple[SparkLimitation, ...] = ()


@dataclass(frozen=True)
class RestorePlan:
    """The plan of a restore.

    It may cover only one query.

    Attributes
    ----------
    exit_code
        The exit code of ``flinkish check``.
    savepoint
        Its location, in the plan of a check; None if the restore is from a job. Empty in a plan
        that a driver makes.
    version
        What the version matrix says, in the plan of a check.
    complete
        Whether it covers all queries, so that non-restored state counts.
    job_id, name, state
        The job whose restore a check has planned.
    """

    verdict: PlanVerdict = "ok"
    exit_code: int = 0
    savepoint: str | None = field(default="", metadata=OMIT_DEFAULT)
    version: SparkVersions | None = field(default=None, metadata=OMIT_DEFAULT)
    queries: tuple[QueryRow, ...] = ()
    operators: tuple[OperatorRow, ...] = ()
    sources: tuple[SourceRow, ...] = ()
    sinks: tuple[SinkRow, ...] = ()
    pins: tuple[PinRow, ...] = ()
    checks: tuple[Check, ...] = ()
    complete: bool = field(default=False, metadata=OMIT_DEFAULT)
    job_id: str | None = field(default=None, metadata=OMIT_DEFAULT)
    name: str | None = field(default=None, metadata=OMIT_DEFAULT)
    state: str | None = field(default=None, metadata=OMIT_DEFAULT)

    @property
    def rows(self) -> tuple[OperatorRow | SourceRow | SinkRow, ...]:
        """The rows of the table that is shown: operators, then sources, then sinks."""
        return (*self.operators, *self.sources, *self.sinks)

    def query(self, name: str) -> QueryRow | None:
        """Return the row of a query, if it has one."""
        return next((row for row in self.queries if row.name == name), None)
