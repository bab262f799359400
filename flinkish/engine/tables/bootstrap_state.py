"""Create an operator's state from a DataFrame; Flink's State Processor API calls it bootstrapping.

Only Spark's planner knows the form of state (schemas, key encodings, column families). The form is
taken from a template: an operator of any checkpoint of the same query, with any rows. Rows have the
columns ``key`` and ``value``, as :func:`~.spark_frames.read_state` returns them. Each row goes to
the partition where Spark will look for it, and is written as by a rewrite.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import xxhash

from flinkish.checkpoint.format.names import JOIN_STORES, ROCKSDB
from flinkish.checkpoint.format.pins import PIN_SHUFFLE_PARTITIONS
from flinkish.engine.errors import PERMANENT, CannotMigrate, LostRows
from flinkish.engine.migration.attempts import WrittenStore
from flinkish.engine.migration.migration_planner import TargetState, for_spark, plan_operator
from flinkish.engine.migration.pipeline import WrittenOperator, place, written_operator
from flinkish.engine.migration.row_blocks import Rows, in_lists, sum_digests, unpack
from flinkish.engine.migration.state_files import operator_files
from flinkish.engine.migration.store_tasks import ReadRows, write_store
from flinkish.engine.rows.spark_hash import check_hashable
from flinkish.engine.stores.checkpoints import OperatorState
from flinkish.engine.stores.files import StateSource, StateTarget
from flinkish.engine.tables.arrow_rows import arrow_rows
from flinkish.engine.tables.bootstrap_rows import Bootstrap, EncodeRows
from flinkish.engine.tables.frames import StateTable, find_table, read_table, state_tables
from flinkish.engine.tables.spark_frames import computed, spark_schema

#: Schema of the encoding tasks' output: number of a partition, and rows for it or a report.
PIECES: Final = "number int, piece binary"


def write_state(
    frames: Any | Mapping[str, Any],
    source: StateSource,
    template: OperatorState,
    target: StateTarget,
    target_state: TargetState | None = None,
    *,
    version: int | None = None,
    root: str | None = None,
) -> WrittenOperator:
    """Write an operator's state from DataFrames: rows, schemas and metadata.

    If a task fails or rows are lost, no row is left in the target.

    Parameters
    ----------
    frames
        A DataFrame, for an operator with one state; a mapping by name (:func:`~.frames.find_table`)
        for one with several. Columns are ``key`` and ``value`` with the types that ``read_state``
        returns; others (``partition``) are ignored. States without a DataFrame are empty.
    source
        The template's checkpoint, for schemas and the ids of column families.
    template
        An operator of the same query, from :func:`~.checkpoints.read_checkpoint`.
    target
        Where ``state/<ordinal>`` is created.
    target_state
        Another number of partitions, backend, codec, ordinal or kind of file names; the template's
        by default. Nothing else can change.
    version
        The state version, the number of its batch + 1; the template's by default. A query whose
        newest committed batch is 0 starts with version 1.
    root
        The new checkpoint's location as Spark will name it (:func:`~.state_files.operator_files`).

    Raises
    ------
    NoSuchState, CannotMigrate
        No single state has a given name, the DataFrames do not match the states, a state that Spark
        reads with a given one is missing (:func:`companions`), or the target is impossible.
    StateFormatError
        A schema or snapshot of the template is damaged, missing or not supported.
    CannotEncode
        A key or a value is null, a list is empty, or a value does not fit its type or is null where
        none may be.
    LostRows
        The rows written differ from the rows given, for example when keys repeat.
    """
    states = _given(frames, template)
    spark = states[0][1].sparkSession
    job = plan_bootstrap(
        source, template, target, for_spark(target_state or TargetState(), spark.version), version
    )
    encoded = []
    for table, frame in states:
        _check_types(table, frame)
        encode = EncodeRows(job, table)
        encoded_rows = frame.select("key", "value").mapInArrow(_arrow(encode), PIECES)
        encoded.append(encoded_rows.rdd.map(_pair))
    context = encoded[0].context
    written = run_bootstrap(context, job, context.union(encoded))
    partitions = target_state.partitions if target_state and target_state.partitions else None
    pinned = partitions or int(template.pins.get(PIN_SHUFFLE_PARTITIONS, job.move.partitions))
    for path, content in operator_files(source, job.move, pinned, root):
        with target.create(path) as file:
            file.write(content)
    return written


def plan_bootstrap(
    source: StateSource,
    template: OperatorState,
    target: StateTarget,
    target_state: TargetState | None = None,
    version: int | None = None,
) -> Bootstrap:
    """Plan a bootstrap; parameters and errors are those of :func:`write_state`."""
    chosen = target_state or TargetState()
    if chosen.changes or chosen.formats:
        raise CannotMigrate(
            "state made from a DataFrame has the schemas and formats of its template"
        )
    if version is not None and version < 1:
        raise CannotMigrate(f"the first version of a state is 1, not {version}")
    move = plan_operator(source, template, chosen)
    for store in template.stores:
        for family in store.families:
            check_hashable(family.key)
    if version is not None and version != template.version:
        # The template's metadata may be newer than this version, so write it under another number.
        operator = replace(template, version=version, metadata_path=None)
        move = replace(move, operator=operator)
    return Bootstrap(move, target, f"_attempts-{uuid.uuid4()}")


def _given(
    frames: Any | Mapping[str, Any], template: OperatorState
) -> tuple[tuple[StateTable, Any], ...]:
    named = frames if isinstance(frames, Mapping) else {find_table(template).name: frames}
    pairs = [(find_table(template, name), frame) for name, frame in named.items()]
    names = [table.name for table, _ in pairs]
    if not names or len(set(names)) != len(names):
        raise CannotMigrate(
            f"give at least one state, and each only once: {', '.join(names) or 'none'}"
        )
    _check_companions(template, names)
    return tuple(pairs)


def _check_companions(template: OperatorState, names: Collection[str]) -> None:
    """Refuse states that were given without all their :func:`companions`."""
    for name in names:
        missing = companions(template, name) - set(names)
        if missing:
            raise CannotMigrate(
                f"the state {name!r} needs {', '.join(sorted(missing))}, which Spark reads with "
                "it: give all of them"
            )


def companions(operator: OperatorState, name: str) -> frozenset[str]:
    """Return the other states of an operator that must be given together with a state. Pure.

    Spark keeps counters, smallest times and indexes by time for lists, timers and states with a
    time to live (``$count_``, ``$min_``, ``$ttl_``, ``$rowCounter_``), and all four states of a
    join describe the same rows.
    """
    names = {table.name for table in state_tables(operator)}
    if names & set(JOIN_STORES) or any(other.endswith("-tsWithKey") for other in names):
        return frozenset(names - {name})
    kind, _, variable = name.partition("_")
    if not kind.startswith("$"):
        kind, variable = "", name
    if kind.endswith("Timers"):
        return frozenset(n for n in names if n.startswith(f"{kind}_")) - {name}
    beside = {n for n in names if n.startswith("$") and n.partition("_")[2] == variable}
    return frozenset({*beside, *({variable} & names)}) - {name}


def _check_types(table: StateTable, frame: Any) -> None:
    """Refuse frames with other names or types, as Spark assigns columns of structs by position."""
    target_state = spark_schema(table)
    for name in ("key", "value"):
        have = frame.schema[name].dataType.simpleString() if name in frame.columns else "nothing"
        need = target_state[name].dataType.simpleString()
        if have != need:
            raise CannotMigrate(
                f"the column {name!r} for the state {table.name!r} is {have}, and must be {need}"
            )


def _arrow(encode: EncodeRows) -> Any:
    schema = pa.schema([("number", pa.int32()), ("piece", pa.binary())])

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for number, piece in encode(batches):
            yield pa.RecordBatch.from_arrays(
                [pa.array([number], pa.int32()), pa.array([piece], pa.binary())], schema=schema
            )

    return run


def _pair(row: Any) -> tuple[int, bytes]:
    return row[0], bytes(row[1])


def run_bootstrap(context: Any, job: Bootstrap, pieces: Any) -> WrittenOperator:
    """Write the packed batches of :class:`EncodeRows`, and move the files into their final places.

    ``pieces`` is an RDD of the packed batches of all states. Raises LostRows if the rows written
    differ from the rows given, and the errors of its tasks.
    """
    context.setJobDescription("flinkish: write state")
    try:
        arranged = pieces.partitionBy(job.count + 1, _itself)
        results = computed(arranged.mapPartitionsWithIndex(_Writing(job)).collect)
        return _completed(job, results, "the rows are those of a DataFrame")
    finally:
        context.setJobDescription(None)
        job.target.remove(job.attempts)


def _completed(job: Bootstrap, results: list[Any], shuffle: str | None) -> WrittenOperator:
    """Check the ``results`` of the tasks, and move the files into their final places."""
    for result in results:
        if isinstance(result, PERMANENT):
            raise result
    written = [r for r in results if isinstance(r, WrittenStore)]
    _compare(job, [r for r in results if isinstance(r, ReadRows)], written)
    place(job.target, job.move, written)
    return written_operator(job.move, written, shuffle)


def write_rows(
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    source: StateSource,
    template: OperatorState,
    target: StateTarget,
    *,
    root: str | None = None,
    spark: str | None = None,
) -> WrittenOperator:
    """Write an operator's state in this process, some of it from plain rows; for small states.

    Parameters
    ----------
    rows
        The rows of each state that is replaced, by its name: ``key`` and ``value`` as JSON data
        (:func:`~.decoding.plain_rows`). The other states keep their rows.
    source, template, target, root
        As for :func:`write_state`; the version is the template's.
    spark
        The version of Spark that will read the state; the newest by default.

    Raises
    ------
    NoSuchState, CannotMigrate
        There is no such state, its rows do not fit its types, or its companions are missing.
    StateFormatError, CannotEncode, LostRows
        As for :func:`write_state`.
    """
    goal = TargetState() if spark is None else for_spark(TargetState(), spark)
    job = plan_bootstrap(source, template, target, goal)
    replaced: dict[str, Sequence[Mapping[str, Any]]] = {}
    for asked, each in rows.items():
        name = find_table(template, asked or None).name
        if name in replaced:
            raise CannotMigrate(f"the state {name!r} is given twice: give each state once")
        replaced[name] = each
    _check_companions(template, replaced)
    pieces: list[list[tuple[int, bytes]]] = [[] for _ in range(job.count + 1)]
    for table in state_tables(template):
        if table.name in replaced:
            batches = iter([arrow_rows(replaced[table.name], table.schema, table.name)])
        else:
            batches = read_table(source, table, range(template.partitions))
        for number, piece in EncodeRows(job, table)(batches):
            pieces[number].append((number, piece))
    write = _Writing(job)
    try:
        results = [result for i, part in enumerate(pieces) for result in write(i, part)]
        written = _completed(job, results, None)
    finally:
        target.remove(job.attempts)
    partitions = int(template.pins.get(PIN_SHUFFLE_PARTITIONS, job.move.partitions))
    for path, content in operator_files(source, job.move, partitions, root):
        with target.create(path) as file:
            file.write(content)
    return written


def _itself(number: int) -> int:
    return number


@dataclass(frozen=True)
class _Writing:
    """A task that writes the partition with a target number; the last number yields the reports."""

    job: Bootstrap

    def __call__(self, number: int, pieces: Iterable[tuple[int, bytes]]) -> Iterator[Any]:
        job = self.job
        if number == job.count:
            yield from (pickle.loads(report) for _, report in pieces)
            return
        store, partition = job.place(number)
        rows: Iterator[Rows] = (block for _, piece in pieces for block in unpack(piece))
        if job.move.backend != ROCKSDB:
            rows = _once(in_lists(rows), store)
        try:
            yield write_store(job.target, job.attempts, 0, job.move, store, partition, rows)
        except PERMANENT as error:  # a retry would fail again
            yield error


def _once(rows: Iterable[Rows], store: str) -> Iterator[Rows]:
    """Refuse keys that repeat in a column family.

    RocksDB keeps the last row of a key, so that digests differ; other files would keep all rows.
    The hashes take less memory than Spark will need for these rows.
    """
    seen: set[bytes] = set()
    for block in rows:
        hashes = [xxhash.xxh3_128_digest(key, block[0]) for key in block[1]]
        before = len(seen)
        seen.update(hashes)
        if len(seen) != before + len(hashes):
            raise LostRows(f"a key for the state {store!r} repeats, but may have only one row")
        yield block


def _compare(job: Bootstrap, read: list[ReadRows], written: list[WrittenStore]) -> None:
    for store in job.move.targets:
        before = sum_digests(r.digest for r in read if r.store == store)
        mine = [w for w in written if w.store == store]
        after = sum_digests(w.digest for w in mine)
        if sorted(w.partition for w in mine) != list(range(job.move.partitions)):
            raise LostRows(f"not all partitions of the state {store!r} were written")
        if before != after:
            raise LostRows(
                f"the state {store!r} has {after.rows:,} rows of {before.rows:,} given: "
                "keys repeat, or rows were lost"
            )
