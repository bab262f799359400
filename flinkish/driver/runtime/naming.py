"""Names and checkpoint directories for the queries of a job, including unnamed ones."""

from __future__ import annotations

import os
import threading


class Names:
    """Assigns query names and directories; thread-safe, as programs start queries in threads.

    Parameters
    ----------
    root
        Directory under which the job's queries get their checkpoints.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._by_location: dict[str, str] = {}
        self._runs: dict[str, int] = {}

    def given(self, name: str) -> str:
        """Record a name that the program chose, and return it."""
        with self._lock:
            self._names.add(name)
        return name

    def generate(self, location: str | None, retried: str | None) -> str:
        """Return a name for an unnamed query: ``query-1``, ``query-2`` ... in the order of starts.

        Parameters
        ----------
        location
            The program's own checkpoint location; the same location again is the same query.
        retried
            Name of an unnamed query that failed and has not been started again since.
        """
        with self._lock:
            if location is not None and location in self._by_location:
                return self._by_location[location]
            if location is None and retried is not None:
                return retried
            number = 1
            while f"query-{number}" in self._names:
                number += 1
            name = f"query-{number}"
            self._names.add(name)
            if location is not None:
                self._by_location[location] = name
            return name

    def directory(self, name: str, *, fresh: bool) -> str:
        """Return the checkpoint directory for a new run of ``name``.

        Parameters
        ----------
        fresh
            True for the first run, and when the previous run ended well: a new start under the same
            name is then another query to Spark (it would get a temporary checkpoint). A query that
            failed and is started again continues from its checkpoint.
        """
        with self._lock:
            if fresh:
                self._runs[name] = self._runs.get(name, 0) + 1
            run = self._runs.setdefault(name, 1)
        safe = directory_name(name)
        return os.path.join(self._root, safe if run == 1 else f"{safe}-{run}")

    def resume(self, name: str, checkpoint: str) -> None:
        """Count on from the run of ``name`` that an earlier driver of the job has left."""
        start = os.path.basename(checkpoint.rstrip("/"))
        rest = start.removeprefix(f"{directory_name(name)}-")
        with self._lock:
            self._runs[name] = int(rest) if rest != start and rest.isdigit() else 1


def directory_name(name: str) -> str:
    """Return the name of the directory of a query's first run. Pure."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name).strip(".") or "_"
