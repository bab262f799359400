"""Which files a file source ignores because of their age, and which it has forgotten. Pure.

Facts used (``FileStreamSource`` and its ``SeenFilesMap``, proven on Spark 3.5.9 and 4.3.0):

* A file is never read if the newest file in the log is newer by more than ``maxFileAge`` (7 days if
  not given). While a query runs, this affects only files that arrive late, because the query reads
  the oldest files first. At a restart, it can affect any file that is not in the log.
* Spark forgets the files in the log that are older than ``maxFileAge`` allows: such a file is read
  again if its modification time is within the limit now.
* With ``latestFirst`` and a limit for a batch, Spark ignores ``maxFileAge``, so that files of any
  age wait. If the program of the restore lacks ``latestFirst`` or the limit, it drops old files.
* With ``cleanSource`` the files of a batch are archived (below ``sourceArchiveDir``, under their
  whole paths) or deleted when a later batch is planned. The files of the newest batch may be gone
  without harm, although Spark asks for them at a restart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flinkish.connectors.files.reading import NO_AGES, FileAges, FileReading
from flinkish.connectors.offsets import ACCEPT_REPEATED
from flinkish.connectors.source_plan import SourcePlan
from flinkish.connectors.sources import ACCEPT_LOST_ROWS, NewSource
from flinkish.messages.plan import Check, RestoreOutcome
from flinkish.messages.restore_options import RestoreOptions

_DAY_MS = 86_400_000
_DEFAULT_MS = 7 * _DAY_MS
#: The text may come from a savepoint that anybody may have written, so the number of digits is
#: limited: 18 digits always fit into a long of Spark.
_AGE = re.compile(r"(?P<number>[0-9]{1,18})\s*(?P<unit>[a-z]*)")
_UNITS = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": _DAY_MS,
}


@dataclass(frozen=True)
class AgedFile:
    """A file with its modification time.

    Attributes
    ----------
    key
        The text by which Spark tells files apart: the full path, or the name.
    time
        The modification time in milliseconds since the epoch.
    batch
        The batch of the log that read the file.
    """

    key: str
    time: int
    batch: int = 0


def max_age_of(options: Mapping[str, str]) -> int | None:
    """Return the age in milliseconds above which files are left out; None if there is no limit.

    ``options`` are the options of a source, by their names in lower case.
    """
    is_limited = "maxfilespertrigger" in options or "maxbytespertrigger" in options
    if is_limited and options.get("latestfirst", "").strip().lower() == "true":
        return None
    match = _AGE.fullmatch(options.get("maxfileage", "").strip().lower())
    if match is None or match["unit"] not in _UNITS:
        return _DEFAULT_MS
    return int(int(match["number"]) * _UNITS[match["unit"]])


def clean_mode(options: Mapping[str, str]) -> str | None:
    """Return how a source removes files that it has read: ``archive``, ``delete`` or None."""
    lowered = {name.lower(): value.strip().lower() for name, value in options.items()}
    mode = lowered.get("cleansource")
    return mode if mode in ("archive", "delete") else None


def age_before(
    read: Sequence[AgedFile], saved: Mapping[str, str] | None, now: int | None
) -> int | None:
    """Return the age limit that held until the savepoint, in the form of :func:`max_age_of`.

    ``saved`` are the options that the savepoint recorded. Without that record, the limit is taken
    to be ``now``, or None if the log has a file that ``now`` would have left out.
    """
    if saved is not None:
        return max_age_of(saved)
    if now is None:
        return None
    times: dict[int, list[int]] = {}
    for each in read:
        times.setdefault(each.batch, []).append(each.time)
    newest = 0
    for batch in sorted(times):
        if min(times[batch]) < newest - now:
            return None
        newest = max(newest, *times[batch])
    return now


def file_ages(
    read: Sequence[AgedFile],
    there: Sequence[AgedFile],
    now: int | None,
    before: int | None,
) -> FileAges:
    """Return how many files are ignored, and how many are read again, because of their age.

    ``read`` are the files of the log, ``there`` those that the source finds. ``now`` is the
    program's age limit, ``before`` the limit that held until the savepoint; None if there was none,
    or the path was not read.
    """
    if now is None or not read:
        return NO_AGES
    newest = max(each.time for each in read)
    last = {each.key: each.time for each in read}
    cut = newest - now
    was_cut = None if before is None else newest - before
    old = [
        each
        for each in there
        if each.key not in last and each.time < cut and (was_cut is None or each.time >= was_cut)
    ]
    again = [each for each in there if last.get(each.key, cut) < cut <= each.time]
    oldest = min([each.time for each in old] + [last[each.key] for each in again], default=newest)
    return FileAges(len(old), len(again), -(-(newest - oldest) // _DAY_MS) + 1, now)


def with_ages(
    row: SourcePlan, source: NewSource, reading: FileReading, options: RestoreOptions
) -> SourcePlan:
    """Return the row with the consequences for files that are too old, or are read again."""
    ages = reading.ages
    limit = f"maxFileAge, {_duration(ages.limit)} before the newest file that was read"
    enough = f"set maxFileAge={ages.days}d in the program"
    if ages.lost:
        text = (
            f"{files_of(ages.lost)} below {reading.path} {are(ages.lost)} older than the "
            f"program's {limit}: Spark never reads {_them(ages.lost)}"
        )
        agreed = options.accept_lost_rows
        row = asked(row, source, "files-too-old", text, enough, ACCEPT_LOST_ROWS, agreed=agreed)
    if ages.forgotten and not row.blocks:
        text = (
            f"{files_of(ages.forgotten)} already read {are(ages.forgotten)} older in its log "
            f"than {limit}, but newer on disk now: Spark has forgotten {_them(ages.forgotten)} and "
            f"reads {_them(ages.forgotten)} again"
        )
        advice = f"restore their modification times (cp -p keeps them), or {enough}"
        agreed = options.accept_repeated_rows
        row = asked(row, source, "files-forgotten", text, advice, ACCEPT_REPEATED, agreed=agreed)
    return row


def archive_to_list(own: str | None, saved: str | None) -> str | None:
    """Return the archive in which to look for files: the program's, or the savepoint's within it.

    Anybody may have written the savepoint, so its archive is listed only if it lies within the
    program's. ``own`` and ``saved`` are the normal forms of the two locations, or None.
    """
    if own is None or saved is None:
        return own
    inside = saved.startswith(f"{own.rstrip('/')}/") and ".." not in saved.split("/")
    return saved if inside else own


def with_cleaned(row: SourcePlan, reading: FileReading, options: RestoreOptions) -> SourcePlan:
    """Return the row with the consequences for files that another run may have read and cleaned."""
    source, cleaned = row.new, reading.cleaned
    if source is None or cleaned is None or row.blocks:
        return row
    if cleaned.archived:
        text = (
            f"{files_of(cleaned.archived)} not read before the savepoint {are(cleaned.archived)} "
            f"in the archive {cleaned.place} (cleanSource=archive), to which another run or query "
            f"has moved {_them(cleaned.archived)}: Spark never reads {_them(cleaned.archived)}"
        )
        advice = f"move back below {reading.path} what no earlier checkpoint of the job has read"
    elif cleaned.gone_on is None:
        text = (
            f"{source.describe()}: the savepoint's program archived its files in "
            f"{cleaned.unlisted}, which this program does not name as its sourceArchiveDir, so "
            "files that a later run has read and archived were not looked for"
        )
        check = Check("files-cleaned", RestoreOutcome.WARNING, text)
        return replace(row, checks=(*row.checks, check))
    else:
        how = "deletes" if cleaned.mode == "delete" else "archives"
        text = (
            f"another run has continued to batch {cleaned.gone_on}, and the source {how} the files "
            f"that it has read (cleanSource={cleaned.mode}): files read since the savepoint are "
            "gone, and this program never reads them"
        )
        advice = f"put these files back below {reading.path}, or restore from a newer savepoint"
    agreed = options.accept_lost_rows
    return asked(row, source, "files-cleaned", text, advice, ACCEPT_LOST_ROWS, agreed=agreed)


def asked(
    row: SourcePlan,
    source: NewSource,
    reason: str,
    text: str,
    advice: str,
    flag: str,
    *,
    agreed: bool,
) -> SourcePlan:
    """Return a row that needs a consent, or that has a warning about what the user agreed to."""
    text = f"{source.describe()}: {text}"
    if agreed:
        check = Check(reason, RestoreOutcome.WARNING, f"{text}, as accepted")
        return replace(row, checks=(*row.checks, check))
    return replace(
        row,
        verdict="consent-needed",
        reason=reason,
        text=text,
        advice=f"{advice}; or agree: {flag}",
    )


def files_of(count: int) -> str:
    """Return a number of files in words."""
    return "1 file" if count == 1 else f"{count:,} files"


def are(count: int) -> str:
    """Return ``is`` or ``are``, as the number of things requires."""
    return "is" if count == 1 else "are"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def _duration(ms: int) -> str:
    for unit, length in (("days", _DAY_MS), ("hours", 3_600_000), ("minutes", 60_000)):
        if ms and ms % length == 0:
            return f"{ms // length} {unit if ms != length else unit[:-1]}"
    return f"{ms / 1000:g} seconds"
