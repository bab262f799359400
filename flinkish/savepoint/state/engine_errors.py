"""The engine's errors as a user reads them, with the query concerned and what to do about them.

A savepoint's files may contain anything, even if their digests match: anyone who can write the
files can write digests. The exceptions that damaged content may cause (:data:`DAMAGE`) are
therefore reported as damage to the files, not as internal errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flinkish.engine.errors import PERMANENT, StateFormatError, UnsupportedState
from flinkish.engine.rows.unsafe_rows import UnknownType
from flinkish.errors import Corrupt, FlinkishError, Incompatible, UnsupportedFormat

#: Exceptions that damaged content may cause, besides the engine's own errors.
DAMAGE = (
    *(ArithmeticError, AssertionError, LookupError, TypeError, ValueError),
    *(MemoryError, RecursionError, FileNotFoundError),
)
_HINT = "flinkish savepoint verify --level deep PATH shows what is damaged"


@contextmanager
def converted_errors(query: str | None = None) -> Iterator[None]:
    """Convert errors that the engine raises in the context; the new ones name ``query``, if given.

    They become UnsupportedFormat for a form or type of state that the engine does not read,
    Corrupt for a damaged or missing file, and Incompatible if the engine refuses the operation.
    """
    who = f"query {query}: " if query is not None else ""
    try:
        yield
    except UnsupportedState as error:
        hint = "see the README for what the engine reads"
        raise UnsupportedFormat(f"{who}{error}", hint=hint) from error
    except UnknownType as error:
        raise UnsupportedFormat(f"{who}{error}") from error
    except StateFormatError as error:
        raise Corrupt(f"{who}{error}", hint=_HINT) from error
    except PERMANENT as error:
        raise Incompatible(f"{who}{error}") from error
    except DAMAGE as error:
        raise Corrupt(f"{who}{damage(error)}", hint=_HINT) from error


def damage(error: BaseException) -> str:
    """Describe what is wrong with a file, from the error that was raised while it was read."""
    if isinstance(error, MemoryError):
        return "reading it needs more memory than this process may have"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, StateFormatError):
        return error.reason
    if isinstance(error, FlinkishError):
        return str(error)
    return f"{type(error).__name__}: {error}"
