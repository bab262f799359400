"""What a connector is asked in the driver about a source."""

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

    ``session`` is the query's; ``offer`` is the saved query that the position is from, and
    ``gone_on`` looks up the newest batch of other runs of it, if it is later than the saved one.
    ``at_ms`` is a time whose offsets are wanted too, in milliseconds since the epoch.
    """

    session: Any
    source: NewSource
    saved: SavedSource
    offer: RestorableQuery
    gone_on: Callable[[], int | None]
    at_ms: int | None = None


def within(seconds: float, make: Callable[[], _T], drop: Callable[[_T], object]) -> _T:
    """Return what ``make`` returns; for calls that no setting of their own limits.

    Parameters
    ----------
    seconds
        How long it may take. It cannot be ended: it goes on in a thread of its own.
    make
        The call. What it raises is raised here.
    drop
        Called with a result that comes too late.

    Raises
    ------
    TimeoutError
        It takes longer.
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
