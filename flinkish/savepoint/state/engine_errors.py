"""The engine's errors in flinkish's words, with their exit codes.

A savepoint's files may hold anything, also where their digests hold: whoever can write the files
can write digests. So whatever reading them comes to is damage of theirs, never an error of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flinkish.engine.errors import EngineError, StateFormatError, UnsupportedState, engine_errors
from flinkish.engine.rows.unsafe_rows import UnknownType
from flinkish.errors import Corrupt, FlinkishError, Incompatible, UnsupportedFormat

#: What reading damaged content may come to, beside the engine's own errors.
DAMAGE = (
    *(ArithmeticError, AssertionError, LookupError, TypeError, ValueError),
    *(MemoryError, RecursionError, FileNotFoundError),
)
_HINT = "flinkish savepoint verify --level deep shows what is damaged"


@contextmanager
def in_our_words(query: str | None = None) -> Iterator[None]:
    """Inside, errors of the engine become ours; ``query`` is named in them, if it is given.

    Raises UnsupportedFormat, Corrupt, Incompatible.
    """
    who = f"query {query}: " if query is not None else ""
    try:
        with engine_errors():
            yield
    except UnsupportedState as error:
        hint = "see the README for what the engine reads"
        raise UnsupportedFormat(f"{who}{error}", hint=hint) from error
    except StateFormatError as error:
        raise Corrupt(f"{who}{error}", hint=_HINT) from error
    except UnknownType as error:
        raise UnsupportedFormat(f"{who}{error}") from error
    except EngineError as error:
        raise Incompatible(f"{who}{error}") from error
    except DAMAGE as error:
        raise Corrupt(f"{who}{damage(error)}", hint=_HINT) from error


def damage(error: BaseException) -> str:
    """What is wrong with a file, by the error that reading it came to."""
    if isinstance(error, MemoryError):
        return "reading it needs more memory than this process may have"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, StateFormatError):
        return error.reason
    if isinstance(error, (FlinkishError, EngineError)):
        return str(error)
    return f"{type(error).__name__}: {error}"
