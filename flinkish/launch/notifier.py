"""Tell a command or a URL what happens to a job: a thread of the supervisor.

The settings ``notify.*`` come in variables of the environment, from whoever starts the supervisor:
a URL may hold a token, so the registry has none of them. The thread looks at the registry now and
then; neither the driver nor its restart waits for it. What cannot be delivered is a line in the
job's log.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkish.config import Config, mask_secrets, parse_duration
from flinkish.config.keys import KEYS, environment_name
from flinkish.errors import FlinkishError
from flinkish.launch.notices import JobView, Notice, NoticeDocument, NoticeWatch
from flinkish.registry.job_registry import Registry

if TYPE_CHECKING:
    import subprocess

_PREFIX = "notify."
_NAMES = tuple(key.name for key in KEYS if key.name.startswith(_PREFIX))
#: Seconds between two looks at the registry.
LOOK = 10.0
#: Seconds that the supervisor waits at its end, besides those for one delivery each.
_FAREWELL = 5.0
#: Characters of a variable for the command.
_VALUE = 4000


def supervisor_environment(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a supervisor: with the settings ``notify.*``, wherever set."""
    values = {environment_name(name): config.get(name) for name in _NAMES}
    return {**environ, **{name: value for name, value in values.items() if value is not None}}


@dataclass(frozen=True)
class Addressees:
    """Who is told, and the limits.

    ``command``: a line for a shell. ``timeout``: seconds for each delivery. ``max_age``: seconds
    after which a savepoint is overdue.
    """

    command: str | None
    url: str | None
    timeout: float
    max_age: float | None

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> Addressees | None:
        """Take the settings out of the environment; None if nobody is to be told."""
        values = {name: environ.pop(environment_name(name), None) for name in _NAMES}
        command, url = values["notify.command"], values["notify.url"]
        if not (command or url):
            return None
        age = values["notify.savepoint-max-age"]
        return cls(
            command,
            url,
            parse_duration(values["notify.timeout"] or "10 s"),
            None if age is None else parse_duration(age),
        )


class Notifier:
    """Looks at a job from its own thread, and tells what is due.

    ``registry`` is the registry's URL. Without ``addressees`` it does nothing.
    """

    def __init__(self, registry: str, job_id: str, addressees: Addressees | None) -> None:
        self._registry, self._job_id = registry, job_id
        self._addressees = addressees
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    def start(self) -> None:
        """Start: from now on everything is news."""
        if self._addressees is not None:
            first = self._view()
            if first is not None:
                self._watch = NoticeWatch(first, self._addressees.max_age)
                self._thread.start()

    def finish(self) -> None:
        """Look once more, and wait a limited time until all is told."""
        self._over.set()
        if self._addressees is not None and self._thread.is_alive():
            self._thread.join(2 * self._addressees.timeout + _FAREWELL)

    def _run(self) -> None:
        ended = False
        while not ended:
            ended = self._over.wait(LOOK)
            view = self._view()
            for notice in () if view is None else self._watch.look(view):
                assert view is not None
                self._tell(view, notice)

    def _view(self) -> JobView | None:
        try:
            with Registry.open(self._registry, create=False) as registry:
                last = registry.last_savepoints([self._job_id]).get(self._job_id)
                return JobView(
                    registry.job(self._job_id),
                    registry.state_history(self._job_id),
                    registry.requests(self._job_id),
                    None if last is None else last.created,
                    registry.now(),
                )
        except FlinkishError as error:
            _say(f"cannot look at the job: {error.message}")
            return None

    def _tell(self, view: JobView, notice: Notice) -> None:
        assert self._addressees is not None
        document = notice_document(view, notice)
        url, timeout = self._addressees.url, self._addressees.timeout
        if self._addressees.command:
            try:
                run_command(self._addressees.command, document, timeout)
            except OSError as error:
                _say(f"notify.command: {error}")
        if url:
            try:
                post(url, document, timeout)
            except (OSError, ValueError) as error:
                # The URL, which may hold a token, is in the messages of some errors.
                _say(f"notify.url: {type(error).__name__}: {str(error).replace(url, '...')}")


def notice_document(view: JobView, notice: Notice) -> dict[str, object]:
    """Return what an addressee gets. Pure; passwords in texts are masked."""
    job = view.job
    message = mask_secrets(notice.message)
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(notice.time))
    document: NoticeDocument = {
        "event": notice.event,
        "job_id": job.job_id,
        "name": job.name,
        "state": notice.state,
        "time": moment,
        "message": message,
        "text": f"flinkish: {notice.event}: job {job.name} ({job.job_id}): {message}",
    }
    return {"schema_version": 1, **document}


def run_command(command: str, document: Mapping[str, object], timeout: float) -> None:
    """Run a line of shell with a notice as JSON on its standard input; OSError if it fails.

    Its output goes to the job's log. What runs longer than ``timeout`` seconds is killed, with all
    that it has started.
    """
    import subprocess

    about = {"EVENT": "event", "JOB_ID": "job_id", "JOB_NAME": "name", "MESSAGE": "message"}
    variables = {f"FLINKISH_{name}": str(document[key])[:_VALUE] for name, key in about.items()}
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FLINKISH_")
        or (name == "FLINKISH_REGISTRY" and mask_secrets(value) == value)
    }
    with subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        env={**own, **variables},
        start_new_session=True,
    ) as child:
        try:
            child.communicate(json.dumps(document).encode() + b"\n", timeout=timeout)
        except subprocess.TimeoutExpired as error:
            _kill(child)
            raise TimeoutError(f"it took longer than {timeout:g} s") from error
    if child.returncode:
        raise ChildProcessError(f"exit status {child.returncode}")


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    if child.stdin is not None:
        with suppress(OSError):
            child.stdin.close()


def post(url: str, document: Mapping[str, object], timeout: float) -> None:
    """Post a notice as JSON; OSError or ValueError if it is not taken."""
    import urllib.request

    if not url.lower().startswith(("http://", "https://")):
        raise ValueError("it must begin with http:// or https://")
    body = json.dumps(document).encode()
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=timeout) as answer:
        answer.read(1 << 16)


def _say(text: str) -> None:
    print(f"flinkish: {mask_secrets(text)}", file=sys.stderr, flush=True)
