"""What is under way at once is bounded: in calls, and in bytes of memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any


class Room:
    """A number of bytes that may be in memory at once; whoever needs more waits."""

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, count: int) -> Iterator[None]:
        """Have ``count`` bytes for the time of the context, or all there are when it is more.

        Not to be nested: two that each hold a part and wait for more would wait for ever.
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
    """``map`` with a bounded number of calls at once; results in order, memory bounded.

    When a call fails the others that run are waited for, and its error is raised.
    """
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
