"""``flinkish.attach()``: serve the queries of a program that another launcher has started.

The job of such a program has no supervisor, and flinkish's launcher has not started it, so nothing
in flinkish can start it again. All else is as in every driver: :mod:`~flinkish.driver.runtime` and
:mod:`~flinkish.driver.requests`. A program that asks for no restore runs as it would without
flinkish, whatever goes wrong in this module.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from flinkish.annotations import public_evolving
from flinkish.config import working_directory
from flinkish.driver.attached.adoption import Adoption, adopt
from flinkish.driver.attached.patient_registry import PatientRegistry
from flinkish.driver.attached.program_end import ProgramEnd
from flinkish.driver.attached.registration import is_interactive, launcher_name, registered
from flinkish.driver.attached.request import Arguments, asks_restore, attach_request, settings_of
from flinkish.driver.attached.terminate import SavepointOnTerminate, savepoint_on_terminate
from flinkish.driver.connect.server import refused_server
from flinkish.driver.job import assemble, conclude
from flinkish.driver.log import log
from flinkish.driver.requests.agent import Agent
from flinkish.driver.runtime.hook import Hook
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.script import ProgramOutcome, print_traceback, run_program
from flinkish.errors import FlinkishError, UnsupportedSession
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions
from flinkish.registry.jobs import JobState

_PARTITIONS = "spark.sql.shuffle.partitions"
#: Seconds that a program waits at its end until the job's end is recorded.
_PATIENCE_AT_END = 5.0
#: Seconds after a notebook's last start of a query after which all its queries count as started.
_QUIET = 1.0

_current: Attachment | None = None


@public_evolving
def attach(
    name: str | None = None,
    *,
    savepoint: str | None = None,
    restore: RestoreOptions = NO_OPTIONS,
    parallelism: int | None = None,
    registry: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Attachment:
    """Put the queries of this program under flinkish's control, whatever started it.

    Call this before the program makes its Spark session. If the session has queries already, they
    are adopted where they can be. The job appears in the registry when the session is there, and
    ``list``, ``status``, ``savepoint``, ``stop``, ``cancel``, ``check``, ``wait`` and ``metrics``
    work as for a job of ``flinkish run``. What is not an argument comes from the environment
    (``FLINKISH_REGISTRY``, ``FLINKISH_NAME``, ``FLINKISH_FROM_SAVEPOINT``), from Spark's settings
    (``spark.flinkish.registry``, ``spark.flinkish.name``, ``spark.flinkish.restore.savepoint``) or
    from configuration files. In a program of ``flinkish run``, ``attach`` does nothing.

    Parameters
    ----------
    name : str, optional
        The job's name. Default: that of the program's file.
    savepoint : str, optional
        The savepoint, or plain checkpoint, to start from; the program ends if this fails.
    restore : RestoreOptions, optional
        How the savepoint is restored.
    parallelism : int, optional
        The number of shuffle partitions, and of the state partitions of a restore.
    registry : str, optional
        URL of the registry.
    settings : mapping, optional
        Other settings of flinkish's configuration, by key.

    Returns
    -------
    Attachment
        What the program can ask about its job.

    Raises
    ------
    SystemExit
        The restore that was asked for is not possible; the status is that of ``flinkish run -s``.
        In a notebook, the FlinkishError itself is raised.
    """
    global _current
    if _current is not None and not _current.has_ended:
        return _current
    keys = {**(settings or {}), **({} if registry is None else {"registry.url": registry})}
    attachment = Attachment(Arguments(name, savepoint, restore, parallelism, keys))
    bootstrap = sys.modules.get("flinkish.driver.bootstrap")
    if not getattr(bootstrap, "is_driving", False):  # else flinkish has started this driver
        _current = attachment
        attachment.begin()
    return attachment


def run(argv: Sequence[str], bundled: str) -> int:
    """Run a program of a bundle, or with one, attached, and return its exit status."""
    global _current
    _current = attachment = Attachment(Arguments(), bundled)
    attachment.begin()
    return attachment.conclude(run_program(argv))


class Attachment:
    """A program that is served by flinkish without having been started by it.

    Attributes
    ----------
    adopted
        The queries that ran before, and are under flinkish's control now.
    left
        The queries that ran before and are not under its control, with the reasons.
    """

    def __init__(self, arguments: Arguments, bundled: str | None = None) -> None:
        self._arguments = arguments
        self._bundled = bundled
        self._lock = threading.RLock()
        self._served: tuple[Runtime, Agent, Hook] | None = None
        self._originals: list[tuple[type, str, Any]] = []
        self._end: ProgramEnd | None = None
        self._on_terminate: SavepointOnTerminate | None = None
        self._has_begun = False
        #: Whether the job has ended or was detached, or flinkish has left the program alone.
        self.has_ended = False
        self.adopted: tuple[str, ...] = ()
        self.left: Mapping[str, str] = {}

    @property
    def job_id(self) -> str | None:
        """The job's id; None before the program has a Spark session."""
        return os.environ.get("FLINKISH_JOB_ID") if self._served is None else self._runtime.job_id

    @property
    def _runtime(self) -> Runtime:
        assert self._served is not None
        return self._served[0]

    def detach(self) -> None:
        """End the job, and let the program's queries run on as queries of plain Spark."""
        self._let_go("detached: the program runs on")

    # --- its beginning ------------------------------------------------------------------------

    def begin(self) -> None:
        """Serve the program's session once it is made; at once if it is there already."""
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:
            message = f"the program is not under flinkish's control: {error}"
            if asks_restore(self._arguments, os.environ, {}):
                self._refuse(UnsupportedSession(message, hint="make pyspark importable first"))
            log(message)
            return
        self._watch(SparkSession, "__init__", self._session_made)
        self._watch(SparkSession.Builder, "getOrCreate", self._session_got)
        if self._bundled is None:
            self._end = ProgramEnd(
                self._program_ended,
                interactive=is_interactive(),
                starts=lambda: 0 if self._served is None else self._runtime.start_phase.starts,
            )
        session = SparkSession._instantiatedSession
        if session is not None and session._jvm is not None and not _is_stopped(session):
            self._serve(session)

    def _watch(self, cls: type, name: str, make: Callable[[Any], Any]) -> None:
        original = cls.__dict__[name]
        self._originals.append((cls, name, original))
        setattr(cls, name, make(original))

    def _session_made(self, original: Any) -> Any:
        @wraps(original)
        def made(session: Any, *args: Any, **kwargs: Any) -> None:
            original(session, *args, **kwargs)
            self._serve(session)

        return made

    def _session_got(self, original: Any) -> Any:
        @wraps(original)
        def got(builder: Any) -> Any:
            session = original(builder)
            if type(session).__module__.startswith("pyspark.sql.connect"):
                self._cannot_serve_connect()
            return session

        return got

    def _cannot_serve_connect(self) -> None:
        with self._lock:
            if self._has_begun:
                return
            self._has_begun = True
        error = refused_server(os.environ.get("SPARK_REMOTE"))
        if asks_restore(self._arguments, os.environ, {}):
            self._refuse(error)
        _say_why_not(error)

    def _serve(self, session: Any) -> None:
        """Put the program's job under control, once."""
        with self._lock:
            if self._has_begun:
                return
            self._has_begun = True
        spark = settings_of(session)
        try:
            self._serve_job(session, spark)
        except FlinkishError as error:
            if asks_restore(self._arguments, os.environ, spark):
                self._refuse(error)
            _say_why_not(error)
            self._stand_aside()
        except Exception:
            self._stand_aside()
            if asks_restore(self._arguments, os.environ, spark):
                raise
            traceback.print_exc()
            log("the program is not under flinkish's control: see the error above")

    def _stand_aside(self) -> None:
        """Leave a program without a job alone; in a notebook the next ``attach`` begins anew."""
        if self._served is None:
            self.has_ended = True
            self._restore_pyspark()

    def _serve_job(self, session: Any, spark: Mapping[str, str]) -> None:
        asked = attach_request(self._arguments, os.environ, spark, working_directory(instead="/"))
        for line in asked.config.warnings():
            log(line)
        registry, job = registered(asked, session.version, self._bundled)
        grace = 0.0 if is_interactive() else None
        runtime, agent, hook = self._served = assemble(
            registry, job, let_go=self._job_outlived, shutdown_grace=grace
        )
        if asked.parallelism is not None:
            session.conf.set(_PARTITIONS, str(asked.parallelism))
        if is_interactive():
            runtime.start_phase.quiet = _QUIET
        runtime.session_created(session)
        who = f"attached to {launcher_name()} on {os.uname().nodename}"
        registry.transition(job.job_id, JobState.CREATED, who)
        hook.install()
        self._take(adopt(runtime, session))
        agent.start()
        self._on_terminate = savepoint_on_terminate(asked.config, runtime, session)
        log(f"job {job.name} ({job.job_id}) is under flinkish's control")

    def _take(self, adoption: Adoption) -> None:
        self.adopted, self.left = adoption.adopted, adoption.left
        for name in adoption.adopted:
            log(f"query '{name}' ran already, and is under flinkish's control now")
        for name, why in adoption.left.items():
            log(f"query '{name}' ran already, and stays as it is: {why}")

    def _refuse(self, error: FlinkishError) -> None:
        """End a program that must not start without its restore; a notebook gets the error."""
        self._stand_aside()
        self._restore_pyspark()
        if is_interactive():
            raise error
        _say(error)
        raise SystemExit(error.code)

    # --- its end ------------------------------------------------------------------------------

    def _program_ended(self, outcome: ProgramOutcome) -> int | None:
        """Record how the program ended; return the exit status of flinkish's error, or None."""
        if self._served is None or self.has_ended:
            return None
        self.has_ended = True
        runtime, agent, hook = self._served
        status = conclude(
            runtime, agent, hook, outcome, stop_session=False, print_error=self._bundled is not None
        )
        self._close(runtime)
        error = runtime.fatal or outcome.error
        if isinstance(error, FlinkishError) and not runtime.is_guest and status != 0:
            _say(error)
            return error.code
        return None

    def conclude(self, outcome: ProgramOutcome) -> int:
        """Record how a program ended that this process has run; return its exit status."""
        if self._served is None and outcome.error is not None:
            print_traceback(outcome.error)
        status = self._program_ended(outcome)
        return outcome.status if status is None else status

    def _job_outlived(self) -> None:
        """Record the end of a job whose program runs on; called by its agent."""
        self._let_go("its queries have ended; the program runs on")
        if self._on_terminate is not None:
            self._on_terminate.job_outlived()

    def _let_go(self, reason: str) -> None:
        with self._lock:
            if self._served is None or self.has_ended:
                return
            self.has_ended = True
        runtime, agent, hook = self._served
        hook.remove()
        state = runtime.ending or JobState.FINISHED
        try:
            runtime.registry.transition(runtime.job_id, state, reason)
            log(f"job {runtime.job_id} is {state.value}: {reason}")
        except FlinkishError as error:  # a newer driver has the job, or its end is recorded
            log(error.message)
        agent.close()
        self._close(runtime)

    def _close(self, runtime: Runtime) -> None:
        registry = runtime.registry
        if isinstance(registry, PatientRegistry) and not registry.settle(_PATIENCE_AT_END):
            log("the registry could not be reached: the job's end is not recorded")
        registry.close()
        self._restore_pyspark()

    def _restore_pyspark(self) -> None:
        while self._originals:
            cls, name, original = self._originals.pop()
            setattr(cls, name, original)
        if self._end is not None:
            self._end.remove()
        if self._on_terminate is not None:
            self._on_terminate.remove()


def _say(error: FlinkishError) -> None:
    for kind, text in (("error", error.message), ("hint", error.advice)):
        if text:
            log(f"{kind}: {text}")


def _say_why_not(error: FlinkishError) -> None:
    hint = f"; {error.advice}" if error.advice else ""
    log(f"the program is not under flinkish's control: {error.message}{hint}")


def _is_stopped(session: Any) -> bool:
    return bool(session.sparkContext._jsc is None or session.sparkContext._jsc.sc().isStopped())
