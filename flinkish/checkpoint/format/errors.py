"""Errors of parsing or writing a checkpoint's files."""

from __future__ import annotations

from flinkish.annotations import public_evolving
from flinkish.errors import Corrupt, Incompatible, UnsupportedFormat


@public_evolving
class CheckpointFormatError(Corrupt, ValueError):
    """A file is damaged, truncated, or not one that Spark writes.

    ``file`` is as named by the caller of the parser, "" if none is known; ``offset`` is a position
    in it, in bytes, or in its uncompressed content if ``reason`` says so.
    """

    def __init__(self, file: str, offset: int | None, reason: str) -> None:
        self.file = file
        self.offset = offset
        self.reason = reason
        place = f"{file} at byte {offset}" if offset is not None else file
        super().__init__(f"{place}: {reason}" if place else reason)

    @property
    def detail(self) -> str:
        """Position and reason, for a message that names the file itself."""
        return self.reason if self.offset is None else f"at byte {self.offset}: {self.reason}"

    def __reduce__(self) -> tuple[type[CheckpointFormatError], tuple[str, int | None, str]]:
        # Errors are pickled between processes, also from Spark's workers to the driver.
        return type(self), (self.file, self.offset, self.reason)


class UnsupportedCheckpointFormat(UnsupportedFormat, CheckpointFormatError):
    """A file of a newer version than supported, or state of a store that is not Spark's."""


class MissingStateFile(CheckpointFormatError):
    """A file that a state version needs is missing."""


class CannotWrite(Incompatible, ValueError):
    """The content to be written has no form in Spark's format."""
