"""Rewrite a checkpoint's state: the entry point for callers with a directory and a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flinkish.annotations import public_evolving
from flinkish.avro.container import COMPRESS
from flinkish.checkpoint.format.log_rewrites import with_pins, with_state_ids
from flinkish.checkpoint.format.logs import (
    StateIds,
    compacted_number,
    log_offset,
    parse_offsets,
    source_log_entries,
)
from flinkish.checkpoint.format.names import (
    CANONICAL,
    COMMITS,
    HDFS,
    METADATA,
    OFFSETS,
    ROCKSDB,
    SOURCES,
    numbers_among,
    parse_number,
)
from flinkish.checkpoint.format.pins import (
    PIN_CODEC,
    PIN_MERGE_OPERATOR,
    PIN_PROVIDER,
    PIN_SHUFFLE_PARTITIONS,
    PIN_STATE_PARTITIONS,
    PROVIDER_PACKAGE,
    PROVIDERS,
    backend_of,
)
from flinkish.engine.errors import CannotMigrate
from flinkish.engine.migration.migration_plan import OperatorMigration
from flinkish.engine.migration.migration_planner import TargetState, for_spark, plan_operator
from flinkish.engine.migration.pipeline import Progress, WrittenOperator, run_moves
from flinkish.engine.migration.state_files import operator_files
from flinkish.engine.stores.checkpoints import OperatorState, read_checkpoint
from flinkish.engine.stores.files import StateSource, StateTarget, read_bytes


@public_evolving
@dataclass(frozen=True)
class Rewritten:
    """The result of a rewrite.

    Attributes
    ----------
    operators
        The written operators, with their new ordinals.
    pins
        The settings that the offset log must now pin with other values than before.
    state_ids
        Unique ids for the commit log, by ordinal; None in checkpoint format 1.
    """

    operators: tuple[WrittenOperator, ...]
    pins: Mapping[str, str]
    state_ids: Mapping[int, StateIds] | None


def rewrite_state(
    context: Any,
    source: StateSource,
    target: StateTarget,
    operators: Sequence[OperatorState],
    target_state: TargetState,
    *,
    each: Mapping[int, TargetState] | None = None,
    root: str | None = None,
    progress: Progress | None = None,
) -> Rewritten:
    """Write new state of a query's operators: ``state/`` in the target, with all its files.

    ``operators`` are of one query. ``target_state`` applies to all of them; its ``ordinal``,
    ``changes`` and ``name`` come from ``each``, by the old ordinal. ``root`` is the new
    checkpoint's location as Spark will name it (see :func:`~.state_files.operator_files`).
    ``progress`` is called with the rows and bytes written so far.

    Raises CannotMigrate, before anything is written, if the target state is not possible;
    StateFormatError if the source is damaged; LostRows if the rows written differ from those read;
    and the other errors of :func:`~.pipeline.run_moves`.
    """
    target_state = for_spark(target_state, context.version)
    moves = plan_operators(source, operators, target_state, each)
    written = run_moves(context, source, target, moves, progress)
    pins = dict(operators[0].pins) if operators else {}
    changed = target_pins(target_state, pins)
    partitions = int({**pins, **changed}.get(PIN_SHUFFLE_PARTITIONS, "200"))
    for move in moves:
        for path, content in operator_files(source, move, partitions, root):
            with target.create(path) as file:
                file.write(content)
    return Rewritten(written, changed, _state_ids(moves, written))


def plan_operators(
    source: StateSource,
    operators: Sequence[OperatorState],
    target_state: TargetState,
    each: Mapping[int, TargetState] | None = None,
) -> list[OperatorMigration]:
    """Plan what :func:`rewrite_state` does with the same parameters. Needs no Spark.

    Raises CannotMigrate if the target state is not possible, StateFormatError for a damaged source.
    """
    alone = each or {}
    moves = [
        _plan(source, operator, target_state, alone.get(operator.ordinal)) for operator in operators
    ]
    unknown = sorted(alone.keys() - {operator.ordinal for operator in operators})
    if unknown:
        raise CannotMigrate(f"there is no operator {unknown[0]}, for which settings are given")
    ordinals = [move.ordinal for move in moves]
    if len(set(ordinals)) != len(ordinals):
        raise CannotMigrate(f"two operators cannot have one ordinal: {sorted(ordinals)}")
    return moves


def _plan(
    source: StateSource,
    operator: OperatorState,
    target_state: TargetState,
    alone: TargetState | None,
) -> OperatorMigration:
    own = alone or TargetState()
    if own != TargetState(ordinal=own.ordinal, changes=own.changes, name=own.name):
        raise CannotMigrate(
            f"the operator {operator.ordinal} can have an ordinal, changes and a name of its own: "
            "give the other settings for all operators"
        )
    both = replace(target_state, ordinal=own.ordinal, changes=own.changes, name=own.name)
    return plan_operator(source, operator, both)


def _state_ids(
    moves: Sequence[OperatorMigration], written: Sequence[WrittenOperator]
) -> dict[int, StateIds] | None:
    if not any(move.unique_ids for move in moves):
        return None
    return {w.ordinal: w.unique_ids for w in written if w.unique_ids is not None}


def rewrite_checkpoint(
    context: Any,
    source: StateSource,
    target: StateTarget,
    target_state: TargetState,
    *,
    batch: int | None = None,
    each: Mapping[int, TargetState] | None = None,
    root: str | None = None,
    progress: Progress | None = None,
) -> Rewritten:
    """Write a new checkpoint with rewritten state and copied logs; the source stays unchanged.

    The new checkpoint continues after the same batch. Parameters and errors are those of
    :func:`rewrite_state`; ``batch`` is a committed batch, the newest by default. Also raises
    CannotMigrate if the log of a source no longer has the entries that the batch needs, and the
    errors of :func:`~.checkpoints.read_checkpoint`.
    """
    checkpoint = read_checkpoint(source, batch)
    entries: dict[str, bytes] = {}
    # Spark needs the entry of the batch before, and runs a planned next batch with the same data.
    wanted = range(checkpoint.batch - 1, checkpoint.batch + 2)
    for number in (n for n in numbers_among(source.names(OFFSETS)) if n in wanted):
        name = f"{OFFSETS}/{number}"
        entries[name] = read_bytes(source, name)
    newest = parse_offsets(entries[name], name)
    positions = dict(zip(newest.sources, map(log_offset, newest.offsets), strict=True))
    logs = {log: source.names(f"{SOURCES}/{log}") for log in source.names(SOURCES)}
    copied: list[str] = []
    for log, names in logs.items():
        position = positions.get(log)
        _check_log(log, names, position)
        kept = (name for name in names if not _is_later(name, position))
        copied += _visible_files(source, f"{SOURCES}/{log}", kept)
    result = rewrite_state(
        context,
        source,
        target,
        checkpoint.operators,
        target_state,
        each=each,
        root=root,
        progress=progress,
    )
    for name, entry in entries.items():
        _write(target, name, with_pins(entry, name, pins=result.pins))
    name = f"{COMMITS}/{checkpoint.batch}"
    _write(target, name, with_state_ids(read_bytes(source, name), name, ids=result.state_ids))
    for path in copied:
        _write(target, path, read_bytes(source, path))
    _write(target, METADATA, read_bytes(source, METADATA))
    return result


def _check_log(log: str, names: Sequence[str], position: int | None) -> None:
    """Refuse a position if Spark has compacted its entries into a later entry and removed them.

    Without them, Spark would consider the files that they list new, and read those files again.
    """
    if position is None or not source_log_entries(names, position)[1]:
        return
    if any((compacted_number(name) or 0) > position for name in names):
        raise CannotMigrate(
            f"the log of source {log} no longer has all its entries up to {position}, since Spark "
            "has compacted them into a later entry: choose a newer batch"
        )


def _is_later(file: str, position: int | None) -> bool:
    """Return whether an entry of a file source's log is later than a position.

    Spark would skip the files that such an entry lists.
    """
    number = compacted_number(file)
    number = parse_number(file) if number is None else number
    return position is not None and number is not None and number > position


def _visible_files(source: StateSource, directory: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the paths of files of a directory, also below its subdirectories (as Iceberg has)."""
    for name in names:
        if not name.startswith("."):
            path = f"{directory}/{name}"
            below = source.names(path)
            if below:
                yield from _visible_files(source, path, below)
            else:
                yield path


