"""What parsing or writing a checkpoint's files may come to."""

from __future__ import annotations


class CheckpointFormatError(ValueError):
    """A file is damaged, cut short, or none that Spark writes.

    Attributes
    ----------
    name: the file, as whoever parsed it has named it.
    offset: the place in the file, bytes; None where there is none to name.
    reason: what is wrong there.
    """

    def __init__(self, name: str, offset: int | None, reason: str) -> None:
        self.name = name
        self.offset = offset
        self.reason = reason
        place = f"{name} at byte {offset}" if offset is not None else name
        super().__init__(f"{place}: {reason}")

    @property
    def detail(self) -> str:
        """Place and reason, for a message that names the file itself."""
        return self.reason if self.offset is None else f"at byte {self.offset}: {self.reason}"

    def __reduce__(self) -> tuple[type[CheckpointFormatError], tuple[str, int | None, str]]:
        # Errors travel between processes as pickles.
        return type(self), (self.name, self.offset, self.reason)


class UnsupportedCheckpointFormat(CheckpointFormatError):
    """A file of a newer version than is known here, or state of somebody else's store."""


class MissingStateFile(CheckpointFormatError):
    """A file which a state version needs is not there."""


class CannotWrite(ValueError):
    """What was asked to be written has no form in Spark's format."""
