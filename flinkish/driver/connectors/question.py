"""The question that a connector answers about a source, in the driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from flinkish.connectors.sources import NewSource, SavedSource
from flinkish.restore.origin.restore_origin import RestorableQuery

_T = TypeVar("_T")


@dataclass(frozen=True)
class SourceQuestion:
    """A source, and the position from which it is to continue.

    ``session`` is the query's. ``offer`` is the saved query of the position. ``gone_on`` returns
    the newest batch of other runs, or None if none has gone on since the query was saved; under
    another query id it may be below the saved batch. ``at_ms`` is a time (milliseconds since the
    epoch) whose offsets are wanted too.
    """

    session: Any
    source: NewSource
    saved: SavedSource
    offer: RestorableQuery
    gone_on: Callable[[], int | None]
    at_ms: int | None = None


def within(seconds: float, make: Callable[[], _T], drop: Callable[[_T], object]) -> _T:
    """Return what ``make`` returns, for calls whose time no setting limits.

    Parameters
    ----------
    seconds
        How long the call may take. A longer call goes on in its thread, as nothing can end it.
    make
        The call. Its exceptions are raised to the caller.
    drop
        Called with a result that comes too late.

    Raises
    ------
    TimeoutError
        The call takes longer.
    """
    lock = threading.Lock()
    results: list[_T] = []
    errors: list[BaseException] = []
    has_left = False

    def run() -> None:
        try:
            result = make()
        except BaseException as error:  # noqa: BLE001 - raised by the caller, if it still waits
            errors.append(error)
            return
        with lock:
            results.append(result)
            if not has_left:
                return
        drop(result)

    thread = threading.Thread(target=run, name="flinkish-within", daemon=True)
    thread.start()
    thread.join(seconds)
    with lock:
        has_left = True
        if results:
            return results[0]
    if errors:
        raise errors[0]
    raise TimeoutError