def _write(target: StateTarget, path: str, content: bytes) -> None:
    with target.create(path) as file:
        file.write(content)


def target_pins(target_state: TargetState, pins: Mapping[str, str]) -> dict[str, str]:
    """Return the pins that change for a target state of all operators of a query. Pure.

    Pins override the session's settings at a restart (``OffsetSeqMetadata``), so they must describe
    the new state. Canonical state changes neither backend nor codec: the pins keep the old ones.

    ``pins`` are those of the old state.
    """
    new_pins = dict(target_state.formats)
    if target_state.partitions is not None:
        new_pins[PIN_SHUFFLE_PARTITIONS] = str(target_state.partitions)
        if PIN_STATE_PARTITIONS in pins:
            new_pins[PIN_STATE_PARTITIONS] = str(target_state.partitions)
    if target_state.backend is not None and target_state.backend != CANONICAL:
        backend = HDFS if target_state.backend == HDFS else ROCKSDB
        if backend_of(pins) != backend:
            new_pins[PIN_PROVIDER] = PROVIDER_PACKAGE + PROVIDERS[backend]
    if (
        target_state.spark is not None
        and target_state.spark < (4, 2)
        and pins.get(PIN_MERGE_OPERATOR) == "2"
    ):
        new_pins[PIN_MERGE_OPERATOR] = "1"  # the only version before Spark 4.2
    if target_state.compression is not None and target_state.compression not in COMPRESS:
        new_pins[PIN_CODEC] = target_state.compression
    return {key: value for key, value in new_pins.items() if pins.get(key) != value}
