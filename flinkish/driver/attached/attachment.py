"""``flinkish.attach()``: serve the queries of a program that another launcher has started.

The supervisor's and the launcher's part is what such a job lacks: nothing of flinkish can start it
again. The rest is that of every driver: :mod:`~flinkish.driver.runtime` and
:mod:`~flinkish.driver.requests`. Without a restore the program runs as it would without flinkish,
whatever goes wrong here.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from flinkish import __version__
from flinkish.config import mask_secrets, working_directory
from flinkish.driver.attached.adoption import Adoption, adopt
from flinkish.driver.attached.earlier import earlier_job
from flinkish.driver.attached.patient_registry import PatientRegistry
from flinkish.driver.attached.program_end import JvmTerminated, ProgramEnd, Terminated
from flinkish.driver.attached.request import Arguments, AttachRequest, asks_restore, attach_request
from flinkish.driver.job import assemble, conclude
from flinkish.driver.log import log
from flinkish.driver.requests.agent import GATEWAY, Agent
from flinkish.driver.runtime.hook import Hook, connect_refusal
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.script import ProgramOutcome, print_traceback, run_program
from flinkish.errors import FlinkishError, Locked, RegistryError, UnsupportedSession
from flinkish.launch.secret_settings import without_secrets
from flinkish.messages.launch import ExternalLauncher, Launch, RestoreSpec
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions
from flinkish.registry.job_registry import Registry, new_job_id
from flinkish.registry.jobs import JobRecord, JobState, RequestKind, RequestState, arguments_for
from flinkish.registry.liveness import process_ref
from flinkish.registry.waiting import wait_request

_PARTITIONS = "spark.sql.shuffle.partitions"
_SAVEPOINTS = "execution.checkpointing.savepoint-dir"
#: Seconds that a program waits for the registry at its start, and for the record of its end.
_PATIENCE = 15.0
_PATIENCE_AT_END = 5.0
#: Seconds that SIGTERM waits for its savepoint; the launcher's own grace ends earlier as a rule.
_TERMINATE_LIMIT = 600.0

_current: Attachment | None = None


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

    Called before the program makes its Spark session; in a session that has queries already, those
    are adopted where they can be. The job appears in the registry when the session is there, and
    ``list``, ``status``, ``savepoint``, ``stop``, ``cancel``, ``check``, ``wait`` and ``metrics``
    work as for a job of ``flinkish run``. What is not an argument comes from the environment
    (``FLINKISH_REGISTRY``, ``FLINKISH_NAME``, ``FLINKISH_FROM_SAVEPOINT``) or from Spark's settings
    (``spark.flinkish.registry``, ``spark.flinkish.name``, ``spark.flinkish.restore.savepoint``).
    In a program of ``flinkish run`` it does nothing.

    Parameters
    ----------
    name : str, optional
        The job's name. Default: that of the program's file.
    savepoint : str, optional
        The savepoint, or plain checkpoint, to start from. The program does not start without it.
    restore : RestoreOptions, optional
        How it is restored.
    parallelism : int, optional
        The number of state partitions of a restore.
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
        In a notebook the FlinkishError itself.
    """
    global _current
    if _current is not None and not _current.has_ended:
        return _current
    keys = {**(settings or {}), **({} if registry is None else {"registry.url": registry})}
    attachment = Attachment(Arguments(name, savepoint, restore, parallelism, keys))
    if "flinkish.driver.bootstrap" not in sys.modules:  # else flinkish has started this driver
        _current = attachment
        attachment.begin()
    return attachment


def run(argv: Sequence[str]) -> int:
    """Run a bundled program, attached, and return its exit status."""
    global _current
    _current = attachment = Attachment(Arguments(), runs_program=True)
    attachment.begin()
    return attachment.conclude(run_program(argv))


