"""Jobs inside the test's own process: the real runtime, hook, agent and registry around a program
that runs in a thread, on one shared Spark session. What only a real driver process has (launch,
exit, kill) is tested elsewhere."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from flinkish.driver.job import conclude
from flinkish.driver.requests.actions import Actions
from flinkish.driver.requests.agent import Agent
from flinkish.driver.runtime.hook import Hook
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.script import ProgramOutcome, run_callable
from flinkish.errors import from_record
from flinkish.messages.codec import encode_fields
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.registry.job_registry import Registry, new_job_id
from flinkish.registry.jobs import (
    JobRecord,
    JobState,
    Request,
    RequestKind,
    RequestState,
    arguments_for,
)


class InProcessJob:
    """One job in this process; only one can run at a time (the hook is process-wide)."""

    def __init__(
        self,
        registry: Registry,
        directory: str,
        *,
        restore: RestoreSpec | None = None,
        options: Mapping[str, str] | None = None,
        savepoint_timeout: float = 600.0,
        quiesce_timeout: float = 60.0,
        cancel_grace: float = 5.0,
        quiet: float = 0.5,
        again: JobRecord | None = None,
        sink_ahead: str | None = None,
        named: bool = False,
    ) -> None:
        self.registry = registry
        launch = Launch(
            application="in-process",
            restore=restore,
            options=dict(options or {}),
            sink_ahead=sink_ahead,
            named=named,
        )
        job_id = new_job_id() if again is None else again.job_id
        job = again or JobRecord(
            job_id=job_id,
            name="test",
            state=JobState.INITIALIZING,
            start_time=time.time(),
            launch=launch,
            checkpoint_dir=os.path.join(directory, job_id),
        )
        self.job_id = job_id
        if again is None:
            registry.add_job(job)
        else:
            job = registry.restart(again, "again")
        if restore is None or not restore.is_awaited:
            registry.transition(self.job_id, JobState.CREATED)
        self.runtime = Runtime(registry, job, str(job.checkpoint_dir))
        # Programs of tests rarely wait for their queries: they wait for the test.
        self.runtime.start_phase.quiet = quiet
        actions = Actions(
            self.runtime,
            savepoint_timeout=savepoint_timeout,
            quiesce_timeout=quiesce_timeout,
            cancel_grace=cancel_grace,
        )
        self.agent = Agent(self.runtime, actions, heartbeat_interval=0.3, shutdown_grace=60.0)
        self.hook = Hook(self.runtime)
        self.hook.install()
        self.agent.start()
        self.outcome: ProgramOutcome | None = None
        self._thread: threading.Thread | None = None

    def start(self, program: Callable[[], Any]) -> InProcessJob:
        """Run ``program`` in a thread; conclude the job when it returns."""

        def main() -> None:
            self.outcome = run_callable(program)
            conclude(self.runtime, self.agent, self.hook, self.outcome, stop_session=False)

        self._thread = threading.Thread(target=main, name="program", daemon=True)
        self._thread.start()
        return self

    def job(self) -> JobRecord:
        return self.registry.job(self.job_id)

    def wait(self, timeout: float = 120.0) -> JobRecord:
        """Wait for the program to end; returns the job's final record."""
        assert self._thread is not None
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "the program did not end"
        return self.job()

    def wait_until(self, condition: Callable[[], Any], timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, "condition not met in time"
            assert not self.job().state.is_final, self.job().failure
            time.sleep(0.02)

    def wait_for_heartbeats(self, number: int) -> None:
        """Wait until the agent has reported, and done what it does then, that often."""
        for _ in range(number):
            before = self.job().heartbeat
            self.wait_until(lambda: self.job().heartbeat != before)  # noqa: B023 - called at once

    def batch(self) -> int:
        """Newest committed batch over all queries, -1 before the first."""
        from flinkish.checkpoint.cut import newest_committed_batch

        batches = [newest_committed_batch(q.checkpoint) for q in self.runtime.queries()]
        return -1 if not batches or None in batches else min(b for b in batches if b is not None)

    def submit(self, kind: RequestKind, target: str | None = None, **extra: Any) -> str:
        """Submit a request; returns its id."""
        arguments = arguments_for(kind, target, **extra)
        return self.registry.submit(self.job_id, kind, arguments).request_id

    def request(
        self, kind: RequestKind, target: str | None = None, **extra: Any
    ) -> Mapping[str, Any]:
        """Submit a request, wait for its end; returns its result or raises its error."""
        request = self.finish(self.submit(kind, target, **extra))
        if request.state is RequestState.FAILED:
            assert request.error is not None
            raise from_record(request.error)
        assert request.result is not None
        return encode_fields(request.result)

    def finish(self, request_id: str, timeout: float = 60.0) -> Request:
        deadline = time.monotonic() + timeout
        while True:
            request = self.registry.request(request_id)
            if request.state.is_final:
                return request
            assert time.monotonic() < deadline, "the request has no result"
            time.sleep(0.02)

    def close(self) -> None:
        """End whatever still runs (for failed tests), and the program with it."""
        self.runtime.end_queries()
        if self._thread is not None:
            self._thread.join(30.0)  # it writes its end into the registry, which closes next
        self.agent.close()
        self.hook.remove()
