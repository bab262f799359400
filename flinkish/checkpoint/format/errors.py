"""Errors of parsing or writing a checkpoint's files."""

from __future__ import annotations


class CheckpointFormatError(ValueError):
    """A file is damaged, truncated, or not one that Spark writes.

    Attributes
    ----------
    name
        The file, as named by the caller of the parser.
    offset
        Position in the file, bytes; None where there is none.
    reason
        What is wrong there.
    """

    def __init__(self, name: str, offset: int | None, reason: str) -> None:
        self.name = name
        self.offset = offset
        self.reason = reason
        place = f"{name} at byte {offset}" if offset is not None else name
        super().__init__(f"{place}: {reason}")

    @property
    def detail(self) -> str:
        """Position and reason, for a message that names the file itself."""
        return self.reason if self.offset is None else f"at byte {self.offset}: {self.reason}"

    def __reduce__(self) -> tuple[type[CheckpointFormatError], tuple[str, int | None, str]]:
        # Errors are pickled between processes.
        return type(self), (self.name, self.offset, self.reason)


class UnsupportedCheckpointFormat(CheckpointFormatError):
    """A file of a newer version than supported, or state of a store that is not Spark's."""


class MissingStateFile(CheckpointFormatError):
    """A file that a state version needs is missing."""


class CannotWrite(ValueError):
    """The content to be written has no form in Spark's format."""
