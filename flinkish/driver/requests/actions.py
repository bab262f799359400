"""The actions that the agent carries out for a request: savepoint, stop, cancel."""

from __future__ import annotations

import math
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial

from flinkish.driver.log import log
from flinkish.driver.plan.writer_settings import why_not_savepointable
from flinkish.driver.requests.canonical_savepoints import check_engine
from flinkish.driver.requests.drain import check_drainable, drain
from flinkish.driver.requests.job_savepoint import (
    RequestReporter,
    check_writable,
    ended_without_commit,
    has_committed,
    left_out,
    waits_for_input,
    write_job_savepoint,
)
from flinkish.driver.requests.time_limit import TimeLimit, limit_of
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.runtime.quiesce import quiesce, stop_hard
from flinkish.driver.runtime.running_query import ManagedQuery
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import (
    FlinkishError,
    GivenUp,
    Incompatible,
    NoCommittedBatch,
    NotSavepointable,
    RegistryError,
    WrongState,
    from_record,
    quoted_path,
)
from flinkish.messages.requests import LeftOut, RequestResult, SavepointArguments, SavepointSummary
from flinkish.registry.jobs import JobState, Request, RequestKind
from flinkish.savepoint.format.contents import FORMAT_CANONICAL, FORMAT_NATIVE

_POLL = 0.1  # seconds
_PAUSE = 1.0  # seconds between attempts while the registry cannot be reached
#: The number of looks after which a query counts as busy.
_LOOKS = 5


