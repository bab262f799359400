"""``run -s`` inside the driver: gives each starting query its state back."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from flinkish.checkpoint.cut import Cut, newest_committed_batch
from flinkish.driver.log import say
from flinkish.errors import NonRestoredState, SavepointNotFound, StorageError
from flinkish.jobs.model import QueryStatus, RestoreSpec
from flinkish.jobs.registry import Registry
from flinkish.restore.materialise import adopt_cuts, materialise
from flinkish.restore.plan import OtherRun, Take, decide_query_id, match_query, unmatched
from flinkish.savepoint.dispose import dispose
from flinkish.savepoint.reader import open_savepoint

_FORMAT_KEY = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@dataclass(frozen=True)
class Offer:
    """The state of one query that waits for an owner."""

    root: str  # directory of the files
    files: tuple[str, ...]
    query_id: str
    batch_id: int
    checkpoint_format: int


class Restorer:
    """Serves one job's restore; thread-safe, as queries may be started from several threads."""

    def __init__(self, registry: Registry, job_id: str, spec: RestoreSpec) -> None:
        self._registry = registry
        self._job_id = job_id
        self._spec = spec
        self._lock = threading.Lock()
        self._taken: dict[str | None, Offer] = {}
        self._claimed = False
        self._offers, self._is_savepoint = _offers(spec.path)

    def restore(self, name: str, target: str) -> Offer | None:
        """Materialise the checkpoint of query ``name`` at ``target``.

        Returns the offer it was made from, or None when the query starts empty.

        Raises
        ------
        NonRestoredState: see :func:`flinkish.restore.plan.match_query`.
        """
        with self._lock:
            match = match_query(
                name,
                self._offers.keys(),
                self._taken.keys(),
                allow_non_restored=self._spec.allow_non_restored,
            )
            if match.take is Take.START_EMPTY:
                say(match.note)
                return None
            offer = self._offers[match.offered]
            runs = [
                OtherRun(job.job_id, job.state, _last_batch(query))
                for job, query in self._registry.find_query(offer.query_id)
                if job.job_id != self._job_id
            ]
            identity = decide_query_id(offer.batch_id, runs, fork=self._spec.fork)
            query_id = None if identity.keep else _new_query_id()
            materialise(offer.root, offer.files, target, query_id=query_id)
            self._taken[match.offered] = offer
        say(
            f"query '{name}' restored at batch {offer.batch_id} from {self._spec.path}, "
            f"{'same' if identity.keep else 'new'} query id ({identity.reason})"
        )
        return offer

    def check_all_taken(self) -> None:
        """Raise :class:`NonRestoredState` when state is left and ``-n`` was not given."""
        left = unmatched(self._offers.keys(), self._taken.keys())
        if left and not self._spec.allow_non_restored:
            names = ", ".join(f"'{q}'" for q in left)
            raise NonRestoredState(
                f"the program started no query named {names}, whose state is in the savepoint",
                waiting=left,
            )
        if left:
            say(f"state dropped (-n): {', '.join(left)}")

    def session_settings(self) -> Mapping[str, str]:
        """Spark settings the restored checkpoints need that the offset log does not pin.

        ``checkpointFormatVersion`` is not pinned: a checkpoint written with 2 fails on Spark
        before 4.3 unless it is set again.
        """
        formats = {offer.checkpoint_format for offer in self._taken.values()}
        newest = max(formats, default=1)
        return {_FORMAT_KEY: str(newest)} if newest > 1 else {}

    def settle_claim(self, committed: Mapping[str, int | None]) -> None:
        """Delete a claimed savepoint once every restored query has a commit of its own.

        Parameters
        ----------
        committed: newest committed batch by query name.
        """
        if self._claimed or self._spec.claim_mode != "claim" or not self._is_savepoint:
            return
        with self._lock:
            if set(self._taken) != set(self._offers):
                return
            for name, offer in self._taken.items():
                batch = committed.get(str(name))
                if batch is None or batch <= offer.batch_id:
                    return
            self._claimed = True
        dispose(self._spec.path)
        self._registry.mark_disposed(self._spec.path)
        say(f"claimed savepoint {self._spec.path} deleted: the job's own checkpoints replace it")


def _offers(path: str) -> tuple[dict[str | None, Offer], bool]:
    """The offers at ``path``, and whether it is a savepoint (else a plain Spark checkpoint)."""
    try:
        savepoint = open_savepoint(path)
    except SavepointNotFound as not_one:
        try:
            return {name: _offer_of_cut(cut) for name, cut in adopt_cuts(path).items()}, False
        except SavepointNotFound:
            raise not_one from None
    files: dict[int, list[str]] = {}
    for entry in savepoint.iter_files():
        files.setdefault(entry.query, []).append(entry.path)
    return {
        query.name: Offer(
            root=savepoint.query_root(query),
            files=tuple(files.get(index, ())),
            query_id=query.query_id,
            batch_id=query.batch_id,
            checkpoint_format=query.checkpoint_format,
        )
        for index, query in enumerate(savepoint.queries)
    }, True


def _offer_of_cut(cut: Cut) -> Offer:
    return Offer(cut.root, cut.files, cut.query_id, cut.batch_id, cut.checkpoint_format)


def _last_batch(query: QueryStatus) -> int | None:
    """The newest batch another job committed: from its commit log where that is still there, as
    the registry's number is as old as the last heartbeat."""
    try:
        batch = newest_committed_batch(query.checkpoint_dir)
    except StorageError:
        batch = None  # not a local checkpoint
    numbers = [number for number in (batch, query.batch_id) if number is not None]
    return max(numbers, default=None)


def _new_query_id() -> str:
    import uuid

    return str(uuid.uuid4())
