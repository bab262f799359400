"""What is measured: every query on every backend, with the default formats and with others.

A *case* is one query with the settings it is begun with. It counts for the cells of the operators
that it has. Settings are those of ``SQLConf`` and ``RocksDBConf``; a name that a version of Spark
does not know it ignores, so ``since`` says from which version on a case means something, and
:func:`uses` looks whether the savepoint really has the format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Line = tuple[int, int]

_STREAMING = "spark.sql.streaming"
_STORE = f"{_STREAMING}.stateStore"
_PROVIDERS = {
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
HDFS, ROCKSDB = "hdfs", "rocksdb"
BOTH = (HDFS, ROCKSDB)
NONE = "none"
STATELESS = "stateless"


@dataclass(frozen=True)
class Query:
    """A query of ``queries.py``; ``formats`` says whether other formats are tried on it."""

    name: str
    operators: tuple[str, ...]
    backends: tuple[str, ...] = BOTH
    since: Line = (3, 5)
    formats: bool = True


@dataclass(frozen=True)
class Format:
    """A format that is not the default one.

    ``pin`` is the setting that a savepoint with it has in its offset log, ``suffix`` ends the name
    of some state file of it, ``head`` is the first line of its offset log. ``queries`` has those
    that it concerns; None: all.
    """

    name: str
    settings: Mapping[str, str]
    since: Line = (3, 5)
    backends: tuple[str, ...] = BOTH
    queries: tuple[str, ...] | None = None
    pin: tuple[str, str] | None = None
    suffix: str | None = None
    head: str | None = None
    checkpoint_format: int = 1
    #: Settings that the job needs after a restore too, as no checkpoint pins them.
    kept: Mapping[str, str] = field(default_factory=dict)


def _pinned(
    name: str,
    setting: str,
    value: str,
    queries: tuple[str, ...] | None,
    since: Line = (3, 5),
    backends: tuple[str, ...] = BOTH,
    **kept: str,
) -> Format:
    settings, pin = {setting: value, **kept}, (setting, value)
    return Format(name, settings, since, backends, queries, pin, kept=kept)


QUERIES: tuple[Query, ...] = (
    Query("stateless", (STATELESS,), (NONE,)),
    Query("aggregate", ("stateStoreSave",)),
    Query("windows", ("stateStoreSave",), formats=False),
    Query("sessions", ("sessionWindowStateStoreSaveExec",)),
    Query("distinct", ("dedupe",)),
    Query("distinct_within_watermark", ("dedupeWithinWatermark",)),
    Query("limit", ("globalLimit",)),
    Query("join_inner", ("symmetricHashJoin",), formats=False),
    Query("join_left", ("symmetricHashJoin",)),
    Query("pandas_with_state", ("applyInPandasWithState",)),
    Query("processor_in_pandas", ("transformWithStateInPandasExec",), (ROCKSDB,), (4, 0)),
    Query("processor_in_rows", ("transformWithStateInPySparkExec",), (ROCKSDB,), (4, 1)),
    Query("distinct_counts", ("dedupe", "stateStoreSave"), formats=False),
)
_PROCESSORS = ("processor_in_pandas", "processor_in_rows")
_JOINS = ("join_inner", "join_left")
_JOIN = f"{_STREAMING}.join.stateFormatVersion"

FORMATS: tuple[Format, ...] = (
    Format(
        "changelog",
        {f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true"},
        backends=(ROCKSDB,),
        suffix=".changelog",
    ),
    Format(
        "checkpoint-v2",
        {f"{_STORE}.checkpointFormatVersion": "2"},
        since=(4, 0),
        backends=(ROCKSDB,),
        checkpoint_format=2,
    ),
    Format(
        "offset-log-v2",
        {f"{_STREAMING}.offsetLog.formatVersion": "2"},
        since=(4, 2),
        backends=(NONE, HDFS, ROCKSDB),
        head="v2",
    ),
    _pinned("row-checksum", f"{_STORE}.rowChecksum.enabled", "true", None, (4, 2)),
    _pinned("avro", f"{_STORE}.encodingFormat", "avro", _PROCESSORS, (4, 0), (ROCKSDB,)),
    _pinned("aggregation-v1", f"{_STREAMING}.aggregation.stateFormatVersion", "1", ("aggregate",)),
    _pinned(
        "pandas-state-v1",
        f"{_STREAMING}.flatMapGroupsWithState.stateFormatVersion",
        "1",
        ("pandas_with_state",),
    ),
    # Spark refuses outer joins with it (SPARK-26154).
    _pinned("join-v1", _JOIN, "1", ("join_inner",)),
    _pinned("join-v3", _JOIN, "3", _JOINS, (4, 1), (ROCKSDB,)),
    _pinned(
        "join-v4",
        _JOIN,
        "4",
        _JOINS,
        (4, 2),
        (ROCKSDB,),
        # 4.2 wants this one too; 4.3 does not know it any more.
        **{f"{_STREAMING}.join.stateFormatV4.enabled": "true"},
    ),
)
_BY_NAME = {one.name: one for one in FORMATS}
#: Formats that are often used together, on the queries where they touch the same files.
_TOGETHER = (("changelog", "checkpoint-v2"),)


@dataclass(frozen=True)
class Case:
    """One query, begun with some settings."""

    query: Query
    backend: str
    formats: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Name of its directory, and in messages."""
        return "-".join((self.query.name, self.backend, *self.formats))

    @property
    def settings(self) -> dict[str, str]:
        """Settings of the session it is begun in."""
        chosen = {}
        if self.backend in _PROVIDERS:
            chosen[f"{_STORE}.providerClass"] = _PROVIDERS[self.backend]
        for name in self.formats:
            chosen.update(_BY_NAME[name].settings)
        return chosen

    @property
    def kept_settings(self) -> dict[str, str]:
        """Those of them that the job must keep after a restore."""
        return {key: value for name in self.formats for key, value in _BY_NAME[name].kept.items()}


def line(version: str) -> Line:
    """``(4, 1)`` of ``4.1.4``."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def cases(version: str) -> Iterator[Case]:
    """The cases that can be begun on a version of Spark."""
    here = line(version)
    for query in QUERIES:
        if query.since > here:
            continue
        for backend in query.backends:
            yield Case(query, backend)
            fitting = {f.name for f in FORMATS if _fits(f, query, backend, here)}
            yield from (Case(query, backend, (name,)) for name in sorted(fitting))
            for names in _TOGETHER:
                if fitting.issuperset(names) and query.formats:
                    yield Case(query, backend, tuple(sorted(names)))


def _fits(one: Format, query: Query, backend: str, here: Line) -> bool:
    if one.since > here or backend not in one.backends:
        return False
    return query.formats if one.queries is None else query.name in one.queries


def unused(
    case: Case, pins: Mapping[str, str], files: Sequence[str], head: str, checkpoint_format: int
) -> list[str]:
    """The formats of a case that its savepoint does not have: then it does not measure them.

    Parameters
    ----------
    pins: the configuration in its offset log.
    files: the names of its files.
    head: the first line of its newest offset log entry.
    checkpoint_format: as the savepoint has it.
    """
    absent = []
    for name in case.formats:
        one = _BY_NAME[name]
        has = (
            (one.pin is None or pins.get(one.pin[0]) == one.pin[1])
            and (one.suffix is None or any(file.endswith(one.suffix) for file in files))
            and (one.head is None or head == one.head)
            and one.checkpoint_format <= checkpoint_format
        )
        if not has:
            absent.append(name)
    return absent
