"""The report on a directory of savepoints: their sizes over time, lineage and verdicts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkish.client.catalog import list_directory
from flinkish.errors import FlinkishError
from flinkish.savepoint.directory.catalog import CatalogEntry, Unreadable, job_prefix
from flinkish.savepoint.directory.places import place_keys
from flinkish.savepoint.format.contents import OperatorRecord, QueryRecord
from flinkish.savepoint.format.operator_lookup import address
from flinkish.storage import base_name

if TYPE_CHECKING:
    from flinkish.messages.plan import SparkVersions

#: Largest number of savepoints in a report, which has the newest ones.
MOST = 100
#: Number of the newest version lines of Spark (such as 4.0) against which savepoints are checked.
_SPARKS = 3


@dataclass(frozen=True)
class SparkAnswer:
    """The version matrix's answer for one version line of Spark; ``text`` says why."""

    versions: SparkVersions
    text: str
    hint: str


@dataclass(frozen=True)
class Reported:
    """One savepoint.

    ``damage`` is what is wrong with its metadata or the sizes of its files. ``parent`` is the
    previous savepoint of the same run of its job; for the first savepoint of a run, it is what the
    run was started from, if anything. ``parent_here``: whether the report contains the parent.
    """

    entry: CatalogEntry
    damage: FlinkishError | None
    parent: str | None
    parent_here: bool
    answers: tuple[SparkAnswer, ...]


@dataclass(frozen=True)
class Point:
    """An operator's state in one savepoint."""

    path: str
    created: float
    rows: int | None
    bytes: int


@dataclass(frozen=True)
class Growth:
    """The state of one operator over the savepoints, oldest first.

    ``query`` and ``operator`` are those of the newest savepoint that has the operator.
    """

    job_name: str
    query: QueryRecord
    operator: OperatorRecord
    points: tuple[Point, ...]

    @property
    def address(self) -> str:
        """The name of the operator as an argument of other commands."""
        return address(self.query.name, self.operator.uid, self.operator.state.ordinal)


@dataclass(frozen=True)
class Report:
    """The report on a directory; its ``savepoints`` are in order of time, the newest first.

    ``created`` is the time of the report. ``omitted`` counts the older savepoints that the report
    leaves out, ``unfinished`` the directories without metadata. ``growth`` has the operators with
    the largest states first.
    """

    location: str
    created: float
    savepoints: tuple[Reported, ...]
    growth: tuple[Growth, ...]
    unreadable: tuple[Unreadable, ...]
    unfinished: int
    omitted: int
    warnings: tuple[str, ...]


def report_directory(directory: str) -> Report:
    """Read the savepoints directly below a directory, and find out which Spark can resume them.

    Raises SavepointNotFound if there is no such directory; UsageError if it is itself a savepoint;
    StorageError if it cannot be listed.
    """
    listed = list_directory(directory, must_exist=True)
    own = listed.catalog.own
    entries = own[:MOST]
    parents = _parents(own)
    paths = {entry.path for entry in entries}
    reported = []
    for entry in entries:
        damage = listed.damage.get(entry.path)
        parent = parents[entry.path]
        is_here = parent in paths and parent != entry.path
        answers = _answers(entry.path) if damage is None else ()
        reported.append(Reported(entry, damage, parent, is_here, answers))
    return Report(
        location=listed.location,
        created=time.time(),
        savepoints=tuple(reported),
        growth=growth_of(entries),
        unreadable=listed.catalog.unreadable,
        unfinished=len(listed.catalog.unfinished),
        omitted=len(own) - len(entries),
        warnings=listed.warnings,
    )


def _parents(entries: Sequence[CatalogEntry]) -> Mapping[str, str | None]:
    """Return the parent of each savepoint; ``entries`` are the savepoints, newest first.

    A parent that is one of the savepoints is returned by its path in this directory.
    """
    by_key = {key: each.path for each in entries for key in place_keys(each.path)}
    # Names of savepoints are random, so a parent can be found by its name in a directory's copy.
    by_name = {base_name(each.path): each.path for each in entries if job_prefix(each.path)}
    earlier: dict[tuple[str, str | None], str] = {}
    parents: dict[str, str | None] = {}
    for entry in reversed(entries):
        origin = entry.header.job.restored_from
        run = entry.header.job.job_id, origin
        parent = earlier.get(run, origin)
        earlier[run] = entry.path
        here = None
        if parent is not None:
            keys = (key for key in place_keys(parent) if key in by_key)
            here = by_key.get(next(keys, ""), by_name.get(base_name(parent)))
        parents[entry.path] = parent if here in (None, entry.path) else here
    return parents


def growth_of(entries: Sequence[CatalogEntry]) -> tuple[Growth, ...]:
    """Return the growth of each operator over savepoints, which are newest first. Pure.

    A query is recognised by its id. A restart keeps this id, but a fork or a restore of an older
    savepoint gives a new one. Operators are recognised by uid, else operator id, else ordinal.
    """
    newest: dict[tuple[str, str | int], tuple[CatalogEntry, QueryRecord, OperatorRecord]] = {}
    points: dict[tuple[str, str | int], list[Point]] = {}
    for entry in entries:
        for query in entry.queries:
            for operator in query.operators:
                name = operator.uid or operator.operator_id or operator.state.ordinal
                key = query.query_id, name
                newest.setdefault(key, (entry, query, operator))
                points.setdefault(key, []).append(
                    Point(
                        entry.path,
                        entry.header.created,
                        operator.facts.rows,
                        operator.state.bytes,
                    )
                )
    growth = (
        Growth(entry.header.job.name, query, operator, tuple(reversed(points[key])))
        for key, (entry, query, operator) in newest.items()
    )
    return tuple(sorted(growth, key=lambda each: -each.operator.state.bytes))


def _answers(path: str) -> tuple[SparkAnswer, ...]:
    """Return the version matrix's answers for the newest version lines of Spark, oldest first."""
    from flinkish.compat.data import load
    from flinkish.compat.model import SPARK
    from flinkish.restore.check.version_check import check_spark_version
    from flinkish.restore.origin.restore_origin import open_path

    try:
        offers = open_path(path)
    except FlinkishError:  # disposed of in the meantime: there is nothing to resume
        return ()
    checks = (check_spark_version(offers, line) for line in load(SPARK).lines[-_SPARKS:])
    return tuple(SparkAnswer(each.versions, each.check.text, each.check.advice) for each in checks)
