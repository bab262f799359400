"""The engine's errors: its own small tree, and what errors of the checkpoint's format become."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flinkish.checkpoint.format import errors as format_errors


class EngineError(Exception):
    """Anything the engine refuses or fails at."""


class LostRows(EngineError):
    """What was written is not what was read: nothing of it is kept."""


class StateFormatError(EngineError):
    """A state file is damaged, cut short, foreign, or written by a newer version.

    ``file`` is its path relative to the store's directory. ``offset`` is the place in that file, or
    None where there is none to name; ``reason`` says so where the place is one of the file's
    uncompressed content.
    """

    def __init__(self, file: str, offset: int | None, reason: str) -> None:
        place = f"{file} at byte {offset}" if offset is not None else file
        super().__init__(f"{place}: {reason}")
        self.file = file
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[type[StateFormatError], tuple[str, int | None, str]]:
        # Errors travel from Spark's workers to the driver as pickles.
        return type(self), (self.file, self.offset, self.reason)


class MissingStateFile(StateFormatError):
    """A file which the version needs is not there."""


class UnsupportedState(StateFormatError):
    """A file in a form that Spark knows and the engine does not read."""


class CannotMigrate(EngineError):
    """The state cannot become what was asked for; the message says why and what to do."""


@contextmanager
def engine_errors() -> Iterator[None]:
    """Inside (of a function, as its decorator), errors of the checkpoint's format are the engine's.

    Raises
    ------
    StateFormatError: a file is damaged; MissingStateFile, UnsupportedState where it is these.
    EngineError: what was asked to be written has no form in the format.
    """
    try:
        yield
    except format_errors.CheckpointFormatError as error:
        kind = StateFormatError
        if isinstance(error, format_errors.MissingStateFile):
            kind = MissingStateFile
        elif isinstance(error, format_errors.UnsupportedCheckpointFormat):
            kind = UnsupportedState
        raise kind(error.name, error.offset, error.reason) from error
    except format_errors.CannotWrite as error:
        raise EngineError(str(error)) from error