class Actions:
    """Carries out requests, one at a time.

    The times are in seconds. ``savepoint_timeout`` is the limit for waiting for queries and their
    first batches, if the request sets none; ``quiesce_timeout`` limits how long a stop, or a
    cancel with a savepoint, waits for running batches, if the request sets no lower limit; a plain
    cancel interrupts batches after ``cancel_grace``. ``distributed`` decides who copies the files
    of a savepoint; see :func:`flinkish.driver.migration.file_transfer.should_distribute`.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        savepoint_timeout: float,
        quiesce_timeout: float,
        cancel_grace: float,
        distributed: str = "auto",
    ) -> None:
        self._runtime = runtime
        self._distributed = distributed
        self._savepoint_timeout = savepoint_timeout
        self._quiesce_timeout = quiesce_timeout
        self._cancel_grace = cancel_grace
        self._limit = TimeLimit(savepoint_timeout, math.inf)  # of the request that is carried out
        self._next_look = 0.0  # when to look for a cancel again, by ``time.monotonic``

    def perform(self, request: Request, closed: threading.Event) -> None:
        """Carry out ``request`` and write its result or error into the registry.

        Raises RegistryError if neither could be written before ``closed`` was set.
        """
        registry = self._runtime.registry
        write: Callable[[], object]
        do = {
            RequestKind.SAVEPOINT: self._savepoint,
            RequestKind.STOP: self._stop,
            RequestKind.CANCEL: self._cancel,
        }[request.kind]
        with ExitStack() as in_flight:
            try:
                if request.savepoint is not None:
                    self._limit = limit_of(request, self._savepoint_timeout, now=registry.now())
                    in_flight.enter_context(self._when_started(request))
                else:
                    self._runtime.restore_gate.end_or_open()  # a held query cannot end
                    in_flight.enter_context(self._runtime.in_flight())
                if self._runtime.ending is not None:
                    raise WrongState(f"the job is ending ({self._runtime.ending.value})")
                result = do(request)
            except FlinkishError as error:
                log(f"request {request.request_id} ({request.kind.value}) failed: {error.message}")
                error.data.setdefault("job_id", request.job_id)
                write = partial(registry.fail, request.request_id, error.to_record())
            except Exception as error:  # noqa: BLE001 - see below
                # Any error must reach the client, and the job must continue.
                traceback.print_exc()
                wrapped = _ours(error)
                wrapped.data.setdefault("job_id", request.job_id)
                wrapped.message = f"{request.kind.value} failed: {wrapped.message}"
                write = partial(registry.fail, request.request_id, wrapped.to_record())
            else:
                write = partial(self._complete, request, result)
            self._record(write, in_flight, closed)

    def _record(
        self, write: Callable[[], object], in_flight: ExitStack, closed: threading.Event
    ) -> None:
        """Write the outcome of a request, even if the registry is unavailable for a while.

        A request without an outcome would keep all later ones from being served.
        """
        while True:
            try:
                write()
            except RegistryError as error:
                if closed.is_set():
                    raise
                log(f"registry: {error.message}")
            else:
                return
            if self._runtime.launch.external is not None:
                in_flight.close()  # another launcher's program does not wait
            closed.wait(_PAUSE)

    def _when_started(self, request: Request) -> AbstractContextManager[None]:
        """Wait until the program has started its queries, and keep it from starting others.

        A savepoint covers the whole job, so it waits for the queries that the program is starting.
        """
        reporter = RequestReporter(self._runtime, request)
        while (in_flight := self._runtime.try_in_flight()) is None:
            if self._limit.is_over:
                raise _not_started(self._runtime, self._limit)
            reporter.waits("waiting for the program to start its queries")
            self._check_not_cancelled(request)
            time.sleep(_POLL)
        return in_flight

    def _savepoint(self, request: Request) -> RequestResult:
        queries, left = self._await_first_commits(request, self._savepointable(request))
        return self._result(
            self._write(request, queries, "savepoint", _wanted(request).format, left), left
        )

    def _stop(self, request: Request) -> RequestResult:
        result = self._quiesce_and_write(request, "stop")
        self._runtime.end(JobState.FINISHED)
        return result

    def _cancel(self, request: Request) -> RequestResult:
        if request.savepoint is not None:
            result = self._quiesce_and_write(request, "cancel")
        else:
            result = RequestResult(stop_method=self._end_all())
        self._runtime.end(JobState.CANCELED)
        return result

    def _complete(self, request: Request, result: RequestResult) -> None:
        """Complete a request; only then a canceled job becomes CANCELLING.

        If its driver died before that, the client would not learn of the savepoint.
        """
        registry, job_id = self._runtime.registry, self._runtime.job_id
        registry.complete(request.request_id, result)
        if request.kind is RequestKind.CANCEL:
            try:
                registry.transition(job_id, JobState.CANCELLING, "cancel requested")
            except FlinkishError as error:
                log(f"registry: {error.message}")

    def _savepointable(self, request: Request) -> list[ManagedQuery]:
        queries = self._runtime.queries()
        for name, why in self._runtime.not_served().items():
            raise NotSavepointable(
                f"query '{name}' runs without flinkish, and a savepoint would lack it: {why}",
                hint="end it, or start the program again with flinkish run, which says what to do",
            )
        if not queries:
            raise no_query()
        for query in queries:
            reason = why_not_savepointable(query.facts)
            if reason is not None:
                reason.message = f"query '{query.name}': {reason.message}"
                raise reason
        if _wanted(request).format == FORMAT_CANONICAL:
            check_engine()
        return queries

    def _quiesce_and_write(self, request: Request, trigger: str) -> RequestResult:
        """Take a savepoint and end the queries; on an error, undrained queries continue."""
        savepointable = self._savepointable(request)
        if _wanted(request).drain:
            _check_can_restart(savepointable)
        check_writable(_wanted(request).target)
        self._await_first_commits(request, savepointable)
        active = [q for q in savepointable if not spark_jvm.has_ended(q.jsq)]
        draining = False
        forget_ends = spark_jvm.forgetting_ends(query.session for query in active)
        self._runtime.hold_starts()
        for query in active:
            query.quiesced = True
        try:
            if active:
                self._end_at_a_boundary(request, active)
            # A query that had no input before may have committed its first batch by now.
            queries, left = self._await_first_commits(request, savepointable)
            if _wanted(request).drain:
                check_drainable(queries)
                draining = True
                drain(
                    self._runtime,
                    queries,
                    self._limit.deadline,
                    lambda: self._check_not_cancelled(request),
                )
            info = self._write_at_the_end(request, queries, trigger, left)
            if self._limit.is_asked and self._limit.is_over and not draining:
                raise _too_late(info, self._limit)
            return self._result(info, left, "quiesce")
        except BaseException as error:
            if draining:  # all later rows would be late for a drained query
                self._runtime.fail(_undrained(error))
            else:
                self._runtime.resume(active, forget_ends)
            raise

    def _end_at_a_boundary(self, request: Request, active: Sequence[ManagedQuery]) -> None:
        """Let the running batches end; raise GivenUp if one does not end in time."""
        begun = time.monotonic()
        try:
            quiesce(
                active[0].gateway_jvm,
                [q.jsq for q in active],
                self._limit.for_batch(self._quiesce_timeout),
                lambda: self._check_not_cancelled(request),
            )
        except GivenUp as error:
            if not (self._limit.is_asked and self._limit.is_over):
                raise
            # The batch only got what was left of the limit: name the whole limit instead.
            raise GivenUp(
                f"a running batch did not end within the {self._limit.seconds:g} s of the request",
                hint=self._limit.advice,
            ) from error
        self._limit = self._limit.after(time.monotonic() - begun)

    def _result(
        self, info: SavepointSummary, left: tuple[LeftOut, ...], stop_method: str | None = None
    ) -> RequestResult:
        return RequestResult(info, stop_method, left, self._runtime.start_phase.is_complete)

    def _write_at_the_end(
        self,
        request: Request,
        queries: list[ManagedQuery],
        trigger: str,
        left: tuple[LeftOut, ...],
    ) -> SavepointSummary:
        """Write the last savepoint of a job.

        If a canonical one cannot be made, a native one is kept, and the error says so; none is kept
        if the registry fails or a plain cancel is pending.
        """
        format_ = _wanted(request).format
        try:
            return self._write(request, queries, trigger, format_, left)
        except Exception as error:
            if format_ == FORMAT_NATIVE or isinstance(error, RegistryError):
                raise
            self._check_not_cancelled(request)
            raise self._with_native(request, queries, trigger, left, _ours(error)) from error

    def _with_native(
        self,
        request: Request,
        queries: list[ManagedQuery],
        trigger: str,
        left: tuple[LeftOut, ...],
        error: FlinkishError,
    ) -> FlinkishError:
        """Keep a native savepoint instead of the canonical one; return ``error`` with its path."""
        log(f"no canonical savepoint: {error.message}")
        drains = _wanted(request).drain  # a drained job cannot continue
        continues = "" if drains else ", and the job continues"
        what = f"no canonical savepoint could be made{continues}: {error.message}"
        facts = {}
        try:
            path = self._write(request, queries, trigger, FORMAT_NATIVE, left).path
        except Exception as second:  # noqa: BLE001 - the first error is the one to report
            kept = f"; nor could a native one be kept: {_ours(second).message}"
            hint = error.hint
        else:
            kept, facts = f"; a native savepoint is kept at {path}", {"savepoint": path}
            hint = f"{error.hint}; " if error.hint else ""
            hint += "" if drains else "end the job with -type native, or "
            hint += "run it from there: "
            hint += f"flinkish run -s {quoted_path(path)}"
        return from_record({**error.to_record(), "message": what + kept, "hint": hint, **facts})

    def _end_all(self) -> str:
        """Stop all queries at a batch boundary, or else by interrupts; return the method used."""
        active = [q for q in self._runtime.queries() if not spark_jvm.has_ended(q.jsq)]
        self._runtime.hold_starts()
        if not active:
            return "quiesce"
        for query in active:
            query.quiesced = True
        try:
            quiesce(active[0].gateway_jvm, [q.jsq for q in active], self._cancel_grace)
        except GivenUp:
            stop_hard([q.jsq for q in active])
            return "stop"
        return "quiesce"

    def _await_first_commits(
        self, request: Request, queries: list[ManagedQuery]
    ) -> tuple[list[ManagedQuery], tuple[LeftOut, ...]]:
        """Wait for queries that have not committed a batch yet, as they have nothing to save.

        Returns the queries that have committed, and those left out: they ended without a
        commit, have no input while others have committed, or have not been started in this job.
        """
        reporter = RequestReporter(self._runtime, request)
        ended: list[ManagedQuery] = []
        waiting = queries
        while waiting := [q for q in waiting if not has_committed(q)]:
            ended += [q for q in waiting if ended_without_commit(q)]
            waiting = [q for q in waiting if q not in ended]
            if len(waiting) + len(ended) < len(queries) and all(map(waits_for_input, waiting)):
                ended += waiting
                break
            if not waiting:
                break
            if self._limit.is_over:
                raise _not_committed(waiting, self._limit)
            reporter.waits(f"waiting for the first batch of {_names(waiting)}")
            self._check_not_cancelled(request)
            time.sleep(_POLL)
        savable = [q for q in queries if q not in ended]
        restorer = self._runtime.restorer
        later = () if restorer is None else restorer.not_started()
        left = (*left_out(queries, savable), *later, *self._runtime.flows_to_come())
        for each in left:
            log(f"query '{each.query}' is not in the savepoint: {each.reason}")
        return savable, left

    def _check_not_cancelled(self, request: Request) -> None:
        """Raise WrongState if a plain cancel is pending.

        A plain cancel must not wait for a savepoint that itself waits. While the registry cannot
        be reached, no cancel is seen, because the savepoint matters more.
        """
        if time.monotonic() < self._next_look:
            return  # a failed look may take until the connection's time limit
        try:
            cancel = self._runtime.registry.plain_cancel(request.job_id)
        except RegistryError as error:
            log(f"registry: {error.message}")
            self._next_look = time.monotonic() + _PAUSE
            return
        if cancel is not None:
            raise WrongState(
                f"given up, because the job is being canceled (request {cancel})",
                hint=f"see: flinkish request show {cancel}",
            )

    def _write(
        self,
        request: Request,
        queries: list[ManagedQuery],
        trigger: str,
        format_: str,
        left: tuple[LeftOut, ...],
    ) -> SavepointSummary:
        return write_job_savepoint(
            self._runtime,
            request,
            queries,
            trigger,
            replace(_wanted(request), format=format_),
            left,
            deadline=self._limit.deadline,
            distributed=self._distributed,
            give_up=lambda: self._check_not_cancelled(request),
        )


def _check_can_restart(queries: Sequence[ManagedQuery]) -> None:
    """Refuse to drain a query that cannot be started for its last batch."""
    for query in queries:
        if query.adopted:
            raise NotSavepointable(
                f"query '{query.name}' was not started by flinkish, and cannot be drained",
                hint="stop it without --drain",
            )
        query.check_restart()


def _wanted(request: Request) -> SavepointArguments:
    """Return the savepoint that a request demands; the request is not a plain cancel."""
    assert request.savepoint is not None, request.kind
    return request.savepoint


def _names(queries: Sequence[ManagedQuery]) -> str:
    return ", ".join(f"'{query.name}'" for query in queries)


def _not_committed(waiting: Sequence[ManagedQuery], limit: TimeLimit) -> NoCommittedBatch:
    """Return the error of a savepoint whose queries had no first batch in time."""
    idle = [query for query in waiting if _is_idle(query)]
    busy = [query for query in waiting if query not in idle]
    reasons = [
        *([f"no input was found for {_names(idle)}"] if idle else []),
        *([f"the first batch of {_names(busy)} has not finished"] if busy else []),
    ]
    return NoCommittedBatch(
        f"no batch was committed within {limit.seconds:g} s ({'; '.join(reasons)}): given up, "
        "the job continues",
        hint=f"see the job's queries with: flinkish status JOB; then try again, or {limit.advice}",
    )


def _is_idle(query: ManagedQuery) -> bool:
    """Return whether a query waits for input."""
    # A waiting query looks for input every 10 ms, and is in a trigger while it looks.
    for _ in range(_LOOKS):
        if not (spark_jvm.in_trigger(query.jsq) or spark_jvm.has_input(query.jsq)):
            return True
        time.sleep(_POLL)
    return False


def _not_started(runtime: Runtime, limit: TimeLimit) -> FlinkishError:
    """Return the error of a request given up before the program had started its queries."""
    names = [f"'{query.name}'" for query in runtime.queries()]
    starting = [f"'{name}'" for name in runtime.start_phase.in_flight]
    if not names and not starting:
        return no_query()
    missing = runtime.start_phase.missing
    facts = [
        f"running: {', '.join(names) or 'none'}",
        *([f"being started: {', '.join(starting)}"] if starting else []),
        *([f"announced: {missing} more"] if missing else []),
    ]
    return GivenUp(
        f"the program has not started all its queries within {limit.seconds:g} s "
        f"({'; '.join(facts)}): given up, the job continues",
        hint=f"a savepoint covers all queries; try again, or {limit.advice}",
    )


def _too_late(info: SavepointSummary, limit: TimeLimit) -> GivenUp:
    """Return the error of a stop whose savepoint was finished too late."""
    return GivenUp(
        f"the savepoint was not complete within {limit.seconds:g} s: given up, the job "
        f"continues; the savepoint is kept at {info.path}",
        hint=limit.advice,
        savepoint=info.path,
    )


def no_query() -> WrongState:
    """Return the error of a savepoint of a job without a query."""
    return WrongState(
        "the job has no streaming query",
        hint="a savepoint holds the state of streaming queries; a batch program has none",
    )


def _undrained(error: BaseException) -> FlinkishError:
    """Return the failure, with which no job is restarted, of a job that started to drain."""
    return Incompatible(
        f"the job was being drained, and cannot continue after that: {error}",
        hint="save its remaining state with: flinkish savepoint JOB TARGET; or start it again from "
        "an earlier savepoint",
    )


def _ours(error: Exception) -> FlinkishError:
    """Convert any error to a FlinkishError that can be reported to the client."""
    if isinstance(error, FlinkishError):
        return error
    return FlinkishError(
        f"{type(error).__name__}: {error}",
        hint="the driver's log has the traceback: flinkish logs JOB",
    )
