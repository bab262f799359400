"""How many requests to remote stores are in flight at once, and how many bytes are in memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future

_DEFAULT = 64
_connections = _DEFAULT


def set_connections(number: int) -> None:
    """Set how many requests to remote stores may be in flight at once in this process.

    The number is the option ``execution.savepoint.transfers``. A store that is already open keeps
    the number of connections that it was opened with.
    """
    global _connections
    _connections = max(1, number)


def connections() -> int:
    """Return how many requests to remote stores may be in flight at once."""
    return _connections


class Room:
    """A budget of bytes that may be in memory at once; a thread that needs more waits."""

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, count: int) -> Iterator[None]:
        """Reserve ``count`` bytes for the duration of the context, at most the whole budget.

        Must not be nested: two threads that each hold a share and wait for more would deadlock.
        """
        count = min(count, self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= count)
            self._free -= count
        try:
            yield
        finally:
            with self._changed:
                self._free += count
                self._changed.notify_all()


def in_flight(function: Callable[[Any], Any], items: Iterable[Any], workers: int) -> Iterator[Any]:
    """Yield the results of ``map`` in order, with a bounded number of concurrent calls.

    Memory is bounded. If a call fails, its error is raised once the running calls have ended.
    """
    from concurrent.futures import ThreadPoolExecutor

    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="flinkish-transfer") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException:
            for future in waiting:
                future.cancel()
            raise


def requests_in_flight(
    function: Callable[[Any], Any], items: Iterable[Any], batch: int = 1
) -> Iterator[Any]:
    """Yield the results of calls that send requests to a remote store, as :func:`in_flight` does.

    ``batch`` is the number of requests that one call has in flight. With batches there are fewer
    concurrent calls, but enough to use the connections while some calls await their last request.
    """
    workers = connections() if batch == 1 else max(2, 2 * connections() // batch)
    yield from in_flight(function, items, workers)
