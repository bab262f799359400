"""State as data: a driver that runs no program, but selects or exports a savepoint's state rows.

``flinkish state`` requests it (:class:`~flinkish.messages.calls.StateTask`); state is only read.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkish import storage
from flinkish.driver.connectors.table import first_line
from flinkish.driver.tasks.answering import answer
from flinkish.errors import LaunchFailed, UsageError
from flinkish.messages.calls import StateAnswer, StateTask
from flinkish.state.shipping import ship_package

if TYPE_CHECKING:
    from flinkish.savepoint.state.state_rows import SavedState

_SUCCESS = "_SUCCESS"


def main(task: StateTask, options: Mapping[str, str], call_path: str) -> int:
    """Run the driver in this mode and return its exit status.

    Writes a :class:`~flinkish.messages.calls.StateAnswer`.
    """
    return answer(call_path, options, lambda: run(_session(), task))


def _session() -> Any:
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def run(session: Any, task: StateTask) -> StateAnswer:
    """Select or export the rows of a state, as the task says.

    Raises SavepointNotFound if there is no savepoint; UsageError if there is no such state, Spark
    refuses the condition, or the target exists; Corrupt or UnsupportedFormat if the state cannot be
    read; StorageError if the target cannot be written; LaunchFailed if this interpreter lacks
    packages that reading state needs; FlinkishError if Spark's job fails for another reason.
    """
    from flinkish.savepoint.format.reader import open_savepoint

    try:
        from flinkish.driver.migration.query_migration import engine_work
        from flinkish.savepoint.state.state_rows import open_state
    except ImportError as error:
        raise LaunchFailed(
            f"the driver's Python cannot import {error.name}, which reading state needs",
            hint="install flinkish there with its extra: pip install 'flinkish[engine]'",
        ) from error
    state = open_state(open_savepoint(task.path), task.name, raw=task.raw)
    ship_package(session.sparkContext)
    if task.target is None:
        with engine_work(state.query.name, "state could not be read"):
            return _select(session, state, task)
    with engine_work(state.query.name, "state could not be exported"):
        return StateAnswer(exported=_export(session, state, task, task.target))


def _frame(session: Any, state: SavedState, task: StateTask) -> Any:
    from flinkish.engine.tables.spark_frames import read_table_on

    partition = task.partition
    frame = read_table_on(
        session, state.source, state.table, None if partition is None else (partition,)
    )
    if task.where is None:
        return frame
    from pyspark.errors import AnalysisException, ParseException

    try:
        return frame.where(task.where)
    except (AnalysisException, ParseException) as error:
        raise _refused(task.where, frame, error) from error


@contextmanager
def _applied(where: str | None, frame: Any) -> Iterator[None]:
    """Convert the errors of a condition that fails for a row, such as a cast in ANSI mode."""
    from pyspark.errors import AnalysisException, PySparkException, PythonException

    try:
        yield
    except (AnalysisException, PythonException):  # raised for the target, or in flinkish's tasks
        raise
    except PySparkException as error:
        if where is None:
            raise
        raise _refused(where, frame, error) from error


def _refused(where: str, frame: Any, error: Exception) -> UsageError:
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema)
    return UsageError(
        f"Spark refuses the condition {where!r}: {first_line(error)}",
        hint=f"the columns for --where are: {columns}",
    )


def _select(session: Any, state: SavedState, task: StateTask) -> StateAnswer:
    from flinkish.engine.tables.spark_frames import json_rows

    limit = task.limit
    frame = _frame(session, state, task)
    with _applied(task.where, frame):
        rows = json_rows(frame.limit(limit + 1))
    return StateAnswer(tuple(rows[:limit]), len(rows) > limit)


def _export(session: Any, state: SavedState, task: StateTask, target: str) -> int:
    if task.format == "avro":
        _take(target)
        return _export_avro(session.sparkContext, state, target)
    from pyspark.sql import Observation, functions

    from flinkish.engine.tables.spark_frames import computed

    frame = _frame(session, state, task)
    _take(target)
    # Spark writes structs without fields, such as the key of an aggregate without keys, neither to
    # parquet nor to json.
    empty = [f.name for f in frame.schema if not getattr(f.dataType, "fields", True)]
    seen = Observation("exported")
    counted = frame.drop(*empty).observe(seen, functions.count(functions.lit(1)).alias("rows"))
    # In the mode ``error`` Spark refuses a directory that exists. It cleans up after a failed job.
    mode = "append" if storage.is_local(target) else "error"
    writer = counted.write.mode(mode).format(task.format)
    try:
        with _applied(task.where, frame):
            computed(lambda: writer.save(storage.for_spark(target)))
    except BaseException:
        _give_back(target)
        raise
    return int(seen.get["rows"])


def _take(target: str) -> None:
    """Fail if the target exists, as another export may write to it; if it is local, create it."""
    if storage.exists(target):
        raise UsageError(f"the target already exists: {target}", hint="name a new directory")
    if storage.is_local(target):
        storage.make_directory(storage.split(target)[0])
        storage.make_new_directory(target)


def _give_back(target: str) -> None:
    """Remove the target of a failed export if it is certain that no other export writes to it."""
    if storage.is_local(target):
        storage.remove_tree(*storage.split(target))


def _export_avro(context: Any, state: SavedState, target: str) -> int:
    """Write an Avro file per partition, in place once all exist; return the number of rows."""
    from flinkish.engine.errors import PERMANENT
    from flinkish.storage.directory import StorageDirectory

    directory = StorageDirectory(target)
    attempts = f"_temporary-{uuid.uuid4()}"
    partitions = state.table.operator.partitions
    tasks = context.parallelize(range(partitions), partitions)
    try:
        results = tasks.mapPartitions(
            _WriteAvro(state.source, state.table, directory, attempts)
        ).collect()
        for result in results:
            if isinstance(result, PERMANENT):
                raise result
        for partition, path, _ in results:
            directory.move(path, f"part-{partition:05}.avro")
        directory.remove(attempts)
        with directory.create(_SUCCESS):
            pass
    except BaseException:
        directory.remove(attempts)
        _give_back(target)
        raise
    return sum(rows for _, _, rows in results)


@dataclass(frozen=True)
class _WriteAvro:
    """A task that writes partitions of a state as Avro files; each attempt writes new files."""

    source: Any
    table: Any
    target: Any
    attempts: str

    def __call__(self, partitions: Iterable[int]) -> Iterator[Any]:
        from flinkish.engine.errors import PERMANENT
        from flinkish.engine.tables.frames import write_table

        for partition in partitions:
            path = f"{self.attempts}/{uuid.uuid4()}.avro"
            try:
                with self.target.create(path) as file:
                    rows = write_table(file, self.source, self.table, partition)
            except PERMANENT as error:
                yield error
            else:
                yield partition, path, rows
