"""Both sides of a restore as plain data: the contents of a savepoint, and the starting queries.

The key of a saved query is its name; None is the key of the one query of a plain Spark checkpoint,
which has no name. Operator ids are 32 hex digits, and None in checkpoints that flinkish never
managed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.operators.identity import UNKNOWN, Identified, OperatorIdentity, PlannedNode
from flinkish.savepoint.format.contents import OperatorRecord
from flinkish.state.serializers import TypeSerializer
from flinkish.state.snapshots import DEFAULT_MODULES
from flinkish.units import size_text

#: The key of a saved query.
QueryKey = str | None
#: The options of a Kafka source that decide what becomes of its position, and how its broker is
#: asked. Passwords are among them: they stay in the driver, and out of what objects print.
KAFKA_OPTIONS = (
    *("subscribe", "subscribePattern", "assign", "failOnDataLoss"),
    *("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp"),
    *("kafka.bootstrap.servers", "kafka.security.protocol", "kafka.isolation.level"),
    *("kafka.sasl.mechanism", "kafka.sasl.jaas.config", "kafka.ssl.key.password"),
    *("kafka.ssl.truststore.type", "kafka.ssl.truststore.location"),
    *("kafka.ssl.truststore.certificates", "kafka.ssl.endpoint.identification.algorithm"),
    *("kafka.ssl.keystore.type", "kafka.ssl.keystore.location"),
)

#: The options of a Delta source that say which table it reads, and what it does with changes.
DELTA_OPTIONS = (
    *("path", "failOnDataLoss", "ignoreChanges", "ignoreDeletes"),
    *("readChangeFeed", "skipChangeCommits"),
)
#: The options of an Iceberg source that decide what becomes of its position.
ICEBERG_OPTIONS = (
    *("streaming-skip-delete-snapshots", "streaming-skip-overwrite-snapshots"),
    "stream-from-timestamp",
)
#: The options of a file source that a savepoint records: they decide which files wait, and stay.
LASTING_OPTIONS = (
    *("cleanSource", "latestFirst", "maxBytesPerTrigger", "maxFileAge", "maxFilesPerTrigger"),
    "sourceArchiveDir",
)
#: The options of a file source that decide which files it reads, and which of them are new.
FILE_OPTIONS = ("path", "fileNameOnly", "recursiveFileLookup", *LASTING_OPTIONS)
#: The options of a source that a restore looks at, by its format.
SOURCE_OPTIONS = {
    "delta": DELTA_OPTIONS,
    "file": FILE_OPTIONS,
    "iceberg": ICEBERG_OPTIONS,
    "kafka": KAFKA_OPTIONS,
}


def within(name: str, query: QueryKey) -> str | None:
    """Return what a user's ``QUERY/NAME`` names in that query; None if it has another or none."""
    prefix = f"{query}/"
    return name.removeprefix(prefix) if query and name.startswith(prefix) else None


def is_spark_name(uid: str | None, directory: str) -> bool:
    """Return whether the uid of a source is its name in Spark, ``readStream.name("x")``.

    Spark keeps such a source in a directory of that name. It means something in its query only,
    while a uid of flinkish is one of the job.
    """
    return uid is not None and uid == directory and not uid.isdigit()


@dataclass(frozen=True)
class SavedOperator(OperatorRecord):
    """One stateful operator of a saved query.

    Attributes
    ----------
    rewritten
        The reason why the stores of its state are not the savepoint's, but those after the engine's
        rewrite; empty without a rewrite.
    regrouped
        Whether that rewrite makes other rows of the saved ones, so that their columns cannot change
        in the same pass.
    """

    query: QueryKey
    rewritten: str = ""
    regrouped: bool = False

    @property
    def movable(self) -> bool:
        """Whether another query of the job may take its state.

        That requires a uid: generated ids are meaningful only in their own query.
        """
        return self.uid is not None

    def describe(self) -> str:
        """Return a text for messages: ``uid 'dedup' (dedupe, 120 rows, 4.5 KiB, query 'q')``."""
        if self.uid is not None:
            name = f"uid '{self.uid}'"
        elif self.operator_id_v3 is not None:
            name = f"operator {self.operator_id_v3} without uid"
        else:
            name = f"operator {self.state.ordinal} without uid"
        rows = "rows unknown" if self.facts.rows is None else f"{self.facts.rows:,} rows"
        query = "" if self.query is None else f", query '{self.query}'"
        kind, size = self.state.kind or "kind unknown", size_text(self.state.bytes)
        return f"{name} ({kind}, {rows}, {size}{query})"


