"""Lookup in a table: the verdict for two versions, and for a savepoint to resume. Pure.

A saved query is looked up by what it uses: operators, backends and formats. The offset log pins the
formats of operators' state. A setting that is not pinned has the value that Spark assumes for a log
without it, not today's default (:func:`~flinkish.checkpoint.format.pins.pinned`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flinkish.checkpoint.format.names import ROCKSDB
from flinkish.checkpoint.format.pins import (
    PIN_AGGREGATION_FORMAT,
    PIN_CHANGELOG,
    PIN_ENCODING,
    PIN_GROUP_FORMAT,
    PIN_JOIN_FORMAT,
    PIN_ROW_CHECKSUM,
    pinned,
)
from flinkish.compat.model import (
    NO_BACKEND,
    STATELESS,
    Cell,
    CompatVerdict,
    Limitation,
    Matrix,
    Precondition,
    Version,
)

#: The backend of a state store provider that is not Spark's; no cell has this backend.
OTHER_BACKEND = "other"

#: Operator -> the pin of its format version, and the format's name. The default version is 2.
_VERSIONED = {
    "symmetricHashJoin": (PIN_JOIN_FORMAT, "join"),
    "stateStoreSave": (PIN_AGGREGATION_FORMAT, "aggregation"),
    "applyInPandasWithState": (PIN_GROUP_FORMAT, "pandas-state"),
}
_DEFAULT_VERSION = "2"
_AVRO_OPERATORS = "transformWithState"  # the common prefix of their names


def uses_of(
    pins: Mapping[str, str],
    *,
    backend: str | None,
    kinds: Sequence[str | None],
    checkpoint_format: int = 1,
    offset_log_version: int = 1,
    changelog: bool | None = None,
) -> tuple[Use, ...]:
    """Return what one saved query uses, each use once.

    ``pins`` is the configuration in its offset log. ``backend`` is ``hdfs``, ``rocksdb``, or None
    for a foreign state store provider. ``kinds`` has Spark's name for each stateful operator, None
    if the checkpoint lacks the name. ``checkpoint_format`` (``stateStore.checkpointFormatVersion``)
    is not pinned; it is 2 if the commit log has unique ids of state files. ``changelog`` says
    whether RocksDB wrote changelogs, as the files show; None means the pinned setting.
    """
    query = {"offset-log-v2"} if offset_log_version >= 2 else set()
    if not kinds:
        return (Use(STATELESS, NO_BACKEND, frozenset(query)),)
    if changelog is None:
        changelog = _true(pins, PIN_CHANGELOG)
    common = set(query)
    if backend == ROCKSDB and changelog:
        common.add("changelog")
    if backend == ROCKSDB and checkpoint_format >= 2:
        common.add("checkpoint-v2")
    if _true(pins, PIN_ROW_CHECKSUM):
        common.add("row-checksum")
    uses = [
        Use(
            kind or UNKNOWN_OPERATOR,
            backend or OTHER_BACKEND,
            frozenset(common | _formats_of(kind, pins)),
        )
        for kind in kinds
    ]
    return tuple(dict.fromkeys(uses))


def _formats_of(kind: str | None, pins: Mapping[str, str]) -> set[str]:
    """Return the formats that only this kind of operator has."""
    if kind is None:
        return set()
    if kind.startswith(_AVRO_OPERATORS):
        return {"avro"} if pinned(pins, PIN_ENCODING).lower() == "avro" else set()
    if kind not in _VERSIONED:
        return set()
    pin, name = _VERSIONED[kind]
    version = pinned(pins, pin)
    return set() if version == _DEFAULT_VERSION else {f"{name}-v{version}"}


def _true(pins: Mapping[str, str], key: str) -> bool:
    return pins.get(key, "").lower() == "true"


#: The kind of an operator whose kind is not recorded (Spark 3.5 writes no operator metadata).
UNKNOWN_OPERATOR = "unknown"
#: Formats of a whole query; the cell of one operator and backend holds for every other.
QUERY_FORMATS = frozenset({"offset-log-v2"})

_GOOD = (CompatVerdict.OK, CompatVerdict.OK_WITH_LIMITATIONS)


@dataclass(frozen=True)
class Use:
    """One operator of a saved query, its backend, and its formats that are not the default."""

    operator: str
    backend: str
    formats: frozenset[str] = frozenset()

    def __str__(self) -> str:
        where = "" if self.operator == STATELESS else f" on {self.backend}"
        formats = f" with {', '.join(sorted(self.formats))}" if self.formats else ""
        return f"{self.operator}{where}{formats}"


@dataclass(frozen=True)
class VersionComparison:
    """The table's verdict for a pair of versions, with its limitations and cells."""

    framework: str
    created: Version
    resumed: Version
    verdict: CompatVerdict
    limitations: tuple[Limitation, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class UseVerdict:
    """The verdict for one use.

    Attributes
    ----------
    unmeasured
        Formats without a cell; ``default`` stands for the default formats.
    """

    use: Use
    verdict: CompatVerdict
    limitations: tuple[Limitation, ...]
    cells: tuple[Cell, ...]
    unmeasured: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """The verdict for a savepoint: the worst of its uses."""

    framework: str
    created: Version
    resumed: Version
    verdict: CompatVerdict
    limitations: tuple[Limitation, ...]
    uses: tuple[UseVerdict, ...]
    preconditions: tuple[Precondition, ...] = ()


def worst(verdicts: Iterable[CompatVerdict]) -> CompatVerdict:
    """Return the worst of some verdicts; ``ok`` if there are none."""
    return max(verdicts, key=lambda verdict: verdict.badness, default=CompatVerdict.OK)


def compare_versions(matrix: Matrix, created: Version, resumed: Version) -> VersionComparison:
    """Compare two versions: savepoints of ``created`` resumed with ``resumed``.

    The verdict is that of savepoints in default formats. It is ``ok-with-limitations`` where only
    some operators can be resumed, or where only formats that are not the default have a worse
    verdict; the cells say which. A pair without cells in default formats is ``ok`` within one line,
    else ``unknown``.
    """
    cells = _cells(matrix, created, resumed)
    plain = [cell.verdict for cell in cells if not cell.formats]
    if plain:
        verdict = worst(plain)
        if verdict not in _GOOD and any(one in _GOOD for one in plain):
            verdict = CompatVerdict.OK_WITH_LIMITATIONS
    else:
        verdict = CompatVerdict.OK if created.line == resumed.line else CompatVerdict.UNKNOWN
    special = worst(
        cell.verdict for cell in cells if cell.formats and cell.verdict is not CompatVerdict.UNKNOWN
    )
    if verdict is CompatVerdict.OK and special is not CompatVerdict.OK:
        verdict = CompatVerdict.OK_WITH_LIMITATIONS
    limitations = _limitations(matrix, cells)
    return VersionComparison(matrix.framework, created, resumed, verdict, limitations, cells)


def judge(matrix: Matrix, created: Version, resumed: Version, uses: Sequence[Use]) -> Judgement:
    """Return the verdict for resuming, with one version, a savepoint that another created.

    ``uses`` is what the savepoint contains, see :func:`uses_of`.
    """
    cells = _cells(matrix, created, resumed)
    same_line = created.line == resumed.line
    judged = tuple(_judge(matrix, cells, use, same_line=same_line) for use in uses)
    used = [cell for one in judged for cell in one.cells]
    return Judgement(
        framework=matrix.framework,
        created=created,
        resumed=resumed,
        verdict=worst(one.verdict for one in judged),
        limitations=_limitations(matrix, used),
        uses=judged,
        preconditions=matrix.preconditions,
    )


def route(matrix: Matrix, created: Version, resumed: Version) -> tuple[str, ...]:
    """Return the shortest upgrade path as version lines: ``("1.1", "1.3", "1.8")``.

    The table allows each of its steps, with or without limitations. The result is empty if there is
    no path; downgrades are not considered.
    """
    lines = matrix.lines
    if created.line not in lines or resumed.line not in lines:
        return ()
    start, end = lines.index(created.line), lines.index(resumed.line)
    ways: list[tuple[int, ...]] = [(start,)]
    seen = {start}
    while ways:
        way = ways.pop(0)
        if way[-1] == end:
            return tuple(lines[number] for number in way)
        # Longest steps first, to find, of the shortest paths, the one with the newest lines.
        for number in range(end, way[-1], -1):
            here, there = Version(lines[way[-1]]), Version(lines[number])
            if number not in seen and compare_versions(matrix, here, there).verdict in _GOOD:
                seen.add(number)
                ways.append((*way, number))
    return ()


def usual_verdict(cells: Sequence[Cell]) -> CompatVerdict:
    """Return the most frequent verdict of the cells in default formats (of all, if there are none).

    Of two equally frequent verdicts, return the better one.
    """
    plain = [cell for cell in cells if not cell.formats]
    counts = Counter(cell.verdict for cell in plain or cells)
    return max(CompatVerdict, key=lambda verdict: (counts[verdict], -verdict.badness))


def _cells(matrix: Matrix, created: Version, resumed: Version) -> tuple[Cell, ...]:
    """Return the cells of a pair, without the limitations that do not concern these releases."""
    cells_of_pair = []
    for cell in _measured(matrix, created, resumed):
        kept = tuple(
            name for name in cell.limitations if matrix.limitations[name].concerns(created, resumed)
        )
        verdict = cell.verdict
        if verdict is CompatVerdict.OK_WITH_LIMITATIONS and not kept:
            verdict = CompatVerdict.OK
        cells_of_pair.append(replace(cell, verdict=verdict, limitations=kept))
    return tuple(cells_of_pair)


def _measured(matrix: Matrix, created: Version, resumed: Version) -> Iterable[Cell]:
    """Return the cells of a pair; the worst ones, if several releases stand for a version.

    The cells of the lines hold, except where a release has its own.
    """
    pair = created.line, resumed.line
    own = {_kind(cell): cell for cell in matrix.between(*pair)}
    tables = [
        {**own, **{_kind(cell): cell for cell in matrix.between(old, new)}}
        for old in _names(matrix, created)
        for new in _names(matrix, resumed)
        if (old, new) != pair
    ]
    if pair[0] in _names(matrix, created) and pair[1] in _names(matrix, resumed):
        tables.insert(0, own)
    worst_cells: dict[object, Cell] = {}
    for kind, cell in (item for table in tables for item in table.items()):
        first = worst_cells.setdefault(kind, cell)
        if cell.verdict.badness > first.verdict.badness:
            worst_cells[kind] = cell
    return worst_cells.values()


def _kind(cell: Cell) -> tuple[str | None, str | None, frozenset[str]]:
    return cell.operator, cell.backend, cell.formats


def _names(matrix: Matrix, version: Version) -> tuple[str, ...]:
    """Return the names under which cells answer for a version: its line, or releases."""
    line = matrix.line_of(version)
    if line is None or not line.also:
        return (version.line,)
    _, releases = matrix.evidence(version)
    return tuple(line.line if name == line.measured else name for name in releases)


def _limitations(matrix: Matrix, cells: Iterable[Cell]) -> tuple[Limitation, ...]:
    """Return the limitations of some cells, each once, in the table's order."""
    names = {name for cell in cells for name in cell.limitations}
    return tuple(one for name, one in matrix.limitations.items() if name in names)


def _judge(matrix: Matrix, cells: Sequence[Cell], use: Use, *, same_line: bool) -> UseVerdict:
    if use.operator == UNKNOWN_OPERATOR:
        # The operator may be any of those in the table, so the worst of their verdicts applies.
        names = {c.operator for c in cells if c.backend == use.backend and c.operator != STATELESS}
        if names:
            each = [
                _judge(matrix, cells, replace(use, operator=str(name)), same_line=same_line)
                for name in sorted(map(str, names))
            ]
            return replace(max(each, key=lambda one: one.verdict.badness), use=use)
    measured, unmeasured = _cells_of(cells, use)
    verdicts = [cell.verdict for cell in measured]
    if unmeasured and not same_line:
        verdicts.append(CompatVerdict.UNKNOWN)
    return UseVerdict(
        use, worst(verdicts), _limitations(matrix, measured), tuple(measured), tuple(unmeasured)
    )


def _cells_of(cells: Sequence[Cell], use: Use) -> tuple[list[Cell], list[str]]:
    """Return the cells that decide about a use, and the formats of the use that have none.

    The cell of exactly this use decides, if there is one; otherwise the cell in default formats and
    one for each format.
    """
    own = {
        cell.formats: cell
        for cell in cells
        if (cell.operator, cell.backend) == (use.operator, use.backend)
    }
    if use.formats in own:
        return [own[use.formats]], []
    measured: list[Cell] = []
    unmeasured: list[str] = []
    for formats in (frozenset[str](), *(frozenset({name}) for name in sorted(use.formats))):
        if formats in own:
            measured.append(own[formats])
            continue
        others = _of_others(cells, use, formats)
        measured += others
        if not (others and formats <= QUERY_FORMATS):
            unmeasured.append(" ".join(formats) or "default")
    return measured, unmeasured


def _of_others(cells: Sequence[Cell], use: Use, formats: frozenset[str]) -> list[Cell]:
    """Return the worst cell of other uses in this format, if the cell applies to this use.

    Other uses have the same backend, or any backend for a format of a whole query. A failure with
    them counts as a failure with this use. Success with them counts only for formats of a whole
    query.
    """
    if not formats:
        return []
    whole = formats <= QUERY_FORMATS
    others = [c for c in cells if c.formats == formats and (whole or c.backend == use.backend)]
    if not others:
        return []
    bad = max(others, key=lambda cell: cell.verdict.badness)
    return [bad] if whole or bad.verdict not in _GOOD else []
