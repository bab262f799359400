"""The offset and commit logs of a checkpoint that combines queries or changes sources. Pure.

The base is the query whose logs continue. Its planned batch (in the offset log, not committed) is
kept if any source continues from its position in the base. Spark replays exactly the range of that
batch, so that idempotent sinks stay exactly-once. Sources of other queries, and new ones, have
nothing to read in that batch. Planned batches of other queries are dropped, so the sources of a
query continue from its committed batch. The watermark is that of all queries together
(:func:`watermarks`); there is none if no state and no position is kept, because all input is then
read as in a new query.

A source of the base that ``--reset-source`` names is treated as a new one: it has no part in the
planned batch, which the other sources replay unchanged. Sources that ``--set-offsets`` moves have
no part in the planned batch either: they are at their new position before and after that batch. If
every source is reset or moved, nothing of the planned batch is left, and it is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flinkish.checkpoint.format.log_rewrites import LogLine, with_lines
from flinkish.checkpoint.format.logs import NO_OFFSET, OffsetEntry
from flinkish.checkpoint.format.names import OFFSETS
from flinkish.checkpoint.format.pins import PIN_WATERMARK_POLICY
from flinkish.errors import Corrupt, Incompatible
from flinkish.restore.materialize.origin_checkpoints import OriginLogs
from flinkish.restore.recipe import Recipe, TakenSource


@dataclass(frozen=True)
class NewLogs:
    """The contents of the new logs, and the positions that follow from them.

    Attributes
    ----------
    offsets
        The offset log's entry for the committed batch, and for the batch before (as after a batch
        without data).
    planned
        The entry for the batch after the committed one, if that is planned.
    positions
        The position up to which the files of a source are taken, by its new directory.
    watermark_ms
        The watermark of the next batch, in milliseconds.
    """

    offsets: bytes
    planned: bytes | None
    positions: Mapping[str, str]
    watermark_ms: int


def watermarks(recipe: Recipe, logs: Mapping[int, OriginLogs]) -> tuple[int, int]:
    """Return the watermarks (ms) of the committed batch and of the next one; 0 means none yet.

    The policy pinned in the base combines the watermarks of all givers
    (:attr:`~flinkish.restore.recipe.Recipe.watermark_givers`). A giver without a watermark (its
    next one is 0) does not count. With the policy ``min``, the queries that are ahead of the
    slowest get an earlier watermark: they accept rows that they would have dropped as late, and
    lose none.
    """
    policy = logs[recipe.base].offsets.pins.get(PIN_WATERMARK_POLICY)
    givers = [logs[i] for i in recipe.watermark_givers]
    with_watermark = [log for log in givers if log.commit.next_watermark_ms > 0]
    return (
        combined_watermark([log.offsets.watermark_ms for log in with_watermark], policy),
        combined_watermark([log.commit.next_watermark_ms for log in with_watermark], policy),
    )


def combined_watermark(watermarks: Sequence[int], policy: str | None) -> int:
    """Compute the watermark of a query made of several, like Spark's ``MultipleWatermarkPolicy``.

    Watermarks are in milliseconds since the epoch; 0 without any part. ``policy`` is the pinned
    ``spark.sql.streaming.multipleWatermarkPolicy``: the slowest part counts (``min``, also if it is
    not pinned), or the fastest (``max``).
    """
    pick = max if (policy or "").lower() == "max" else min
    return pick(watermarks, default=0)


def needs_new_logs(recipe: Recipe, logs: Mapping[int, OriginLogs]) -> bool:
    """Return whether anything but ids of state files differs from the logs of the base."""
    base = logs[recipe.base]
    old = base.offsets.watermark_ms, base.commit.next_watermark_ms
    return (
        recipe.sources is not None
        or recipe.batch_id != base.origin.batch_id
        or watermarks(recipe, logs) != old
    )


def new_logs(recipe: Recipe, logs: Mapping[int, OriginLogs]) -> NewLogs:
    """Return the logs of the new checkpoint.

    ``logs`` are those of the base and of all origins that give something, by the index of the
    origin. Raises Incompatible if a log has another version than the base's, or if a source would
    get another number in a log of version 2, and Corrupt if a log of version 1 lacks a source's
    line.
    """
    base = logs[recipe.base]
    watermark, following = watermarks(recipe, logs)
    if recipe.sources is None:
        committed = _own_lines(base.offsets)
        planned = _own_lines(base.planned) if base.planned else None
        positions: dict[str, str] = {}
    else:
        committed = _lines(recipe, recipe.sources, logs, planned=False)
        planned = None
        if recipe.keeps_planned and base.planned is not None:
            planned = _lines(recipe, recipe.sources, logs, planned=True)
        positions = _positions(recipe.sources, planned or committed)
        # A source without new data when the batch was planned may have no position in its entry.
        for directory, offset in _positions(recipe.sources, committed).items():
            if positions[directory] == NO_OFFSET:
                positions[directory] = offset
    planned_bytes = None
    if base.planned is not None and planned is not None:
        alone = recipe.watermark_givers == [recipe.base]
        planned_watermark = base.planned.watermark_ms if alone else following
        planned_bytes = _written(base, base.origin.batch_id + 1, planned_watermark, planned)
    return NewLogs(
        offsets=_written(base, base.origin.batch_id, watermark, committed),
        planned=planned_bytes,
        positions=positions,
        watermark_ms=following,
    )


def _written(base: OriginLogs, batch: int, watermark_ms: int, lines: Sequence[LogLine]) -> bytes:
    data = base.offsets_bytes if batch == base.origin.batch_id else base.planned_bytes
    return with_lines(data, f"{OFFSETS}/{batch}", watermark_ms=watermark_ms, lines=lines)


def _own_lines(entry: OffsetEntry) -> list[LogLine]:
    return [LogLine(n, o) for n, o in zip(entry.sources, entry.offsets, strict=True)]


def _lines(
    recipe: Recipe,
    sources: Sequence[object],
    logs: Mapping[int, OriginLogs],
    *,
    planned: bool,
) -> list[LogLine]:
    """Return a line for each source; ``planned`` takes the base's lines from its planned batch."""
    base = logs[recipe.base]
    lines: list[LogLine] = []
    for place, source in enumerate(sources):
        if not isinstance(source, TakenSource):
            lines.append(LogLine(str(place), NO_OFFSET))
            continue
        origin = logs[source.origin]
        entry = base.planned if planned and source.origin == recipe.base else origin.offsets
        assert entry is not None  # the caller requests planned lines only when there are some
        if entry.version != base.offsets.version:
            raise _refusal(
                f"{origin.describe()} has an offset log of version {entry.version}, "
                f"{base.describe()} one of version {base.offsets.version}"
            )
        if entry.version == 1:
            line = LogLine(str(place), _offset_at(entry, source, origin))
        else:
            line = _named_line(entry, source, place)
        lines.append(line if source.offset is None else replace(line, offset=source.offset))
    return lines


