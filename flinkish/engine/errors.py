"""The engine's errors. Damaged files raise the errors of :mod:`flinkish.checkpoint.format`."""

from __future__ import annotations

from typing import Final

from flinkish.annotations import public_evolving
from flinkish.checkpoint.format.errors import CannotWrite
from flinkish.checkpoint.format.errors import CheckpointFormatError as StateFormatError
from flinkish.checkpoint.format.errors import MissingStateFile as MissingStateFile
from flinkish.checkpoint.format.errors import UnsupportedCheckpointFormat as UnsupportedState
from flinkish.errors import Incompatible

__all__ = [
    "PERMANENT",
    "CannotMigrate",
    "EngineError",
    "LostRows",
    "MissingStateFile",
    "StateFormatError",
    "UnsupportedState",
]


@public_evolving
class EngineError(Incompatible):
    """The engine refuses an operation, or fails at it."""


class LostRows(EngineError):
    """The rows written differ from the rows read or given; the output is discarded."""


@public_evolving
class CannotMigrate(EngineError):
    """The state cannot become the target state; the message says why and what to do."""


#: Errors that a retried task would meet again; storage errors are not among them.
PERMANENT: Final = (EngineError, StateFormatError, CannotWrite)