@dataclass(frozen=True)
class SavedSource(Identified):
    """The saved position of one source.

    Attributes
    ----------
    entry
        The line of the offset log, from 0.
    directory
        Its directory below ``sources/``.
    offset
        The text of that line.
    signature
        A description of what the source reads.
    inputs
        Pairs of ordinal and input, for operators with several inputs: the input through which the
        source reaches them (a join's left is 0).
    topics
        The record of the topics of a Kafka source (``flinkish.restore.plan.kafka_identity``), as
        the savepoint has it.
    options
        The :data:`LASTING_OPTIONS` of a file source, by their names in lower case; None where the
        savepoint does not have them.
    """

    query: QueryKey
    entry: int
    directory: str
    offset: str
    identity: OperatorIdentity = UNKNOWN
    signature: str | None = None
    inputs: tuple[tuple[int, int], ...] = ()
    topics: Mapping[str, Any] = field(default_factory=dict, compare=False)
    options: Mapping[str, str] | None = field(default=None, compare=False, repr=False)

    @property
    def is_named(self) -> bool:
        """Whether the program gave it a name of Spark's (see :func:`is_spark_name`)."""
        return is_spark_name(self.uid, self.directory)

    def answers_to(self, name: str) -> bool:
        """Return whether a user may call a source so that goes on from here.

        It may read something else of the same kind by now.
        """
        kind, bracket, _ = name.partition("[")
        known = self.signature or ""
        other = bracket and known.startswith(f"{kind}[")
        return name == self.uid or bool(other or (name and not name.isdigit() and name in known))

    def describe(self) -> str:
        """Return a text for messages: ``the position of source 'flights' (query 'q')``."""
        name = repr(self.uid) if self.uid is not None else (self.signature or f"{self.entry}")
        return f"the position of source {name}" + (
            "" if self.query is None else f" (query '{self.query}')"
        )


@dataclass(frozen=True)
class SavedQueryFacts:
    """One query of a savepoint.

    Attributes
    ----------
    sources
        None if the savepoint does not describe them.
    sink
        The savepoint's description of the sink (``format``, ``path``, ``output_mode`` ...).
    pins
        The settings in its offset log.
    watermark_ms
        The watermark in milliseconds; 0 or None without one.
    """

    key: QueryKey
    batch_id: int
    operators: tuple[SavedOperator, ...] = ()
    sources: tuple[SavedSource, ...] | None = None
    sink: Mapping[str, Any] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)
    watermark_ms: int | None = None

    def describe(self) -> str:
        """Return a text for messages."""
        return "the checkpoint's query" if self.key is None else f"query '{self.key}'"


@dataclass(frozen=True)
class NewOperator:
    """One stateful operator of a starting query.

    Attributes
    ----------
    name
        A name for messages.
    lookup_ids
        The ids to look for under the selected hasher, first match wins: a uid hash, then the
        operator's own id.
    generated_id
        The id that it would have without its uid (v3).
    serializers
        The program's serializers of its typed states, by the name of their column.
    query
        The name of the query.
    """

    node: PlannedNode
    name: str
    lookup_ids: tuple[str, ...]
    generated_id: str
    uid: str | None = None
    serializers: Mapping[str, TypeSerializer[Any]] = field(default_factory=dict)
    query: str = ""

    def answers_to(self, name: str) -> bool:
        """Return whether a name of the user's is its uid, its name or its id, behind ``QUERY/``."""
        meant = {name, within(name, self.query) or name}
        return not meant.isdisjoint((self.uid, self.name, *self.lookup_ids))

    def describe(self) -> str:
        """Return a text for messages: ``uid 'dedup' (dedupe)``."""
        name = f"uid '{self.uid}'" if self.uid is not None else f'"{self.name}" without uid'
        return f"{name} ({self.node.kind})"


@dataclass(frozen=True)
class NewSource:
    """One source of a starting query.

    Attributes
    ----------
    query
        The name of that query.
    feeds
        The ordinals of the operators that it feeds.
    inputs
        As in :class:`SavedSource`.
    options
        Those of :data:`SOURCE_OPTIONS` that the program gives to it.
    """

    entry: int
    directory: str
    signature: str
    lookup_ids: tuple[str, ...]
    uid: str | None = None
    feeds: tuple[int, ...] = ()
    inputs: tuple[tuple[int, int], ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: str = ""

    @property
    def is_named(self) -> bool:
        """Whether the program gave it a name of Spark's (see :func:`is_spark_name`)."""
        return is_spark_name(self.uid, self.directory)

    def describe(self) -> str:
        """Return a text for messages."""
        return f"source '{self.uid}'" if self.uid is not None else f"source {self.signature}"


@dataclass(frozen=True)
class NewSink:
    """The sink of a starting query.

    Attributes
    ----------
    format, path
        As the program gives them, the format by its short name or the session's default; those of a
        table as its catalog has them.
    output_mode
        None if the program does not set it.
    problem
        Why the query cannot be savepointed with this sink, and the advice; None if it can.
    unreadable
        Why it is not known where it writes; empty if it is.
    """

    format: str | None = None
    path: str | None = None
    table: str | None = None
    output_mode: str | None = None
    problem: tuple[str, str] | None = None
    unreadable: str = ""


@dataclass(frozen=True)
class NewQuery:
    """A starting query.

    Attributes
    ----------
    operators, sources
        None if the query's plan could not be read.
    settings
        The session's values of the settings that the savepoint pins.
    modules
        The modules whose classes a snapshot of typed state may name.
    checkpoint
        The program's own checkpoint location, as it gives it; None without one.
    session
        The session that starts it, for those who look things up; opaque to a planner.
    """

    name: str
    operators: tuple[NewOperator, ...] | None = ()
    sources: tuple[NewSource, ...] | None = ()
    sink: NewSink = field(default_factory=NewSink)
    settings: Mapping[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = DEFAULT_MODULES
    checkpoint: str | None = None
    session: Any = field(default=None, compare=False, repr=False)