class Attachment:
    """A program that is served by flinkish without having been started by it.

    Attributes
    ----------
    adopted
        The queries that ran before, and are under flinkish's control now.
    left
        Those that are not, with the reason.
    """

    def __init__(self, arguments: Arguments, *, runs_program: bool = False) -> None:
        self._arguments = arguments
        self._runs_program = runs_program
        self._lock = threading.RLock()
        self._served: tuple[Runtime, Agent, Hook] | None = None
        self._originals: list[tuple[type, str, Any]] = []
        self._end: ProgramEnd | None = None
        self._terminated: Terminated | None = None
        self._jvm_terminated: JvmTerminated | None = None
        self._is_terminating = False
        self._has_begun = False
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
        """Wait for the program's session; a session that is there already is served at once."""
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
        if not self._runs_program and not is_interactive():
            self._end = ProgramEnd(self._program_ended)
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
        error = connect_refusal(os.environ.get("SPARK_REMOTE"))
        if asks_restore(self._arguments, os.environ, {}):
            self._refuse(error)
        log(f"the program is not under flinkish's control: {error.message}; {error.hint}")

    def _serve(self, session: Any) -> None:
        """Put the program's job under control, once."""
        with self._lock:
            if self._has_begun:
                return
            self._has_begun = True
        spark = _settings_of(session)
        try:
            self._serve_job(session, spark)
        except FlinkishError as error:
            if asks_restore(self._arguments, os.environ, spark):
                self._refuse(error)
            log(f"the program is not under flinkish's control: {error.message}; {error.hint}")
        except Exception:
            if asks_restore(self._arguments, os.environ, spark):
                raise
            traceback.print_exc()
            log("the program is not under flinkish's control: see the error above")

    def _serve_job(self, session: Any, spark: Mapping[str, str]) -> None:
        asked = attach_request(self._arguments, os.environ, spark, working_directory(instead="/"))
        for line in asked.config.warnings():
            log(line)
        registry, job = self._registered(asked, session)
        grace = 0.0 if is_interactive() else None
        runtime, agent, hook = self._served = assemble(
            registry, job, let_go=self._job_outlived, shutdown_grace=grace
        )
        if asked.parallelism is not None:
            session.conf.set(_PARTITIONS, str(asked.parallelism))
        runtime.session_created(session)
        who = f"attached to {_launcher()} on {os.uname().nodename}"
        registry.transition(job.job_id, JobState.CREATED, who)
        hook.install()
        self._take(adopt(runtime, session))
        agent.start()
        self._install_terminate(asked, session)
        log(f"job {job.name} ({job.job_id}) is under flinkish's control")

    def _registered(self, asked: AttachRequest, session: Any) -> tuple[PatientRegistry, JobRecord]:
        """Return the registry, which has or will have the job, and the job.

        Raises FlinkishError if the job has to be restored and the registry cannot be reached, or
        the savepoint cannot be restored.
        """
        url = asked.config.registry_url()
        launch = _launch(asked)
        name = asked.name or launch.default_name
        opened: Registry | None = None
        try:
            opened = Registry.open(url)
            earlier = earlier_job(opened, name, launch)
        except RegistryError:
            if asked.restore is not None:
                raise
            earlier = None
        if earlier is not None and opened is not None:
            log(f"job {name} ({earlier.job_id}) goes on where its last driver ended")
            again = opened.restart(earlier, f"started again by {_launcher()}")
            opened.update_job(again.job_id, driver=process_ref())
            patient = PatientRegistry(again, lambda: Registry.open(url), None, mask_secrets(url))
            patient.use(opened)
            return patient, again
        if asked.restore is not None:
            _check_restorable(asked.restore, session.version)
        job = _new_job(name, launch, asked)
        patient = PatientRegistry(
            job, lambda: Registry.open(url), lambda to: _register(to, job), mask_secrets(url)
        )
        if opened is not None:
            patient.use(opened)
        else:
            patient.connect(_PATIENCE)
        return patient, job

    def _take(self, adoption: Adoption) -> None:
        self.adopted, self.left = adoption.adopted, adoption.left
        for name in adoption.adopted:
            log(f"query '{name}' ran already, and is under flinkish's control now")
        for name, why in adoption.left.items():
            log(f"query '{name}' ran already, and stays as it is: {why}")

    def _refuse(self, error: FlinkishError) -> None:
        """End a program that must not start without its restore. Raises."""
        self._restore_pyspark()
        if is_interactive():
            raise error
        log(f"error: {error.message}")
        if error.advice:
            log(f"hint: {error.advice}")
        raise SystemExit(error.code)

    # --- its end ------------------------------------------------------------------------------

    def _program_ended(self, outcome: ProgramOutcome) -> int | None:
        """Record how the program ended; return the exit status of a refused restore."""
        if self._served is None or self.has_ended:
            return None
        self.has_ended = True
        runtime, agent, hook = self._served
        status = conclude(
            runtime, agent, hook, outcome, stop_session=False, print_error=self._runs_program
        )
        self._close(runtime)
        error = runtime.fatal or outcome.error
        refused = isinstance(error, FlinkishError) and not runtime.is_guest
        if refused and status != 0:
            assert isinstance(error, FlinkishError)
            log(f"error: {error.message}")
            if error.advice:
                log(f"hint: {error.advice}")
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
        if self._is_terminating and self._terminated is not None:
            self._terminated.go_on()

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
        except FlinkishError as error:  # somebody else has recorded its end
            log(error.message)
        agent.close()
        self._close(runtime)
        log(f"job {runtime.job_id} is {state.value}: {reason}")

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
        if self._jvm_terminated is not None:
            self._jvm_terminated.remove()
        if self._terminated is not None and threading.current_thread() is threading.main_thread():
            self._terminated.remove()

    # --- SIGTERM ------------------------------------------------------------------------------

    def _install_terminate(self, asked: AttachRequest, session: Any) -> None:
        if not asked.config.boolean("execution.savepoint-on-terminate"):
            return
        directory = asked.config.get(_SAVEPOINTS)
        if directory is None:
            log(f"SIGTERM takes no savepoint: {_SAVEPOINTS} is not set")
            return
        try:
            self._terminated = Terminated(lambda: self._stop_or_end(directory))
        except ValueError:  # not the main thread
            log("SIGTERM takes no savepoint: flinkish.attach() was not called by the main thread")
            return
        if GATEWAY in os.environ:
            self._jvm_terminated = JvmTerminated(session, lambda: self._stop(directory))

    def _stop_or_end(self, directory: str) -> None:
        """Stop the job with a savepoint; without one, end the process as SIGTERM does."""
        if not self._stop(directory):
            assert self._terminated is not None
            self._terminated.go_on()

    def _stop(self, directory: str) -> bool:
        """Stop the job with a savepoint, once; return whether it is stopped with one."""
        if self.has_ended:
            return False
        self._is_terminating = True
        registry, job_id = self._runtime.registry, self._runtime.job_id
        log(f"SIGTERM: stopping the job with a savepoint in {directory}")
        try:
            arguments = arguments_for(RequestKind.STOP, directory)
            request_id = registry.submit(job_id, RequestKind.STOP, arguments, "SIGTERM").request_id
        except Locked as stopped:  # by another signal, or by flinkish stop
            request_id = str(stopped.data.get("request_id"))
        except FlinkishError as error:
            log(f"no savepoint is taken: {error.message}")
            return False
        try:
            answer = wait_request(registry, request_id, _TERMINATE_LIMIT)
        except FlinkishError as error:
            log(f"no savepoint was taken: {error.message}")
            return False
        if answer.state is RequestState.FAILED:
            log(f"no savepoint was taken: {(answer.error or {}).get('message')}")
            return False
        if answer.result is not None and answer.result.savepoint is not None:
            log(f"Savepoint completed. Path: {answer.result.savepoint.path}")
        return True


