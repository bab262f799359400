"""Findings about a file source that resumes from a saved position, perhaps in another path. Pure.

Facts used (``FileStreamSource``, proven on Spark 3.5.9 and 4.3.0):

* The source's log has the full path of every file that it has read. A file is new if the log lacks
  its full path; with ``fileNameOnly``, if the log lacks its name.
* At a restart Spark asks the source for the files of the newest committed batch, if that had any
  (``MicroBatchExecution.populateStartOffsets``), and reads the files of a planned batch. It refuses
  files that do not lie below the path of the program (``Wrong basePath``), except where that path
  has a pattern (``in/*``). A restore to another path therefore makes the second newest entry of the
  offset log equal to the newest one, so that Spark asks for nothing. If the newest is that of batch
  0, there is no entry before it to change, and Spark asks for the files of batch 0.
* Without a pattern and without ``recursiveFileLookup`` only files directly in the path are read,
  and those in directories named ``key=value``.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from urllib.parse import unquote

from flinkish.connectors.files.ages import (
    are,
    asked,
    clean_mode,
    files_of,
    with_ages,
    with_cleaned,
)
from flinkish.connectors.files.reading import FileReading
from flinkish.connectors.offsets import MOVED, Target
from flinkish.connectors.path_map import meet
from flinkish.connectors.source_plan import SourcePlan, change_of
from flinkish.connectors.sources import (
    ACCEPT_LOST_ROWS,
    SET,
    NewSource,
    SavedSource,
    kind_of,
    name_option,
    reset_flag,
)
from flinkish.messages.plan import Check, RestoreOutcome
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions

_PATTERN = re.compile(r"[{}\[\]*?\\]")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(?://[^/]*)?")
#: The stable id of a finding: files that were read do not lie where the program reads.
SOURCE_MOVED = "source-moved"


def judge_files(
    row: SourcePlan,
    reading: FileReading,
    target: Target | None,
    options: RestoreOptions = NO_OPTIONS,
) -> SourcePlan:
    """Return the row of a file source, with the consequences for its files.

    ``target`` is the target that the user gave, which must be ``moved``; None if there is none.
    """
    placed = _placed(row, reading, target)
    if placed.new is None or placed.blocks:
        return placed
    if placed.verdict != "reset":
        placed = with_ages(placed, placed.new, reading, options)
    return with_cleaned(placed, reading, options)


def _placed(row: SourcePlan, reading: FileReading, target: Target | None) -> SourcePlan:
    """Return the row of a file source, with the consequences for the files that it has read."""
    source, saved = row.new, row.saved
    if source is None or saved is None or row.blocks:
        return row
    if row.verdict == "reset":
        return _reset(row, source, reading)
    if target is not None and reading.outside:
        return _moved(row, source, reading)
    row = replace(row, checks=(*row.checks, *_too_deep(source, reading)))
    if not reading.outside:
        return _covered(row, source, saved, reading) if row.verdict == "changed" else row
    begins = change_of(source, saved) if row.verdict == "changed" else source.describe()
    inside = reading.files - reading.outside
    as_before = replace(row, elsewhere=True)
    row = replace(as_before, verdict="changed", reason="path-changed")
    again = f"read everything that is there again: {reset_flag(source)}"
    keep = f"if the files were moved, keep the position: {moved_flag(source)}"
    if reading.refused:
        return replace(
            row,
            verdict="consent-needed",
            reason=SOURCE_MOVED,
            text=f"{begins}: {files_of(reading.planned_outside)} of the planned batch, which Spark "
            f"reads first, {are(reading.planned_outside)} not below {reading.path}: "
            "Spark would fail (Wrong basePath) or skip them",
            advice=f"{keep}; or {again}"
            if reading.planned_moved >= reading.planned_outside
            else f"have the program read the old path until that batch is committed; or {again}",
        )
    if reading.only_batch and not reading.pattern:
        return replace(
            row,
            verdict="consent-needed",
            reason=SOURCE_MOVED,
            text=f"{begins}: Spark asks for the files of the only batch again, and "
            f"{files_of(reading.outside)} of it {are(reading.outside)} not below "
            f"{reading.path}: it would fail (Wrong basePath)",
            advice=f"{keep}; or {again}" if reading.moved else f"{_elsewhere(reading)}{again}",
        )
    if inside and saved.signature == source.signature and (reading.by_name or not reading.moved):
        return as_before  # the job has changed its path before
    which = f"other than the {files_of(inside)} already read is" if inside else "is"
    are_new = f"every file there {which} new and will be read"
    if reading.by_name:
        text = (
            f"{begins}: files are identified by name (fileNameOnly), so files with the names of "
            f"the {reading.files} already read are not read again"
        )
        return replace(row, text=text)
    if reading.moved:
        return replace(
            row,
            verdict="consent-needed",
            reason=SOURCE_MOVED,
            text=f"{begins}: {reading.moved} of the {files_of(reading.outside)} read from another "
            f"path {are(reading.moved)} now below {reading.path}: Spark identifies "
            "files by full path, and would read them again",
            advice=f"{keep}; or {again}",
        )
    if not reading.known:
        text = (
            f"{begins}: files are identified by full path, so {are_new}, including copies of files "
            "already read"
        )
        return replace(row, text=text, advice=f"{keep}; or {again}")
    return replace(
        row,
        text=f"{begins}: none of the {files_of(reading.outside)} read from another path is below "
        f"{reading.path}, so {are_new}",
        advice="make sure that these files are new"
        if inside
        else "make sure that only new files are there, or start the source from scratch: "
        f"{reset_flag(source)}",
    )


def judge_unknown(
    row: SourcePlan, reading: FileReading | None, options: RestoreOptions = NO_OPTIONS
) -> SourcePlan:
    """Return the row of a file source of a plain checkpoint, which does not describe its position.

    The new checkpoint keeps the logs unchanged, so Spark may ask for files at another place.
    """
    source = row.new
    if source is None or reading is None:
        return row
    row = replace(row, checks=(*row.checks, *_too_deep(source, reading)))
    row = with_cleaned(with_ages(row, source, reading, options), reading, options)
    outside = reading.planned_outside or reading.asked_outside
    if not outside or (reading.pattern and not reading.planned_moved):
        return row
    return replace(
        row,
        verdict="incompatible",
        reason=SOURCE_MOVED,
        text=f"{source.describe()}: Spark reads {files_of(outside)} of the checkpoint again, and "
        f"{'it is' if outside == 1 else 'they are'} not below {reading.path}: it would fail (Wrong "
        f"basePath) or skip {'it' if outside == 1 else 'them'}",
        advice=_elsewhere(reading) + "run the program on the old path (a symbolic link is enough)",
    )


def judge_fork(
    row: SourcePlan, saved: Sequence[SavedSource] | None, options: RestoreOptions
) -> SourcePlan:
    """Return the row of a fork's source, which may remove files that the job has not read.

    ``saved`` are the sources of the job; None if not all are known.
    """
    source = row.new
    mode = None if source is None else clean_mode(source.options)
    if source is None or mode is None or row.blocks or not options.fork:
        return row
    if saved is not None and not any(_may_share(source, each) for each in saved):
        return row
    text = (
        f"the fork {mode}s files below {path_in(source.signature)} that it has read "
        f"(cleanSource={mode}), so the job that it is a fork of never reads them"
    )
    advice, agreed = "start the fork with cleanSource=off", options.accept_lost_rows
    return asked(row, source, "files-cleaned", text, advice, ACCEPT_LOST_ROWS, agreed=agreed)


def _may_share(source: NewSource, saved: SavedSource) -> bool:
    """Return whether a source may find files that another one reads.

    The working directory, and the file system of a path without a scheme, are not known.
    """
    if saved.signature is None:
        return True
    if kind_of(saved.signature) != "file":
        return False
    places = [without_pattern(path_in(each)) for each in (source.signature, saved.signature)]
    if len({_SCHEME.match(each) is None for each in places}) > 1:
        places = [_SCHEME.sub("", each) for each in places]
    is_relative = {not _SCHEME.match(each) and not each.startswith("/") for each in places}
    return len(is_relative) > 1 or meet(*places)


def path_in(signature: str) -> str:
    """Return the path in the signature of a file source."""
    return signature.partition("[")[2].removesuffix("]")


def _elsewhere(reading: FileReading) -> str:
    """Return the advice about files that are at another place now; further advice follows it."""
    if reading.move is None:
        return ""
    pair = shlex.quote(f"{_plain(reading.move.old)}={_plain(reading.move.new)}")
    return f"if the files already read are elsewhere now, give both places: --map-path {pair}; or "


def _plain(url: str) -> str:
    """Return the path or URL of a directory as people write it."""
    return unquote(url).removeprefix("file://")


def moved_flag(source: NewSource) -> str:
    """Return the option that lets a source keep its position when its files were moved."""
    return name_option(SET, source, f"={MOVED}")


def _covered(
    row: SourcePlan, source: NewSource, saved: SavedSource, reading: FileReading
) -> SourcePlan:
    identity = "name" if reading.by_name else "full path"
    return replace(
        row,
        text=f"{change_of(source, saved)}: the {files_of(reading.files)} already read have "
        f"paths below {reading.path}; they are identified by {identity} and are not read again; "
        "other files there are new",
        advice="",
    )


def _moved(row: SourcePlan, source: NewSource, reading: FileReading) -> SourcePlan:
    """Return the row of a source whose files have been moved, as the user says."""
    if reading.move is None:
        return row
    if not reading.moved or reading.planned_moved < reading.planned_outside:
        missing = reading.planned_outside - reading.planned_moved
        why = (
            f"none of the {files_of(reading.outside)} already read is below {reading.path}"
            if not reading.moved
            else f"{files_of(missing)} of the planned batch {are(missing)} not below {reading.path}"
        )
        return replace(
            row,
            verdict="incompatible",
            reason=SOURCE_MOVED,
            text=f"{source.describe()} cannot keep its position, as not all files were "
            f"moved: {why}",
            advice=f"move them there too, or leave out {moved_flag(source)}",
        )
    return replace(
        row,
        verdict="set",
        reason=SOURCE_MOVED,
        text=f"{source.describe()} continues after the {files_of(reading.outside)} that were moved "
        f"from {unquote(reading.move.old)} to {unquote(reading.move.new)}",
        advice="",
        move=reading.move,
        elsewhere=True,
    )


def _reset(row: SourcePlan, source: NewSource, reading: FileReading) -> SourcePlan:
    again = reading.moved + reading.files - reading.outside
    if not again or not reading.known:
        return row
    text = (
        f"{source.describe()} starts from scratch: up to {again} of the "
        f"{files_of(reading.files)} already read are still there and are read again"
    )
    return replace(row, checks=(*row.checks, Check("files-reset", RestoreOutcome.NOTE, text)))


def _too_deep(source: NewSource, reading: FileReading) -> Iterable[Check]:
    if not reading.too_deep:
        return
    yield Check(
        "files-too-deep",
        RestoreOutcome.WARNING,
        f"{source.describe()}: the files already read are in subdirectories of {reading.path} that "
        "Spark does not read: Spark reads only files directly in that path, and in directories "
        "named key=value",
        "read with a pattern (in/*), or set recursiveFileLookup",
    )


def without_pattern(path: str) -> str:
    """Return the part of a path before the first name with a pattern."""
    parts = path.split("/")
    place = next((i for i, part in enumerate(parts) if _PATTERN.search(part)), len(parts))
    return "/".join(parts[:place]).rstrip("/") or ("/" if path.startswith("/") else "")


def has_pattern(path: str) -> bool:
    """Return whether Spark interprets a path as a pattern."""
    return _PATTERN.search(path) is not None


def base_of(urls: Sequence[str], path: str | None) -> str | None:
    """Return the directory from which files were read, as their URLs have it.

    ``urls`` are those of the files, with percent escapes; without files the result is None.
    ``path`` is the path that was read, as the program gave it, perhaps relative. If it is unknown
    (None) or fits no URL, the result is the directory that all files have in common.
    """
    if not urls:
        return None
    wanted = [part for part in without_pattern(path or "").split("/") if part not in ("", ".")]
    counts: Counter[str] = Counter()
    for url in urls if wanted else ():
        parts = url.split("/")
        plain = [unquote(part) for part in parts]
        for end in range(len(parts) - 1, len(wanted) - 1, -1):
            if plain[end - len(wanted) : end] == wanted:
                counts["/".join(parts[:end])] += 1
                break
    if counts:
        return counts.most_common(1)[0][0]
    common = urls[0].split("/")[:-1]
    for url in urls:
        parts = url.split("/")[:-1]
        same = next((i for i, (a, b) in enumerate(zip(common, parts)) if a != b), None)  # noqa: B905
        common = common[: min(len(parts), len(common) if same is None else same)]
    return "/".join(common)
