"""The registry of a driver that another launcher started; the program can do without it.

While the registry is unreachable, what must be recorded waits in memory, in order, and a thread
tries again. No heartbeat and no change is attempted while the registry is known to be unreachable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from flinkish.driver.log import log
from flinkish.errors import FlinkishError, RegistryError
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.registry.database import Database, Parameters, Row, Transaction
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, Request
from flinkish.registry.liveness import process_ref

_T = TypeVar("_T")

#: The first and the longest pause between attempts to reach the registry, in seconds.
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0


def pauses(first: float = _FIRST_PAUSE, longest: float = _LONGEST_PAUSE) -> Iterator[float]:
    """Yield the seconds before each attempt to reach the registry. Pure."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 2, longest)


class OutOfReach(Database):
    """The database of a registry that has not been reached yet."""

    def __init__(self, url_masked: str) -> None:
        self.url_masked = url_masked

    def read(self, sql: str, parameters: Parameters) -> list[Row]:
        self._refuse()

    def write(self, work: Callable[[Transaction], _T]) -> _T:
        self._refuse()

    def changes_marker(self) -> object:
        return None

    def close(self) -> None:
        pass

    def _refuse(self) -> NoReturn:
        raise RegistryError(f"the registry {self.url_masked} has not been reached yet")


class PatientRegistry(Registry):
    """A registry for one job, which waits for its database.

    ``reach`` opens the registry. ``register`` records the job in the registry, and is repeated when
    it raises RegistryError; it is None if the registry has the job already.
    """

    def __init__(
        self,
        job: JobRecord,
        reach: Callable[[], Registry],
        register: Callable[[Registry], object] | None,
        url_masked: str,
    ) -> None:
        super().__init__(OutOfReach(url_masked))
        self._job = job
        if job.driver is not None:
            self.act_as(job.job_id, job.driver)
        self._reach = reach
        self._order = threading.RLock()
        self._later: list[Callable[[], object]] = []
        if register is not None:
            self._later.append(lambda: register(self))
        self._is_reached = threading.Event()
        self._closed = threading.Event()
        self._has_said = False
        #: Facts that wait, by query, until a heartbeat has reported the query.
        self._facts: dict[str, tuple[str, QueryFacts]] = {}
        self._is_lost_to_another = False

    def connect(self) -> None:
        """Start the attempts to reach the registry; :meth:`settle` waits for them."""
        self._try(at_once=True)

    def use(self, registry: Registry) -> None:
        """Use a registry that has been opened; first record in it what has waited."""
        with self._order:
            self._database = registry._database
            self._flush()
            self._is_reached.set()

    @property
    def is_reached(self) -> bool:
        return self._is_reached.is_set()

    def close(self) -> None:
        self._closed.set()
        super().close()

    def settle(self, patience: float) -> bool:
        """Wait at most ``patience`` seconds until everything is recorded; return whether it is."""
        return self._is_reached.wait(patience)

    # --- what is recorded, now or later -------------------------------------------------------

    def update_job(self, job_id: str, **fields: Any) -> None:
        self._sooner_or_later(lambda: Registry.update_job(self, job_id, **fields), lambda: None)

    def transition(
        self,
        job_id: str,
        new: JobState,
        reason: str | None = None,
        *,
        failure: Mapping[str, Any] | None = None,
        exit_status: int | None = None,
        seen: JobRecord | None = None,
    ) -> JobRecord:
        def write() -> JobRecord:
            return Registry.transition(
                self, job_id, new, reason, failure=failure, exit_status=exit_status, seen=seen
            )

        if job_id != self._job.job_id:
            return write()
        self._job = replace(self._job, state=new)
        return self._sooner_or_later(write, lambda: self._job)

    def record_facts(self, job_id: str, name: str, query_id: str, facts: QueryFacts) -> None:
        self._facts[name] = query_id, facts
        if self._is_reached.is_set():
            self._record_facts()

    def abandon(self, job_id: str, error: Mapping[str, Any]) -> int:
        if job_id != self._job.job_id:
            return Registry.abandon(self, job_id, error)
        return self._sooner_or_later(lambda: Registry.abandon(self, job_id, error), lambda: 0)

    # --- what is skipped while the registry is out of reach -----------------------------------

    def heartbeat(self, job_id: str, queries: Sequence[QueryStatus]) -> JobState:
        if not self._is_reached.is_set() or self._is_lost_to_another:
            return self._job.state
        try:
            state = Registry.heartbeat(self, job_id, queries)
            if state.is_final and not self._job.state.is_final and self._revive():
                state = Registry.heartbeat(self, job_id, queries)
        except RegistryError as error:
            self._lose(error)
            return self._job.state
        self._record_facts()
        return self._job.state if self._is_lost_to_another else state

    def claim(self, job_id: str) -> Request | None:
        if not self._is_reached.is_set() or self._is_lost_to_another:
            return None
        try:
            return Registry.claim(self, job_id)
        except RegistryError as error:
            self._lose(error)
            return None

    def changes_marker(self) -> object:
        if not self._is_reached.is_set():
            return None
        try:
            return Registry.changes_marker(self)
        except RegistryError as error:
            self._lose(error)
            return None

    def job(self, job_id: str) -> JobRecord:
        if job_id == self._job.job_id and not self._is_reached.is_set():
            return self._job
        try:
            return Registry.job(self, job_id)
        except RegistryError as error:
            if job_id != self._job.job_id:
                raise
            self._lose(error)
            return self._job

    def _record_facts(self) -> None:
        try:
            for name, (query_id, facts) in list(self._facts.items()):
                Registry.record_facts(self, self._job.job_id, name, query_id, facts)
                self._facts.pop(name, None)
        except RegistryError as error:
            self._lose(error)

    # --- reaching it --------------------------------------------------------------------------

    def _sooner_or_later(self, write: Callable[[], _T], instead: Callable[[], _T]) -> _T:
        with self._order:
            if self._is_reached.is_set():
                try:
                    return write()
                except RegistryError as error:
                    self._lose(error)
            self._later.append(write)
            return instead()

    def _lose(self, error: RegistryError) -> None:
        """Say once that the registry is out of reach, and begin to try again."""
        with self._order:
            if not self._is_reached.is_set():
                return
            self._is_reached.clear()
        self._say(error)
        self._try(at_once=False)

    def _say(self, error: FlinkishError) -> None:
        if not self._has_said:
            self._has_said = True
            log(
                "the registry cannot be reached; the program runs on without it, and flinkish "
                f"keeps trying: {error.message}"
            )

    def _try(self, *, at_once: bool) -> None:
        threading.Thread(
            target=self._reach_it, args=(at_once,), name="flinkish-registry", daemon=True
        ).start()

    def _reach_it(self, at_once: bool) -> None:
        waits = pauses()
        while at_once or not self._closed.wait(next(waits)):
            at_once = False
            try:
                if isinstance(self._database, OutOfReach):
                    self.use(self._reach())
                else:
                    # This opens a lost connection again, which may take until its time limit. The
                    # call must not hold the lock, because the program's threads would wait for it.
                    Registry.ended_by(self, self._job.job_id)
                    with self._order:
                        self._flush()
                        self._is_reached.set()
            except RegistryError as error:
                self._say(error)
            except Exception as error:  # noqa: BLE001 - a client of a database raises anything
                self._say(RegistryError(f"{type(error).__name__}: {error}"))
            else:
                if self._has_said:
                    self._has_said = False
                    log("the registry has been reached")
                return

    def _flush(self) -> None:
        """Record what waits, in order; log and drop what the registry refuses."""
        while self._later:
            try:
                self._later[0]()
            except RegistryError:
                raise
            except FlinkishError as error:
                log(f"the registry does not take a change of the job: {error.message}")
            self._later.pop(0)

    def _revive(self) -> bool:
        """Take back the end of a job whose driver was thought lost; return whether that worked.

        It does not work if another job continues from the job's state, or somebody has canceled
        the job. Raises RegistryError if the registry cannot be reached.
        """
        job_id = self._job.job_id
        try:
            if Registry.take_back(self, job_id, process_ref()).is_final:
                return False
            Registry.transition(self, job_id, self._job.state, "its driver runs")
        except RegistryError:
            raise
        except FlinkishError as error:
            self._is_lost_to_another = True
            log(f"the registry counts this job as lost; the program runs on without it: {error}")
            return False
        log("the registry had counted this job as lost, and has it again")
        return True
