"""State as a DataFrame of Spark 3.5 or 4: one task for each partition, in blocks of Arrow.

Spark's own reader of state (``StateDataSource``) exists only from 4.0 on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa

from flinkish.engine.errors import (
    CannotMigrate,
    EngineError,
    LostRows,
    MissingStateFile,
    StateFormatError,
    UnsupportedState,
)
from flinkish.engine.migration.evolution_steps import CannotEvolve
from flinkish.engine.rows.row_bytes import CannotEncode
from flinkish.engine.rows.types import (
    Array,
    DataType,
    Field,
    Fixed,
    Map,
    Struct,
    arrow_type,
    parse_type,
    type_json,
)
from flinkish.engine.stores.checkpoints import OperatorState
from flinkish.engine.stores.files import StateSource
from flinkish.engine.tables.decoding import plain_rows
from flinkish.engine.tables.frames import StateTable, find_table, read_table
from flinkish.errors import StorageError

_T = TypeVar("_T")
_TIME: Final = parse_type("time")
_LONG: Final = parse_type("long")
#: The last line of a Python traceback in the text of Spark's error: class and message.
_RAISED: Final = re.compile(
    r"^flinkish\.(?:(?:engine|checkpoint\.format)\.(?:\w+\.)+(\w+)|errors\.(StorageError)): (.*)$",
    re.MULTILINE,
)
_PLACE: Final = re.compile(r"(?:(.*?)(?: at byte (\d+))?: )?(.*)")
_CLASSES: Final = {c.__name__: c for c in (StateFormatError, MissingStateFile, UnsupportedState)}
#: Errors that have a message only.
_REFUSALS: Final[dict[str, type[EngineError | StorageError]]] = {
    c.__name__: c for c in (CannotEncode, CannotEvolve, CannotMigrate, LostRows, StorageError)
}


def read_state(
    session: Any,
    source: StateSource,
    operator: OperatorState,
    store: str | None = None,
    family: str | None = None,
) -> Any:
    """Return a state of an operator as a DataFrame with columns ``partition``, ``key``, ``value``.

    Parameters
    ----------
    session
        A ``SparkSession`` of 3.5 or 4, with the packages that Spark's Arrow functions need (pandas
        and pyarrow); its workers must be able to import the engine.
    source
        The checkpoint's directory.
    operator
        The operator, from :func:`~.checkpoints.read_checkpoint`.
    store, family
        Names of the state (:func:`~.frames.find_table`).

    Returns
    -------
    DataFrame
        Rows are read when it is computed, each partition by one task. Types are those of the state
        schema except for those listed in :mod:`~.decoding`, and a time is a long of nanoseconds
        where Spark has no time type. Errors of the computation (StateFormatError and others) are
        inside Spark's own error (:func:`computed`).

    Raises
    ------
    NoSuchState, StateFormatError
        There is no such state, several states match, or the operator's metadata is damaged.
    """
    return read_table_on(session, source, find_table(operator, store, family))


def read_table_on(
    session: Any, source: StateSource, table: StateTable, partitions: Sequence[int] | None = None
) -> Any:
    """Return a state, or some of its partitions, as a DataFrame; see :func:`read_state`."""
    goal = pa.schema(
        [
            pa.field("partition", pa.int32()),
            *(pa.field(name, arrow_type(spark_type)) for name, spark_type in session_types(table)),
        ]
    )
    chosen = tuple(range(table.operator.partitions) if partitions is None else partitions)

    def read(numbers: Iterator[Any]) -> Iterator[Any]:
        for batch in numbers:
            mine = [chosen[number] for number in batch.column(0).to_pylist()]
            for record_batch in read_table(source, table, mine):
                yield _cast(record_batch, goal)

    tasks = session.range(0, len(chosen), 1, max(len(chosen), 1))
    return tasks.mapInArrow(read, spark_schema(table))


def session_types(table: StateTable) -> tuple[tuple[str, DataType], ...]:
    """Return the types of ``key`` and ``value`` in this process's Spark."""
    return tuple((name, _known(t)) for name, t in (("key", table.key), ("value", table.value)))


def spark_schema(table: StateTable) -> Any:
    """Return the ``StructType`` of a state's DataFrame."""
    from pyspark.sql.types import StructType

    fields = [{"name": "partition", "type": "integer", "nullable": True, "metadata": {}}]
    fields += [
        {"name": name, "type": type_json(data_type), "nullable": True, "metadata": {}}
        for name, data_type in session_types(table)
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})


def _known(data_type: DataType) -> DataType:
    """Return a type, with longs in place of times if Spark has no time type."""
    import pyspark.sql.types

    if hasattr(pyspark.sql.types, "TimeType"):
        return data_type
    return _without_times(data_type)


def _without_times(data_type: DataType) -> DataType:
    if isinstance(data_type, Fixed):
        return _LONG if data_type == _TIME else data_type
    if isinstance(data_type, Struct):
        return Struct(tuple(Field(f.name, _without_times(f.type)) for f in data_type.fields))
    if isinstance(data_type, Array):
        return Array(_without_times(data_type.element))
    if isinstance(data_type, Map):
        return Map(_without_times(data_type.key), _without_times(data_type.value))
    return data_type


def _cast(batch: Any, schema: Any) -> Any:
    """Cast a batch to a schema that differs only in times and longs."""
    if batch.schema == schema:
        return batch
    columns = [c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def error_in(error: BaseException) -> EngineError | StateFormatError | StorageError | None:
    """Return the engine's error that made a task fail, from Spark's error; None for other causes.

    Spark keeps only the text of an error that comes from Python (``PythonException``).
    """
    errors = _RAISED.findall(str(error))
    if not errors:
        return None
    engine_class, storage_class, message = errors[-1]
    name = engine_class or storage_class
    place = _PLACE.fullmatch(message)
    if name in _CLASSES and place is not None:
        offset = int(place[2]) if place[2] else None
        return _CLASSES[name](place[1] or "", offset, place[3])
    return _REFUSALS.get(name, EngineError)(message)


def computed(action: Callable[[], _T]) -> _T:
    """Return the result of an action on a DataFrame of state; unwrap the engine's errors."""
    try:
        return action()
    except Exception as error:
        cause = error_in(error)
        if cause is None:
            raise
        raise cause from error


def json_rows(frame: Any) -> list[dict[str, Any]]:
    """Return all rows of a DataFrame as plain JSON data (:mod:`~.decoding`).

    Timestamps are in UTC if the session's time zone is UTC. Errors are those of :func:`computed`.
    """

    def texts(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = [json.dumps(row) for row in plain_rows(batch)]
            yield pa.RecordBatch.from_arrays([pa.array(rows, pa.string())], names=["row"])

    texts_of_rows = computed(frame.mapInArrow(texts, "row string").collect)
    return [json.loads(row[0]) for row in texts_of_rows]