def _offset_at(entry: OffsetEntry, source: TakenSource, origin: OriginLogs) -> str:
    if not 0 <= source.entry < len(entry.offsets):
        raise Corrupt(
            f"the offset log of {origin.describe()} has {len(entry.offsets)} sources, but "
            f"no source {source.entry}",
            path=origin.origin.root,
        )
    return entry.offsets[source.entry]


def _named_line(entry: OffsetEntry, source: TakenSource, place: int) -> LogLine:
    """Return a line of version 2 (Spark 4.2 on).

    In this version a source has a name, which may change (``--uid-map``), or else its number among
    the sources. A DataFrame used twice has several numbers, of which Spark writes only the last.
    """
    named = source.directory in entry.sources and not source.directory.isdigit()
    name = source.directory if named else str(source.entry)
    new = source.target if named else str(place)
    if new.isdigit() if named else new != name:
        raise _refusal(f"source '{name}' of an offset log of version 2 would become '{new}'")
    offsets = dict(zip(entry.sources, entry.offsets, strict=True))
    return LogLine(new, offsets.get(name, NO_OFFSET))


def _refusal(why: str) -> Incompatible:
    return Incompatible(
        f"the sources' positions cannot be carried over: {why}",
        hint="keep the sources as they are, or start the queries from scratch with "
        "spark.sql.streaming.offsetLog.formatVersion=1",
        reasons=["offset-log"],
    )


def _positions(sources: Sequence[object], lines: Sequence[LogLine]) -> dict[str, str]:
    """Return the positions by new directory.

    If a source has several lines, the line that has a position counts.
    """
    offsets: dict[str, str] = {}
    for source, line in zip(sources, lines, strict=True):
        if isinstance(source, TakenSource):
            offset = offsets.get(source.target, NO_OFFSET)
            offsets[source.target] = line.offset if offset == NO_OFFSET else offset
    return offsets
