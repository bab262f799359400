"""What an error of Spark means for whoever restores: limitations, and how errors are told apart.

``needs-migration`` is said where rewriting the savepoint's files could help (formats that an older
Spark does not know, settings pinned in the offset log); ``fails`` where nothing can.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tools.compatmatrix.cases import Case, Line

OK, WITH_LIMITATIONS = "ok", "ok-with-limitations"
NEEDS_MIGRATION, FAILS = "needs-migration", "fails"
_ROW_CHECKSUMS_SINCE: Line = (4, 2)
_JOIN_FORMAT_4_IN_DEVELOPMENT: Line = (4, 2)
#: Since when rocksdb.mergeOperatorVersion is 2.
_ONE_MERGE_SINCE: Line = (4, 2)
_LUCK = "none with the rows that were measured; checksums are taken for a part of the values"
_LONGEST = 300
#: In a traceback: the error itself, or the Java error that it wraps.
_ERROR_LINE = r"^(?:: )?((?:[a-z]\w*\.)*\w*(?:Error|Exception)(?:: .+)?)$"


@dataclass(frozen=True)
class Limitation:
    """For people: what is limited, and the way out."""

    text: str
    advice: str
    #: What the engine does about it at a restore: ``flinkish.compat.model.Rewrite``.
    rewrite: str | None = None


@dataclass(frozen=True)
class Known:
    """An error that is known, and what it means.

    ``pattern`` is searched for in all of the error's text. ``format`` narrows it to cases with that
    format, ``before`` to versions older than that one, ``operators`` to cases with one of these.
    """

    limitation: str
    verdict: str
    pattern: str
    format: str | None = None
    before: Line | None = None
    operators: tuple[str, ...] = ()

    def fits(self, case: Case, target: Line, text: str) -> bool:
        """Whether it is this error of this case."""
        if self.format is not None and self.format not in case.formats:
            return False
        if self.before is not None and target >= self.before:
            return False
        if self.operators and not set(self.operators) & set(case.query.operators):
            return False
        return re.search(self.pattern, text) is not None


@dataclass(frozen=True)
class Judgement:
    """The verdict of one case on one target; ``error`` is Spark's, short."""

    verdict: str
    limitations: tuple[str, ...] = ()
    error: str | None = None


LIMITATIONS: dict[str, Limitation] = {
    "no-transform-before-4-0": Limitation(
        "transformWithState does not exist before Spark 4.0: there is nothing that could take its "
        "state.",
        "Restore on Spark 4.0 or newer.",
    ),
    "no-transform-on-rows-before-4-1": Limitation(
        "transformWithState on rows does not exist in PySpark before 4.1 (on 4.0 there is "
        "transformWithStateInPandas only).",
        "Restore on Spark 4.1 or newer.",
    ),
    "checkpoint-format-2": Limitation(
        "Checkpoint format 2 (spark.sql.streaming.stateStore.checkpointFormatVersion=2) does not "
        "exist before Spark 4.0: its commit log is not read there.",
        "A restore rewrites it to checkpoint format 1.",
        "checkpoint-format-1",
    ),
    "checkpoint-format-2-archives": Limitation(
        "In checkpoint format 2 Spark 4.0 writes RocksDB archives of version 2 and reads no "
        "others; from Spark 4.1 on they are of version 1 again, and no others are read.",
        "A restore rewrites it to checkpoint format 1.",
        "checkpoint-format-1",
    ),
    "limit-with-checkpoint-format-2": Limitation(
        "A query with a global limit does not run with checkpoint format 2 on Spark 4.0: it wants "
        "state of all shuffle partitions, and a limit has one.",
        "A restore rewrites it to checkpoint format 1.",
        "checkpoint-format-1",
    ),
    "offset-log-2": Limitation(
        "Offset log format 2 (spark.sql.streaming.offsetLog.formatVersion=2) does not exist before "
        "Spark 4.2: the log is not read there.",
        "Restore on Spark 4.2 or newer, or migrate the savepoint to offset log format 1.",
    ),
    "row-checksum": Limitation(
        "Row checksums (spark.sql.streaming.stateStore.rowChecksum.enabled) do not exist before "
        "Spark 4.2: the checksum is taken for a part of the row, so the state is refused or, "
        "more often, misread without an error: wrong rows.",
        "Restore on Spark 4.2 or newer, or migrate the savepoint to rows without checksums. The "
        "setting is pinned: switching it off in the session changes nothing.",
    ),
    "transform-lists": Limitation(
        "From Spark 4.2 on RocksDB puts the values of transformWithState's list states together "
        "without a separator (spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion=2); "
        "Spark 4.0 and 4.1 misread such lists: the query fails, or hangs without an error.",
        "A restore rewrites the lists. A job first started with "
        "rocksdb.mergeOperatorVersion=1 needs no rewrite (the setting is pinned).",
        "lists",
    ),
    "join-format-3": Limitation(
        "Join state format 3 does not exist before Spark 4.1.",
        "A restore rewrites it to format 2.",
        "join-format-2",
    ),
    "join-format-4": Limitation(
        "Join state format 4 does not exist before Spark 4.2, where it has to be enabled.",
        "A restore rewrites it to format 2.",
        "join-format-2",
    ),
    "join-format-4-setting": Limitation(
        "Spark 4.2 has join state format 4 under development, and refuses it unless "
        "spark.sql.streaming.join.stateFormatV4.enabled is true, which no checkpoint pins.",
        "Set spark.sql.streaming.join.stateFormatV4.enabled=true for the restored job.",
    ),
    "measured-failure": Limitation(
        "The restored query failed when this was measured, for a reason that is not classified.",
        "See the error; restore on the version that the savepoint was taken on.",
    ),
}
_TRANSFORMS = ("transformWithStateInPandasExec", "transformWithStateInPySparkExec")
_NEW_LOG = r"UnsupportedLogVersion|INVALID_LOG_VERSION"
_NO_JOIN = r"spark\.sql\.streaming\.join\.stateFormatVersion\W+is invalid"

