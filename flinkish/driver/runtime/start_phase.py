"""The phase in which a program starts its queries; a savepoint must include them all.

A program starts its queries one after the other. It has started them all when it ends, or when it
waits for one of them; if ``run --queries N`` announced their number, a wait does not count, but N
started queries do. Until then the job is not RUNNING, and a savepoint waits. A program that does
none of this (it sleeps in a loop, say) counts as started after a quiet time. Its job is then
*incomplete* for a while, or until N queries have started if N was announced: the program may still
start a query that a savepoint does not include.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Seconds after the last start of a query after which a program that only asks for the state of its
#: queries counts as waiting for them.
ASKED = 2.0
#: Seconds after the last start after which a program that does nothing with its queries counts as
#: started; with an announced number of queries, the seconds to wait for the next of them.
QUIET = 10.0
QUIET_ANNOUNCED = 60.0
#: Seconds after the last start after which the job of a program that does not wait is complete,
#: unless the number of its queries was announced.
COMPLETE = 600.0


class StartPhase:
    """Follows the starts of one job's queries; thread-safe.

    ``announced`` is the number of queries that the program starts, if known. ``clock`` returns
    seconds (``time.monotonic``).
    """

    def __init__(
        self, announced: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._announced = announced
        #: Seconds after which a program that does nothing with its queries counts as started.
        self.quiet = QUIET if announced is None else QUIET_ANNOUNCED
        self._clock = clock
        self._lock = threading.Lock()
        self._in_flight: list[str] = []
        #: How many starts have begun, also those of a query that is started again.
        self.starts = 0
        self._started: set[str] = set()
        self._last: float | None = None
        self._over = False
        self._certain = False

    @property
    def is_over(self) -> bool:
        """Whether the program has started its queries, as far as can be known."""
        return self._over

    @property
    def in_flight(self) -> tuple[str, ...]:
        """The names of the queries that are being started now."""
        with self._lock:
            return tuple(self._in_flight)

    @property
    def missing(self) -> int:
        """The number of announced queries that have not started."""
        return max((self._announced or 0) - len(self._started), 0)

    @property
    def is_complete(self) -> bool:
        """Whether the program will start no other query, as far as can be known."""
        if self._announced is not None:
            return self.missing == 0
        quiet = self._last is not None and self._clock() - self._last >= COMPLETE
        return self._certain or quiet

    @contextmanager
    def starting(self, name: str) -> Iterator[None]:
        """Mark a query as being started."""
        with self._lock:
            self._in_flight.append(name)
            self.starts += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_flight.remove(name)
                self._last = self._clock()

    def started(self, name: str) -> None:
        """Record that a query runs; the announced number of queries ends the phase."""
        with self._lock:
            self._started.add(name)
        if self._announced is not None and self.missing == 0:
            self._over = self._certain = True

    def waited(self) -> None:
        """Record that the program waits for a query.

        The wait ends the phase if a query has started, and no number was announced.
        """
        if self._announced is None and self._started:
            self._over = self._certain = True

    def asked(self) -> None:
        """Record that the program asks for the state of a query.

        It then counts as waiting if ``ASKED`` seconds have passed since the last start.
        """
        if self._quiet_for(ASKED):
            self.waited()

    def ended(self) -> None:
        """Record that the program starts no other query.

        It has ended, or stops its session, or all flows of its pipeline are known.
        """
        self._over = self._certain = True

    def look(self) -> None:
        """End the phase of a program that has been quiet for long; called regularly."""
        if not self._over and self._quiet_for(self.quiet):
            self._over = True

    def _quiet_for(self, seconds: float) -> bool:
        """Return whether queries run, and none was or is being started for ``seconds``."""
        with self._lock:
            if self._in_flight or not self._started or self._last is None:
                return False
            return self._clock() - self._last >= seconds
