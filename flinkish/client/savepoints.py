"""A savepoint on storage: its contents, its verification, its disposal, its state as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flinkish.annotations import public
from flinkish.client.context import Agree, Context, requester
from flinkish.client.reporter import SilentReporter, WriterProgress
from flinkish.client.state import first_rows, open_state
from flinkish.config import Config
from flinkish.errors import (
    ConsentNeeded,
    Corrupt,
    FlinkishError,
    PartialFailure,
    RegistryError,
    SavepointNotFound,
)
from flinkish.units import size_text

if TYPE_CHECKING:
    from flinkish.messages.results import SavepointCopy
    from flinkish.savepoint.directory.dispose import Disposed
    from flinkish.savepoint.format import reader
    from flinkish.savepoint.format.contents import Header, QueryRecord
    from flinkish.savepoint.manage.verify import Verification


@public
@dataclass(frozen=True)
class Savepoint:
    """An opened savepoint, whose metadata was read and checked.

    Parameters
    ----------
    path : str
        Its location.
    files, bytes : int
        Number and size of its data files.
    left_out : mapping
        The reason, by name, for each query that is not in it. Known only for a savepoint that was
        just taken.
    """

    path: str
    files: int
    bytes: int
    left_out: Mapping[str, str] = field(default_factory=dict)
    _opened: reader.OpenSavepoint = field(repr=False, compare=False, kw_only=True)
    _context: Context | None = field(repr=False, compare=False, kw_only=True, default=None)

    @classmethod
    def open(cls, path: str) -> Savepoint:
        """Open the savepoint at a path or a URL.

        Parameters
        ----------
        path : str
            The savepoint's directory, or the ``_metadata`` in it.

        Returns
        -------
        Savepoint
            The opened savepoint. Its data files are not checked (see :meth:`verify`).

        Raises
        ------
        SavepointNotFound
            There is no savepoint.
        Corrupt, UnsupportedFormat
            Its metadata is damaged, or of a newer flinkish.
        StorageError
            It cannot be read.
        """
        return open_savepoint(None, path)

    @property
    def header(self) -> Header:
        """The job, the time, the trigger and the versions of the savepoint."""
        return self._opened.header

    @property
    def queries(self) -> tuple[QueryRecord, ...]:
        """Its queries, each with its batch, offsets, operators and sizes."""
        return self._opened.queries

    def describe(self) -> dict[str, Any]:
        """Return the contents of the savepoint as plain data."""
        from flinkish.savepoint.format.reader import describe

        contents: dict[str, Any] = describe(self._opened)["savepoint"]
        return contents

    def verify(self, level: str = "full") -> Verification:
        """Check that every file is there, complete and readable.

        Parameters
        ----------
        level : str
            ``quick`` checks names and sizes, ``full`` also the digests of all files, and ``deep``
            also decodes every state row.

        Returns
        -------
        Verification
            Has ``ok``, and the bad files when it is False.

        Raises
        ------
        UsageError
            There is no such level, or ``deep`` lacks the engine's libraries.
        UnsupportedFormat, StorageError
            The savepoint cannot be read.
        """
        from flinkish.savepoint import reporter
        from flinkish.savepoint.manage.verify import verify

        return verify(self._opened, level, reporter.SilentSavepointReporter())

    def dispose(self, *, dry_run: bool = False) -> Disposed:
        """Delete the savepoint; files that other savepoints use are kept.

        Parameters
        ----------
        dry_run : bool
            Touch nothing, and return what would be done.

        Returns
        -------
        Disposed
            What was deleted, what is kept and why.

        Raises
        ------
        SavepointNotFound
            The savepoint is gone, and the registry has recorded that.
        Corrupt, UnsupportedFormat
            Its own files cannot be determined; nothing is touched.
        FlinkishError
            Another savepoint may use its files, but cannot be read; nothing is touched.
        StorageError
            It cannot be deleted.
        """
        with _context_of(self._context) as context:
            return dispose_savepoint(context, self.path, dry_run=dry_run)

    def read_state(self, session: Any, name: str) -> Any:
        """Return a state as a DataFrame with the columns ``partition``, ``key`` and ``value``.

        Typed state (:mod:`flinkish.state`) is decoded as far as the savepoint describes it.

        Parameters
        ----------
        session : SparkSession
            Of Spark 3.5 or newer; its workers must be able to import flinkish's engine.
        name : str
            ``[QUERY/]UID[/STATE]``: an operator's uid, operator id or ordinal, and one of its
            states when it has several.

        Returns
        -------
        DataFrame
            Lazy: the rows are read when it is computed, each partition by one task.

        Raises
        ------
        UsageError
            No state, or several, match; or the engine's libraries are missing.
        Corrupt, UnsupportedFormat
            The state's metadata cannot be read.
        """
        state = open_state(self._opened, name)
        from flinkish.engine.tables.spark_frames import read_table_on

        return read_table_on(session, state.source, state.table)

    def rows(self, name: str, limit: int = 20) -> tuple[dict[str, Any], ...]:
        """Return the first rows of a state as plain data, without Spark.

        ``name`` and the errors are as for :meth:`read_state`, and Corrupt or UnsupportedFormat is
        raised also if a file cannot be read; ``limit`` is the largest number of rows.
        """
        state = open_state(self._opened, name)
        return tuple(dict(row) for row in first_rows(state, limit).rows)


def open_savepoint(
    context: Context | None, path: str, left_out: Mapping[str, str] | None = None
) -> Savepoint:
    """Open a savepoint; its disposal is recorded in the registry of ``context``.

    Errors are those of :meth:`Savepoint.open`.
    """
    from flinkish.savepoint.format import reader

    opened = reader.open_savepoint(path)
    return Savepoint(
        opened.path,
        opened.files,
        opened.bytes,
        dict(left_out or {}),
        _opened=opened,
        _context=context,
    )


@dataclass(frozen=True)
class Verified:
    """The outcome for one savepoint; ``verification`` is None if it cannot be read (``error``)."""

    path: str
    verification: Verification | None
    error: FlinkishError | None


def verify_savepoints(
    paths: Sequence[str], level: str, on_verified: Callable[[Verified], object]
) -> FlinkishError | None:
    """Verify several savepoints, as :meth:`Savepoint.verify` does; return one error, or None.

    ``on_verified`` is called with each outcome. The error is Corrupt if any savepoint is damaged,
    else PartialFailure. If there is only one savepoint, its own error is returned.
    """
    errors = []
    for path in paths:
        verification: Verification | None = None
        error: FlinkishError | None = None
        try:
            verification = Savepoint.open(path).verify(level)
            if not verification.ok:
                error = verification.error()
        except FlinkishError as unreadable:
            error = unreadable
        on_verified(Verified(path, verification, error))
        if error is not None:
            errors.append(error)
    if len(paths) == 1 or not errors:
        return errors[0] if errors else None
    damaged = [error for error in errors if isinstance(error, Corrupt)]
    words = f"{len(errors)} of {len(paths)} savepoints are damaged or could not be read"
    hint = "each is named above; --json names every bad file"
    if damaged:
        return Corrupt(f"{words}: {damaged[0].message}", hint=hint)
    return PartialFailure(f"{words}: {errors[0].message}", hint=hint)


def diff_savepoints(first: str, second: str) -> dict[str, Any]:
    """Return the differences between two savepoints as plain data; nothing is changed.

    ``first``, ``second``: the savepoints ``a`` and ``b``, whose locations are in the result under
    these names.

    Raises SavepointNotFound, Corrupt, UnsupportedFormat or StorageError if one cannot be read.
    """
    from flinkish.savepoint.format import reader
    from flinkish.savepoint.manage.diff import compare

    a, b = reader.open_savepoint(first), reader.open_savepoint(second)
    differences = compare((a.header, a.queries), (b.header, b.queries))
    return {"a": a.path, "b": b.path, **differences}


def copy_savepoint(
    context: Context, path: str, directory: str, *, dry_run: bool = False
) -> SavepointCopy:
    """Copy a savepoint, whole and under its own name, into a directory on any storage.

    The copy is added to the registry; a failure of that is only a warning. Call the function again
    after an interruption: files that are already in place are not sent again.

    Parameters
    ----------
    context : Context
        Its reporter receives the progress, and its registry the copy.
    path : str
        The savepoint.
    directory : str
        The parent of the copy's directory.
    dry_run : bool
        Only find out what would be sent.

    Raises
    ------
    SavepointNotFound
        There is no savepoint.
    Corrupt, UnsupportedFormat
        A file is missing, or does not have its recorded digest; or the metadata is damaged, or of a
        newer flinkish.
    UsageError
        The copy would be the savepoint itself, or inside it.
    StorageError
        Another savepoint of that name is there, or a file cannot be read or written.
    Locked
        Another process writes a savepoint of the job there, or removes files.
    """
    from flinkish.launch.job_origin import record_savepoint
    from flinkish.savepoint.write.copying import copy_savepoint as copied

    reporter = WriterProgress(context.reporter)
    copy = copied(path, directory, owner=requester(), reporter=reporter, dry_run=dry_run)
    if not dry_run:
        try:
            record_savepoint(context.writable_registry, copy.path)
        except RegistryError as error:
            context.reporter.warning(
                f"{copy.path} could not be added to the registry: {error.message}"
            )
    return copy


def dispose_savepoint(
    context: Context,
    path: str,
    *,
    agree: Agree | None = None,
    dry_run: bool = False,
    tell: Callable[[str], object] | None = None,
) -> Disposed:
    """Delete a savepoint and record that in the registry; see :meth:`Savepoint.dispose`.

    If it is gone, but recorded, its disposal was cut off, and is only recorded. Where the directory
    around it is missing too, it may not be mounted here, and counts as not found.

    ``agree``: asked, with the number and size of the files, before anything is deleted.
    ``dry_run``: touch nothing, and do not ask. ``tell``: called with the location of each file or
    directory that is deleted.

    Raises ConsentNeeded if ``agree`` returned False, RegistryError if the disposal can only be
    recorded and that fails, and the errors of :meth:`Savepoint.dispose`.
    """
    needed, records = _known_of(context, path)
    try:
        return _disposed(context, path, needed, records, agree, dry_run=dry_run, tell=tell)
    except SavepointNotFound:
        if not records or not _may_be_seen(records[0]):
            raise
        return _already_disposed(context, records, dry_run=dry_run)


def _may_be_seen(path: str) -> bool:
    """Return whether a savepoint at a location would be seen, so that it is gone if it is not."""
    from flinkish import storage

    return not storage.is_local(path) or storage.exists(storage.parent(path))


def _already_disposed(context: Context, records: Sequence[str], *, dry_run: bool) -> Disposed:
    """Record the disposal of a savepoint that is gone."""
    from flinkish import storage
    from flinkish.savepoint.directory.dispose import Disposed

    path = records[0]
    context.reporter.note(f"Savepoint '{path}' is gone already; only its record is left.")
    for record in () if dry_run else records:
        context.registry.mark_disposed(record)
    return Disposed(path, 0, 0, 0, (), gone=not storage.exists(path))


def _disposed(
    context: Context,
    path: str,
    needed: str | None,
    records: Sequence[str],
    agree: Agree | None,
    *,
    dry_run: bool,
    tell: Callable[[str], object] | None,
) -> Disposed:
    """Dispose of a savepoint that is there."""
    from flinkish.client.pruning import tell_registry
    from flinkish.savepoint.directory.dispose import dispose

    if needed is not None:
        context.reporter.warning(f"the savepoint {path} is still needed: {needed}")
    if dry_run:
        return dispose(path, dry_run=True, tell=tell)
    if agree is not None:
        plan = dispose(path, dry_run=True)
        what = f"the savepoint {plan.path} ({plan.removed} files, {size_text(plan.bytes)})"
        if not agree(f"Delete {what}?"):
            raise ConsentNeeded(
                f"disposing of {what} needs confirmation",
                hint="use --yes to delete it, or --dry-run to see what would be deleted",
            )
        context.reporter.note(f"Disposing savepoint '{plan.path}'.")
    disposed = dispose(path, tell=tell)
    tell_registry(context, [disposed.path, *records])
    return disposed


def _known_of(context: Context, path: str) -> tuple[str | None, list[str]]:
    """Return why a prune would keep a savepoint, and the paths by which the registry recorded it.

    If the registry cannot be read, return None and no paths, and warn.
    """
    from flinkish.registry.in_use import savepoints_in_use
    from flinkish.savepoint.directory.places import place_keys, savepoint_meant
    from flinkish.savepoint.format.reader import savepoint_directory
    from flinkish.savepoint.manage.candidates import why_needed

    meant = savepoint_meant(path)
    # Of a savepoint that is gone, a path to its _metadata leads nowhere.
    keys = place_keys(meant) | place_keys(savepoint_directory(path))
    try:
        in_use = savepoints_in_use(context.registry)
    except RegistryError as error:
        context.reporter.warning(f"cannot tell whether a job still needs {path}: {error.message}")
        return None, []
    recorded = [p for p in in_use.recorded if not keys.isdisjoint(place_keys(p))]
    return why_needed(meant, in_use.protected), recorded


@contextmanager
def _context_of(context: Context | None) -> Iterator[Context]:
    """Yield the context, or a new one from the configuration for the duration of the block."""
    if context is not None:
        yield context
        return
    with Context(Config.load(), SilentReporter()) as own:
        yield own