#: The first that fits counts.
KNOWN: tuple[Known, ...] = (
    Known("no-transform-before-4-0", FAILS, r"no attribute 'transformWithStateInPandas'"),
    Known("no-transform-before-4-0", FAILS, r"no attribute 'transformWithState'", before=(4, 0)),
    Known("no-transform-on-rows-before-4-1", FAILS, r"no attribute 'transformWithState'"),
    Known("offset-log-2", NEEDS_MIGRATION, _NEW_LOG, "offset-log-v2"),
    Known("checkpoint-format-2", NEEDS_MIGRATION, _NEW_LOG, "checkpoint-v2"),
    Known(
        "limit-with-checkpoint-format-2",
        NEEDS_MIGRATION,
        r"assertion failed: ChekpointInfo length",
        "checkpoint-v2",
    ),
    Known("join-format-4", NEEDS_MIGRATION, _NO_JOIN, "join-v4"),
    Known("join-format-3", NEEDS_MIGRATION, _NO_JOIN, "join-v3"),
    Known(
        "checkpoint-format-2-archives",
        NEEDS_MIGRATION,
        r"Cannot read RocksDB checkpoint metadata\. Expected v",
        "checkpoint-v2",
    ),
    Known(
        "transform-lists",
        NEEDS_MIGRATION,
        r"EOFError|ConnectionResetError|Broken pipe|did not end within",
        operators=_TRANSFORMS,
        before=_ONE_MERGE_SINCE,
    ),
    # Whatever comes of misread rows, down to errors of the user's own code.
    Known("row-checksum", NEEDS_MIGRATION, "", "row-checksum", before=_ROW_CHECKSUMS_SINCE),
)


def judge(case: Case, target: Line, errors: Sequence[str]) -> Judgement:
    """The verdict for a case that was gone on with on ``target``.

    Parameters
    ----------
    errors: Spark's exception and its causes, outermost first; empty when all went well.
    """
    if not errors:
        if "row-checksum" in case.formats and target < _ROW_CHECKSUMS_SINCE:
            # Luck: values are misread there, and the few rows measured did not depend on them.
            return Judgement(NEEDS_MIGRATION, ("row-checksum",), _LUCK)
        if "join-v4" in case.formats and target == _JOIN_FORMAT_4_IN_DEVELOPMENT:
            return Judgement(WITH_LIMITATIONS, ("join-format-4-setting",))
        return Judgement(OK)
    text = "\n".join(errors)
    error = short_error(errors)
    for known in KNOWN:
        if known.fits(case, target, text):
            return Judgement(known.verdict, (known.limitation,), error)
    return Judgement(FAILS, ("measured-failure",), error)


def short_error(errors: Sequence[str]) -> str:
    """The first line of the error that caused the others, without paths, in 300 characters.

    An error inside ``foreachBatch`` comes as a Python traceback, with Java's stack in its text.
    """
    causes = re.findall(r"^Caused by: (.+)$", "\n".join(errors), re.MULTILINE)
    lines = causes or re.findall(_ERROR_LINE, errors[-1], re.MULTILINE) or errors[-1].splitlines()
    line = re.sub(r"^(?:[a-z]\w*\.)+(\w)", r"\1", lines[-1])  # the class without its package
    line = re.sub(r"(?:file:)?/(?:[\w.@+-]+/)+(?=[\w.@+-])", ".../", line)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3].rstrip() + "..."
