"""The engine's errors, and the conversion of errors of the checkpoint format into them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flinkish.checkpoint.format import errors as format_errors


class EngineError(Exception):
    """Base class of everything that the engine refuses or fails at."""


class LostRows(EngineError):
    """The rows written differ from the rows read; the output is discarded."""


class StateFormatError(EngineError):
    """A state file is damaged, truncated, foreign, or written by a newer version.

    Attributes
    ----------
    file
        Path of the file, relative to the store's directory.
    offset
        Position in the file, bytes; None where there is none. Where it is a position in the file's
        uncompressed content, ``reason`` says so.
    reason
        What is wrong.
    """

    def __init__(self, file: str, offset: int | None, reason: str) -> None:
        place = f"{file} at byte {offset}" if offset is not None else file
        super().__init__(f"{place}: {reason}")
        self.file = file
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[type[StateFormatError], tuple[str, int | None, str]]:
        # Spark's workers send errors to the driver as pickles.
        return type(self), (self.file, self.offset, self.reason)


class MissingStateFile(StateFormatError):
    """A file that the state version needs is missing."""


class UnsupportedState(StateFormatError):
    """A file has a form that Spark supports and the engine does not read."""


class CannotMigrate(EngineError):
    """The state cannot become the target state; the message says why and what to do."""


@contextmanager
def engine_errors() -> Iterator[None]:
    """Convert errors of the checkpoint format into the engine's errors.

    Use it as a context manager, or as a decorator of a function.

    Raises
    ------
    StateFormatError
        A file is damaged; MissingStateFile or UnsupportedState in these cases.
    EngineError
        The content to be written has no form in the checkpoint format.
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
