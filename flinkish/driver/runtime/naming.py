"""Names and checkpoint directories for the queries of a job, including unnamed ones."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkish.checkpoint.discovery import directory_name
from flinkish.driver.plan.writer_settings import qualified
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import ConsentNeeded
from flinkish.restore.materialize.new_checkpoint import is_taken
from flinkish.storage import for_spark, is_local, one_name, same_place

if TYPE_CHECKING:
    from flinkish.driver.plan.writer_settings import WriterFacts
    from flinkish.driver.runtime.running_query import ManagedQuery


class Names:
    """Assigns query names and directories; thread-safe, as programs start queries in threads.

    ``root`` is the directory for the checkpoints of the job's queries.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._names: set[str] = set()
        #: Names of earlier runs of queries with a location of their own.
        self._reserved: set[str] = set()
        self._by_location: dict[str, str] = {}
        self._runs: dict[str, int] = {}
        #: The last ``follows`` that :meth:`directory` was given, by name.
        self._follows: dict[str, str | None] = {}
        #: Unnamed queries that Spark has refused to start, and that were not tried again since.
        self._refused: list[RefusedStart] = []
        #: The query that owns each directory: two names may give the same one (``a/b``, ``a b``).
        self._owners: dict[str, str] = {}

    def given(self, name: str) -> str:
        """Record a name that the program chose, and return it."""
        with self._lock:
            self._names.add(name)
        return name

    def generate(self, location: str | None, retried: str | None) -> str:
        """Return a name for an unnamed query: ``query-1``, ``query-2`` ... in the order of starts.

        ``location`` is the program's own checkpoint location, from :func:`one_spelling`; the same
        location again is the same query. ``retried`` is the name of an unnamed query that failed
        or that Spark refused to start, and has not been started again since.
        """
        with self._lock:
            if location is not None and location in self._by_location:
                self._names.add(self._by_location[location])
                return self._by_location[location]
            if location is None and retried is not None:
                return retried
            taken = self._names | (self._reserved if location is None else set())
            number = 1
            while f"query-{number}" in taken:
                number += 1
            name = f"query-{number}"
            self._names.add(name)
            if location is not None:
                self._by_location[location] = name
            return name

    def not_started(self, name: str, facts: WriterFacts, writer: Any) -> None:
        """Let an unnamed query that Spark has refused to start have its name at the next start."""
        with self._lock:
            self._refused.append(RefusedStart(name, facts.copy(), writer))

    def refused(self, facts: WriterFacts, writer: Any, *, strict: bool) -> str | None:
        """Return the name of the refused query that is tried again: see :func:`refused_name`."""
        with self._lock:
            name = refused_name(self._refused, facts, writer, strict=strict)
            self._refused = [start for start in self._refused if start.name != name]
        return name

    def directory(self, name: str, *, fresh: bool, follows: str | None = None) -> str:
        """Return the checkpoint directory for a new run of ``name``; no other name shares it.

        ``fresh`` is True for the first run, and if the previous run ended well: a new start under
        the same name is then another query to Spark, which would give it a temporary checkpoint. A
        query that failed and is started again continues from its checkpoint. ``follows`` is the id
        of the previous run, or empty; a start with the ``follows`` of the start before it gets the
        same directory, because that start led to no run.
        """
        with self._lock:
            is_tried_again = follows is not None and self._follows.get(name) == follows
            self._follows[name] = follows
            if fresh and not is_tried_again:
                self._runs[name] = self._runs.get(name, 0) + 1
            run = self._runs.get(name, 1)
            while self._owners.setdefault(_run_directory(name, run), name) != name:
                run += 1
            self._runs[name] = run
        return os.path.join(self._root, _run_directory(name, run))

    def knows(self, location: str) -> bool:
        """Return whether an unnamed query is known by this location."""
        with self._lock:
            return location in self._by_location

    def resume(
        self,
        name: str,
        checkpoint: str,
        places: Collection[str] = (),
        *,
        reserved: bool = False,
    ) -> None:
        """Continue the numbering from the run of ``name`` in an earlier driver of the job.

        ``places`` are the spellings of the query's own location: an unnamed query that starts there
        gets this name, in whatever order the queries start. With ``reserved``, no query without a
        location of its own gets this name.
        """
        above, start = os.path.split(checkpoint.rstrip("/"))
        rest = start.removeprefix(f"{directory_name(name)}-")
        with self._lock:
            self._runs[name] = int(rest) if rest != start and rest.isdigit() else 1
            if same_place(above, self._root):
                self._owners.setdefault(start, name)
            self._by_location.update(dict.fromkeys(places, name))
            if reserved:
                self._reserved.add(name)


def one_spelling(own: str, session: Any) -> str:
    """Return a program's own checkpoint location as Spark would find it, whatever its spelling."""
    return one_name(str(qualified(own, session)))


def own_place(own: str, beside: str) -> str:
    """Return where a restored checkpoint goes: to the program's own location, or beside it.

    ``beside`` is appended to the name of a location that is not empty.
    """
    own = own.rstrip("/")
    return f"{own}-{beside}" if is_taken(own) else own


def as_spark_takes_it(directory: str) -> str:
    """Return a directory as a location for Spark."""
    return f"file://{directory}" if is_local(directory) else for_spark(directory)


def _run_directory(name: str, run: int) -> str:
    """Return the name of the directory for one run of a query. Pure."""
    safe = directory_name(name)
    return safe if run == 1 else f"{safe}-{run}"


@dataclass(frozen=True)
class RefusedStart:
    """The start of an unnamed query without a location of its own that Spark has refused."""

    name: str
    facts: WriterFacts
    writer: Any


def refused_name(
    starts: Sequence[RefusedStart], facts: WriterFacts, writer: Any, *, strict: bool
) -> str | None:
    """Return the name of the refused start that an unnamed query repeats, or None.

    With ``strict``, raises ConsentNeeded if it is not clear which one the query repeats, if any.
    """
    alike = [start for start in starts if start.facts.writes_like(facts)]
    call = facts.calls.get("format")  # it has the function of a foreachBatch
    same = [start for start in starts if start.writer is writer]
    same = same or [start for start in alike if start.facts.calls.get("format") == call]
    if len(same) == 1:
        return same[0].name
    if alike and strict:
        names = ", ".join(f"'{start.name}'" for start in alike)
        raise _unclear(f"it may be one that Spark has refused to start: {names}")
    return None


def retried_name(queries: Iterable[ManagedQuery], facts: WriterFacts, writer: Any) -> str | None:
    """Return the name of the failed query that an unnamed query continues, or None.

    Neither query has a checkpoint location of its own. Raises ConsentNeeded if several such queries
    have failed, and it is not clear which of them continues.
    """
    failed = [
        query
        for query in queries
        if query.generated_name and query.own is None and spark_jvm.error_of(query.jsq) is not None
    ]
    same = [query for query in failed if query.writer is writer] or failed
    if len(same) > 1:
        same = [query for query in same if query.facts.writes_like(facts)]
        if len(same) != 1:
            names = ", ".join(f"'{query.name}'" for query in failed)
            raise _unclear(
                f"several unnamed ones have failed: {names}; it may continue any of them"
            )
    return same[0].name if same else None


def _unclear(why: str) -> ConsentNeeded:
    return ConsentNeeded(
        f"an unnamed query starts, and {why}",
        hint="name the queries with queryName",
        reasons=["query-unknown"],
    )
