"""The places of the files that a file source has read, and of those that it finds in its path now.

Each directory in which files that were moved are looked for is listed once
(:class:`~flinkish.restore.check.source_files.Directories`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import unquote

from flinkish import storage
from flinkish.checkpoint.format.logs import NO_OFFSET, OffsetEntry, log_offset, parse_offsets
from flinkish.checkpoint.format.names import OFFSETS
from flinkish.connectors.files.ages import AgedFile, age_before, clean_mode, file_ages, max_age_of
from flinkish.connectors.files.offset_checks import base_of, has_pattern, path_in, without_pattern
from flinkish.connectors.files.reading import NO_AGES, Cleaned, FileAges, FileReading
from flinkish.connectors.source_plan import FileMove
from flinkish.connectors.sources import SavedSource, normal_path
from flinkish.errors import StorageError
from flinkish.restore.check.source_files import Directories, named_files
from flinkish.restore.materialize.origin_checkpoints import parsed, read_logs
from flinkish.restore.materialize.source_logs import ReadFile, same_form
from flinkish.restore.recipe import OriginCheckpoint
from flinkish.storage.listing import FileEntry


def file_reading(
    origin: OriginCheckpoint,
    saved: SavedSource,
    path: str,
    url: str,
    options: Mapping[str, str],
    *,
    archive: str | None = None,
    unlisted: str = "",
    gone_on: int | None = None,
) -> FileReading | None:
    """Return where the files of a saved position are.

    Returns None if the position is not one of a file source. Of ``saved``, the directory, the line
    of the offset log, the signature and the options are used. ``url`` is that of the part of
    ``path`` before any pattern; ``options`` have their names in lower case. ``archive`` is the URL
    of the directory in which to look for files that the source has read and archived. ``unlisted``
    is the archive that the savepoint records, if it is not ``archive``; its files are not listed.
    ``gone_on`` is the newest batch of another run that has gone on since the savepoint; under
    another query id it may be lower than the savepoint's. Raises the errors of
    :func:`~flinkish.restore.check.source_files.missing_files`.
    """
    logs = read_logs(origin)
    planned = NO_OFFSET if logs.planned is None else _offset(logs.planned, saved)
    committed_at = _offset(logs.offsets, saved)
    position = committed_at if planned == NO_OFFSET else planned
    if log_offset(position) is None:
        return None
    files = [
        replace(each, path=same_form(each.path))
        for each in named_files(origin, saved.directory, position)
    ]
    newest = _number(committed_at)
    asked = newest if logs.planned is not None else _number(_before(origin, saved))
    below = same_form(url) + "/"
    outside = [each for each in files if not each.path.startswith(below)]
    inside = [each.path[len(below) :] for each in files if each.path.startswith(below)]
    reading = FileReading(
        path=path,
        files=len(files),
        outside=len(outside),
        planned_outside=sum(each.batch > newest for each in outside),
        pattern=has_pattern(path),
        by_name=_is_on(options, "filenameonly"),
        too_deep=_too_deep(inside, path, options),
        only_batch=origin.batch_id == 0 and logs.planned is None,
        asked_outside=sum(asked < each.batch <= newest for each in outside),
    )
    reading = _with_moved(reading, outside, set(inside), newest, saved, below.rstrip("/"))
    there = _Place(below.rstrip("/"), path[len(without_pattern(path)) :] if reading.pattern else "")
    deep = _is_on(options, "recursivefilelookup")
    return replace(
        reading,
        ages=_ages(reading, files, saved, there, options, deep=deep),
        cleaned=_cleaned(
            files,
            there,
            archive,
            unlisted,
            options if saved.options is None else saved.options,
            gone_on,
            (logs.planned or logs.offsets).timestamp_ms,
            deep=deep,
        ),
    )


@dataclass(frozen=True)
class _Place:
    """What a source reads: the URL of a directory, and the pattern that follows it."""

    url: str
    pattern: str

    def files(self, *, deep: bool, above: str = "") -> dict[str, FileEntry] | None:
        """Return the files that Spark finds, by unescaped URL; None if they are not known.

        ``above`` is an archive to look in, which keeps each file under its whole path. The URLs
        of archived files are those that the files had in the source's directory.
        """
        begins = f"{above}{_path_of(self.url)}" if above else self.url
        try:
            root = storage.locate(unquote(begins))
            entries = files_below(root, self.pattern, deep=deep)
            return {f"{unquote(self.url)}/{name}": entry for name, entry in entries}
        except (StorageError, TooManyDirectories, re.error):  # Python lacks some patterns of Hadoop
            return None


def _path_of(url: str) -> str:
    """Return the path of a URL that has a scheme."""
    return "/" + url.partition("://")[2].partition("/")[2]


def _ages(
    reading: FileReading,
    read: Sequence[ReadFile],
    saved: SavedSource,
    place: _Place,
    options: Mapping[str, str],
    *,
    deep: bool,
) -> FileAges:
    """Return the files that are ignored or read again because of their age.

    If there is an age limit now, the directory is listed where the restore may change which files
    are read: if the path is another one, or if there was no limit before, or a longer one.
    """
    now, move = max_age_of(options), reading.move

    def aged(path: str, time: int, batch: int = 0) -> AgedFile:
        if move is not None and path.startswith(f"{move.old}/"):
            path = move.new + path[len(move.old) :]
        plain = unquote(path)
        return AgedFile(plain.rpartition("/")[2] if reading.by_name else plain, time, batch)

    logged = [aged(each.path, each.time, each.batch) for each in read]
    was_read = path_in(saved.signature or "") == normal_path(reading.path)
    is_new = reading.outside and not (was_read and reading.outside < reading.files)
    before = None if is_new else age_before(logged, saved.options, now)
    if now is None or (before is not None and before <= now):
        return NO_AGES
    listed = []
    for name, entry in (place.files(deep=deep) or {}).items():
        with suppress(FileNotFoundError):  # gone since it was listed
            time = int(entry.modified() * 1000)
            listed.append(AgedFile(name.rpartition("/")[2] if reading.by_name else name, time))
    return file_ages(logged, listed, now, before)


def _cleaned(
    read: Sequence[ReadFile],
    place: _Place,
    archive: str | None,
    unlisted: str,
    options: Mapping[str, str],
    gone_on: int | None,
    since: int,
    *,
    deep: bool,
) -> Cleaned | None:
    """Return what other runs have, or may have, read after the position and archived or deleted.

    Returns None if there is no sign of such files. A remote archive is listed only if another run
    is known to have gone on. If none is, a file counts only if it was archived after the newest
    batch was planned (``since``, in milliseconds since the epoch): earlier ones may be from an
    earlier checkpoint of the job, which has read them.
    """
    mode = clean_mode(options)
    if mode is None:
        return None
    if mode == "delete":
        archive, unlisted = None, ""
    remote = archive is not None and not archive.startswith("file:")
    listed = None if archive is None or (remote and gone_on is None) else archive
    read_paths = {unquote(each.path) for each in read}
    there = None if listed is None else place.files(deep=deep, above=listed)
    unread = [] if there is None else [there[each] for each in there.keys() - read_paths]
    archived = sum(gone_on is not None or _has_changed(each, since) for each in unread)
    if archived:
        return Cleaned(mode, archived, unquote(listed or ""), gone_on=gone_on)
    if unlisted or (gone_on is not None and there is None):
        return Cleaned(mode, unlisted=unlisted, gone_on=gone_on)
    return None


def _has_changed(entry: FileEntry, since: int) -> bool:
    """Return whether a file was changed or renamed after a time; False if it is gone by now."""
    try:
        return entry.changed() * 1000 >= since
    except FileNotFoundError:
        return False


def _with_moved(
    reading: FileReading,
    outside: Sequence[ReadFile],
    inside: Collection[str],
    newest: int,
    saved: SavedSource,
    url: str,
) -> FileReading:
    """Return the reading with the numbers of ``outside`` files that were moved to the new path.

    A file was moved if its path relative to the old directory exists below the new one, and is not
    that of a file read there (``inside``).
    """
    kind, _, rest = (saved.signature or "").partition("[")
    old = base_of([each.path for each in outside], rest.removesuffix("]") if kind else None)
    if old is None or old == url:
        return reading
    present = Directories()
    moved = planned = 0
    known = True
    # Files of the planned batch come first, because the number of remote listings is limited.
    for each in sorted(outside, key=lambda each: each.batch <= newest):
        if not each.path.startswith(f"{old}/"):
            continue
        try:
            place = storage.locate(unquote(url + each.path[len(old) :]))
        except StorageError:
            known = False
            continue
        lost = present.lacks(place, needed=True)
        known = known and lost is not None
        if lost is False:
            moved += each.path[len(old) + 1 :] not in inside
            planned += each.batch > newest
    move = FileMove(old, url)
    return replace(reading, moved=moved, planned_moved=planned, known=known, move=move)


def _before(origin: OriginCheckpoint, saved: SavedSource) -> str:
    """Return the line of a source in the entry before the newest committed one, ``-`` for none."""
    path = f"{OFFSETS}/{origin.batch_id - 1}"
    if path not in origin.files:
        return NO_OFFSET
    return _offset(parsed(origin, path, parse_offsets), saved)


def _number(offset: str) -> int:
    position = log_offset(offset)
    return -1 if position is None else position


def _offset(entry: OffsetEntry, saved: SavedSource) -> str:
    """Return the line of a source in an entry of the offset log."""
    offsets = dict(zip(entry.sources, entry.offsets, strict=True))
    named = entry.version > 1 and saved.directory in offsets
    return offsets.get(saved.directory if named else str(saved.entry), NO_OFFSET)


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "false").strip().lower() == "true"


def _too_deep(inside: Sequence[str], path: str, options: Mapping[str, str]) -> bool:
    """Return whether there are files below a path, but all in directories that Spark skips."""
    if not inside or has_pattern(path) or _is_on(options, "recursivefilelookup"):
        return False
    return not any(all("=" in unquote(part) for part in p.split("/")[:-1]) for p in inside)


#: Maximum number of directories that are listed for one source.
MAX_DIRECTORIES = 1000
_HIDDEN = re.compile(r"[._](?!.*=)")
_COPYING = "._COPYING_"


class TooManyDirectories(Exception):
    """More directories than :data:`MAX_DIRECTORIES` would have to be listed."""


def files_below(root: str, pattern: str, *, deep: bool) -> Iterator[tuple[str, FileEntry]]:
    """Yield the path below ``root`` of each file that Spark finds, and its entry.

    The files are found as by ``InMemoryFileIndex``, which skips hidden files. ``pattern`` is the
    part of the source's path after ``root`` that has wildcards. Below the directories that it
    matches (below ``root`` if it is empty), only directories named ``key=value`` are listed, or all
    if ``deep`` (``recursiveFileLookup``).

    Raises TooManyDirectories, StorageError for a directory that cannot be listed, and ``re.error``
    for a pattern that Python does not have.
    """
    budget = iter(range(MAX_DIRECTORIES))
    yield from _below(root, "", [part for part in pattern.split("/") if part], budget, deep=deep)


def _below(
    root: str, place: str, parts: list[str], budget: Iterator[int], *, deep: bool
) -> Iterator[tuple[str, FileEntry]]:
    if next(budget, None) is None:
        raise TooManyDirectories
    listing = storage.list_directory(storage.join(root, place) if place else root)
    wanted = re.compile(_regex(parts[0])) if parts else None
    for name, entry in listing.files.items():
        if _HIDDEN.match(name) or name.endswith(_COPYING) or len(parts) > 1:
            continue
        if wanted is None or wanted.fullmatch(name):
            yield f"{place}/{name}".lstrip("/"), entry
    for name in listing.directories:
        is_listed = deep or "=" in name if wanted is None else wanted.fullmatch(name)
        if is_listed and not _HIDDEN.match(name):
            yield from _below(root, f"{place}/{name}".lstrip("/"), parts[1:], budget, deep=deep)


def _regex(glob: str) -> str:
    """Return the regular expression of one name in a Hadoop path pattern. Pure."""
    expression, depth = "", 0
    characters = iter(glob)
    for each in characters:
        if each == "\\":
            expression += re.escape(next(characters, ""))
        elif each in "*?":
            expression += ".*" if each == "*" else "."
        elif each == "[":
            inside = "".join(iter(lambda: next(characters, "]"), "]"))
            negated = inside[:1] in ("^", "!")
            expression += f"[{'^' if negated else ''}{inside[negated:]}]"
        elif each == "{" or (each == "}" and depth):
            depth += 1 if each == "{" else -1
            expression += "(?:" if each == "{" else ")"
        else:
            expression += "|" if each == "," and depth else re.escape(each)
    return expression
