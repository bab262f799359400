"""What flinkish knows of one format that queries read and write. Pure.

A :class:`Connector` describes a format that nobody has described: the offsets of its sources are
taken as Spark takes them. Each module or folder of this room overrides what is known better, and
is listed in :mod:`.registry`. What a broker, a table or a directory has is looked up in the driver
(``flinkish.driver.connectors``), and comes back as a
:class:`~flinkish.connectors.findings.SourceAnswer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flinkish.connectors.answers import not_set, with_answer, with_offsets
from flinkish.connectors.findings import Finding, SourceAnswer
from flinkish.connectors.offsets import NewOffsets, Target, Unresolved, other_offsets
from flinkish.connectors.source_plan import SourcePlan, change_of
from flinkish.connectors.sources import NewSource, SavedSource, kind_of, reset_flag
from flinkish.messages.restore_options import RestoreOptions


@dataclass(frozen=True)
class Connector:
    """One format.

    Attributes
    ----------
    name
        As in ``DataStreamReader.format``, in lower case.
    label
        Its name for people.
    options
        Those of a source that a restore looks at; one that ends with a dot stands for all that
        begin with it.
    recorded
        Those of them that a savepoint records.
    packages
        The parts of a class name that name the format too.
    answers_offline
        Whether what it reads is looked at with ``--offline`` too.
    in_catalogs
        Whether its tables have the names of a catalog's, and no path.
    keeps_versions
        Whether a sink is a table that knows its queries, and can be brought back to a version.
    repeats_batches
        Whether a sink writes a batch that runs again once more (at-least-once).
    keeps_log
        Whether a sink may be Spark's file sink, with a log of its batches.
    """

    name: str
    label: str = ""
    options: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    answers_offline: bool = False
    in_catalogs: bool = False
    keeps_versions: bool = False
    repeats_batches: bool = False
    keeps_log: bool = True

    def owns(self, offset: str) -> bool:
        """Return whether an offset has the form of this format, whatever its source is called."""
        return False

    def is_read_again(self, options: Mapping[str, str]) -> bool:
        """Return whether a query that starts anew is given what an earlier run was given."""
        return True

    def changed(self, source: NewSource, saved: SavedSource) -> SourcePlan:
        """Return the row of a source that reads something else now."""
        return SourcePlan(
            source,
            saved,
            "changed",
            "input-changed",
            f"{change_of(source, saved)}: it resumes from the old position {saved.offset} in it",
            "make sure that this position has the same meaning there, or start it from scratch and "
            f"keep the state: {reset_flag(source)}",
        )

    def unasked(self, source: NewSource, saved: SavedSource, why: str = "") -> SourceAnswer | None:
        """Return what is known of a position when nobody is asked; ``why`` if that was refused."""
        return None

    def offsets(
        self, source: NewSource, saved: SavedSource, target: Target, answer: SourceAnswer | None
    ) -> NewOffsets | Unresolved:
        """Return the offsets that a source is moved to, or why there are none."""
        return other_offsets(target, saved.offset, kind_of(source.signature))

    def judge(
        self,
        row: SourcePlan,
        answer: SourceAnswer | None,
        target: Target | None,
        agreed: RestoreOptions,
    ) -> SourcePlan:
        """Return the row of a source with what its position meets, moved to ``target`` if given."""
        source, saved = row.new, row.saved
        if source is None or target is None or (row.blocks and saved is not None):
            return with_answer(row, answer, agreed)
        if saved is None:
            return not_set(row)
        offsets = self.offsets(source, saved, target, answer)
        if isinstance(offsets, NewOffsets):  # from there on it is judged as from a saved position
            row = with_answer(row, answer, agreed, at=offsets.offset)
        return with_offsets(row, target, offsets, agreed)

    def judge_unpaired(
        self, row: SourcePlan, answer: SourceAnswer | None, agreed: RestoreOptions
    ) -> SourcePlan:
        """Return the row of a source of a plain checkpoint, which describes no position."""
        return row

    def replayed(self, spark: str) -> Finding | None:
        """Return what a version of Spark makes of a planned batch that is replayed."""
        return None
