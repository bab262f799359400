"""The engine's errors in flinkish's words, with their exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flinkish.engine.errors import EngineError, StateFormatError, UnsupportedState
from flinkish.engine.unsafe_rows import UnknownType
from flinkish.errors import Corrupt, Incompatible, UnsupportedFormat


@contextmanager
def in_our_words(query: str | None = None) -> Iterator[None]:
    """Inside, errors of the engine become ours; ``query`` is named in them, if it is given.

    Raises UnsupportedFormat, Corrupt, Incompatible.
    """
    who = f"query {query}: " if query is not None else ""
    try:
        yield
    except UnsupportedState as error:
        hint = "see the README for what the engine reads"
        raise UnsupportedFormat(f"{who}{error}", hint=hint) from error
    except StateFormatError as error:
        hint = "flinkish savepoint verify --level deep shows what is damaged"
        raise Corrupt(f"{who}{error}", hint=hint) from error
    except EngineError as error:
        raise Incompatible(f"{who}{error}") from error
    except UnknownType as error:
        raise UnsupportedFormat(f"{who}{error}") from error