def is_interactive() -> bool:
    """Return whether this is a notebook or a shell, which outlives its jobs."""
    main = sys.modules.get("__main__")
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules or not hasattr(main, "__file__")


def _launcher() -> str:
    if is_interactive():
        return "notebook"
    return "spark-submit" if GATEWAY in os.environ else "python"


def _launch(asked: AttachRequest) -> Launch:
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    launch = Launch(
        application=os.path.abspath(program) if program and not is_interactive() else None,
        module=None if program and not is_interactive() else "notebook",
        arguments=tuple(sys.argv[1:]) if not is_interactive() else (),
        options=asked.config.to_options(),
        working_directory=working_directory(instead="/"),
        restore=asked.restore,
        named=asked.name is not None,
        external=ExternalLauncher(_launcher(), __version__),
    )
    return without_secrets(launch)


def _new_job(name: str, launch: Launch, asked: AttachRequest) -> JobRecord:
    import time

    from flinkish.storage import locate

    job_id = new_job_id()
    root = locate(asked.config.get("execution.checkpointing.dir") or "")
    return JobRecord(
        job_id=job_id,
        name=name,
        state=JobState.INITIALIZING,
        start_time=time.time(),
        launch=launch,
        checkpoint_dir=f"{root.rstrip('/')}/{job_id}",
        driver=process_ref(),
    )


def _register(registry: Registry, job: JobRecord) -> None:
    registry.add_job(job)
    others = [
        each
        for each in registry.jobs(name=job.name)
        if not each.state.is_final and each.job_id != job.job_id
    ]
    if job.launch.named and others:
        log(
            f"the name {job.name} is that of job {others[-1].job_id} too, which is "
            f"{others[-1].state.value}: address this one by its id, {job.job_id}"
        )


def _check_restorable(spec: RestoreSpec, version: str) -> None:
    """Raise what ``run -s`` raises before it starts a driver."""
    from flinkish.restore.check.version_check import version_gate
    from flinkish.restore.source.restore_source import open_restore_source

    gate = version_gate(open_restore_source(spec.path, verify=spec.verify), version)
    if gate.error is not None:
        raise gate.error
    log(gate.check.text)


def _settings_of(session: Any) -> dict[str, str]:
    """Return the settings of a session, and of its context."""
    settings = {str(key): str(value) for key, value in session.sparkContext.getConf().getAll()}
    entries = session._jsparkSession.conf().getAll().iterator()
    while entries.hasNext():
        entry = entries.next()
        settings[str(entry._1())] = str(entry._2())
    return settings


def _is_stopped(session: Any) -> bool:
    return bool(session.sparkContext._jsc is None or session.sparkContext._jsc.sc().isStopped())
