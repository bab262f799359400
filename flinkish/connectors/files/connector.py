"""The connector of Spark's file source and file sink. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from flinkish.connectors.base import Connector
from flinkish.connectors.files.ages import with_cleaned
from flinkish.connectors.files.offset_checks import judge_files, judge_fork, judge_unknown
from flinkish.connectors.files.reading import FileReading
from flinkish.connectors.offsets import MOVED, NewOffsets, Target, Unresolved
from flinkish.connectors.source_plan import SourcePlan, change_of
from flinkish.connectors.sources import NewSource, SavedSource, SourceAnswer, reset_flag
from flinkish.messages.restore_options import RestoreOptions

#: The options that decide which files are still to be read, and which are removed after that.
_RECORDED = (
    *("cleanSource", "latestFirst", "maxBytesPerTrigger", "maxFileAge", "maxFilesPerTrigger"),
    "sourceArchiveDir",
)

_NOT_LOOKED_FOR = Unresolved(
    "set-offsets-form",
    "cannot keep its position: its files could not be looked for",
    "make its path and the log of its files readable for the driver",
)


class FileConnector(Connector):
    """Spark's file source and sink. The source recognizes new files by their paths or names."""

    def changed(self, source: NewSource, saved: SavedSource) -> SourcePlan:
        """Return the row of a source that reads another path now."""
        return SourcePlan(
            source,
            saved,
            "changed",
            "path-changed",
            f"{change_of(source, saved)}: files are identified by their paths, so every file there "
            "is new and will be read, including copies of files already read",
            "make sure that it contains only new files, or start it from scratch and keep the "
            f"state: {reset_flag(source)}",
        )

    def offsets(
        self, source: NewSource, saved: SavedSource, target: Target, answer: SourceAnswer | None
    ) -> NewOffsets | Unresolved:
        """Return the offsets to which a source is moved, or why it cannot be moved.

        ``moved`` is refused here; :meth:`judge` carries it out if the files could be looked for.
        """
        if target.how == MOVED:
            return _NOT_LOOKED_FOR
        return super().offsets(source, saved, target, answer)

    def judge(
        self,
        row: SourcePlan,
        answer: SourceAnswer | None,
        target: Target | None,
        agreed: RestoreOptions,
    ) -> SourcePlan:
        """Return the row of a source with the consequences for its files."""
        if not isinstance(answer, FileReading):
            return super().judge(row, None, target, agreed)
        if target is None or target.how == MOVED:
            return judge_files(row, answer, target, agreed)
        return with_cleaned(super().judge(row, None, target, agreed), answer, agreed)

    def judge_unpaired(
        self, row: SourcePlan, answer: SourceAnswer | None, agreed: RestoreOptions
    ) -> SourcePlan:
        """Return the row of a source of a plain checkpoint, with the consequences for its files."""
        return judge_unknown(row, answer if isinstance(answer, FileReading) else None, agreed)

    def judge_fork(
        self, row: SourcePlan, saved: Sequence[SavedSource] | None, agreed: RestoreOptions
    ) -> SourcePlan:
        """Return the row of a fork's source, which may remove files that the job has not read."""
        return judge_fork(row, saved, agreed)


FILES = FileConnector(
    "file",
    "files",
    options=("path", "fileNameOnly", "recursiveFileLookup", *_RECORDED),
    recorded=_RECORDED,
    answers_offline=True,
)
