"""A thread of the supervisor that sends notices about a job to a command or a URL.

The settings ``notify.*`` come in variables of the environment, from whoever starts the supervisor:
a URL may hold a token, so flinkish puts it neither into the registry nor into a message. The thread
looks at the registry now and then; neither the driver nor its restart waits for the thread. A
failed delivery is a line in the job's log.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from flinkish.config import Config, mask_secrets, parse_duration
from flinkish.config.keys import NOTICES, environment_name
from flinkish.errors import FlinkishError, InvalidConfiguration
from flinkish.launch.notices import JobView, Notice, NoticeDocument, NoticeWatch
from flinkish.launch.spark_submit import without_notices
from flinkish.registry.job_registry import Registry

if TYPE_CHECKING:
    import subprocess

#: Seconds between two looks at the registry.
LOOK = 10.0
#: Seconds that the supervisor, at its end, waits for the last notices, besides their time limits.
_FAREWELL = 15.0
#: The limit of that wait, because whoever restarts the job waits 30 s for the supervisor's end.
_LONGEST_FAREWELL = 25.0
#: Largest number of characters in a variable for the command.
_VALUE = 4000
#: Bytes of a failed command's output that the log gets.
_OUTPUT = 4096
#: A scheme and a host, but no user; only visible ASCII characters, as HTTP requires.
_URL = re.compile(
    r"https?://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?(?:[/?#][!-~]*)?", re.IGNORECASE
)


def supervisor_environment(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """Return a supervisor's environment, with the settings ``notify.*``, wherever they are set.

    :raises InvalidConfiguration: if one of them can never be used.
    """
    settings = {key.name: config.get(key.name) for key in NOTICES}
    Addressees.of(settings)
    variables = {environment_name(name): value for name, value in settings.items() if value}
    return {**without_notices(environ), **variables}


@dataclass(frozen=True)
class Addressees:
    """Who gets the notices, and the time limits.

    ``command``: a line for a shell. ``timeout``: seconds for each delivery. ``max_age``: seconds
    after which a savepoint is overdue.
    """

    command: str | None
    url: str | None
    timeout: float
    max_age: float | None

    @classmethod
    def of(cls, settings: Mapping[str, str | None]) -> Addressees | None:
        """Return the addressees in settings, given by key; None if there is none.

        :raises InvalidConfiguration: if a value can never be used.
        """
        command, url = settings["notify.command"] or None, settings["notify.url"] or None
        timeout, age = settings["notify.timeout"], settings["notify.savepoint-max-age"]
        if url is not None and not _URL.fullmatch(url):
            # The message does not quote the value, which may contain a token.
            raise InvalidConfiguration(
                "notify.url is not a URL that flinkish can post to",
                hint="write http:// or https://, a host, and a path, without a user; "
                "percent-encode blanks and characters that are not ASCII",
            )
        addressees = cls(
            command=command,
            url=url,
            timeout=parse_duration(timeout or "10 s"),
            max_age=parse_duration(age) if age else None,
        )
        return addressees if command or url else None

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> Addressees | None:
        """Take the settings out of the environment; if they are wrong, the job has no notices."""
        settings = {key.name: environ.pop(environment_name(key.name), None) for key in NOTICES}
        try:
            return cls.of(settings)
        except InvalidConfiguration as error:
            _say(f"no notices are sent about this job: {error.message}")
            return None


class Notifier:
    """Looks at a job from its own thread, and delivers the notices that are due.

    ``registry`` is the registry's URL. Without ``addressees`` the notifier does nothing.
    """

    def __init__(self, registry: str, job_id: str, addressees: Addressees | None) -> None:
        self._registry, self._job_id = registry, job_id
        self._addressees = addressees
        self._watch: NoticeWatch | None = None
        #: The registry's time of the last look.
        self._looked: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    def start(self) -> None:
        """Start the thread; only later events lead to notices."""
        if self._addressees is not None:
            first = self._view()
            self._watch = None if first is None else NoticeWatch(first, self._addressees.max_age)
            self._thread.start()

    def finish(self) -> None:
        """Look once more, and wait a limited time until all notices are delivered."""
        self._over.set()
        if self._addressees is not None:
            # The notice that is on its way and the last one: each to the command and the URL.
            self._thread.join(min(_FAREWELL + 4 * self._addressees.timeout, _LONGEST_FAREWELL))
            if self._thread.is_alive():
                _say("the last notices about this job could not be delivered in time")

    def _run(self) -> None:
        assert self._addressees is not None
        ended = False
        while not ended:
            ended = self._over.wait(LOOK)
            view = self._view()
            if view is None:
                continue
            if self._watch is None:  # the registry could not be reached at the start
                self._watch = NoticeWatch(view, self._addressees.max_age)
            for notice in self._watch.look(view):
                self._tell(view, notice)

    def _view(self) -> JobView | None:
        try:
            with Registry.open(self._registry, create=False) as registry:
                now = registry.now()
                last = registry.last_savepoints([self._job_id]).get(self._job_id)
                # Only recent requests, because a job may have many; the margin is for clocks.
                since = (now if self._looked is None else self._looked) - 60
                self._looked = now
                return JobView(
                    registry.job(self._job_id),
                    registry.state_history(self._job_id),
                    registry.requests(self._job_id, finished_since=since),
                    None if last is None else last.created,
                    now,
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
            except (OSError, ValueError) as error:
                _say(f"notify.command: {error}")
        if url:
            try:
                post(url, document, timeout)
            except OSError as error:
                _say(f"notify.url: {error}")


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
    """Run a shell command with a notice as JSON on its standard input; OSError if it fails.

    The error ends with the command's last output. Nothing else shows the output, because it could
    be mistaken for the reason of the driver's failure if it were unmarked in the job's log. After
    ``timeout`` seconds the command is killed, with its process group. Raises ValueError if the line
    contains a NUL.
    """
    import subprocess
    import tempfile

    about = {"EVENT": "event", "JOB_ID": "job_id", "JOB_NAME": "name", "MESSAGE": "message"}
    variables = {f"FLINKISH_{name}": _variable(document[key]) for name, key in about.items()}
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FLINKISH_")
        or (name == "FLINKISH_REGISTRY" and mask_secrets(value) == value)
    }
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**own, **variables},
            start_new_session=True,
        ) as child:
            try:
                child.communicate(json.dumps(document).encode() + b"\n", timeout=timeout)
            except subprocess.TimeoutExpired as error:
                _kill(child)
                late = f"it took longer than {timeout:.15g} s"
                raise TimeoutError(f"{late}{_end_of(output)}") from error
        if child.returncode:
            raise ChildProcessError(f"exit status {child.returncode}{_end_of(output)}")


def _variable(value: object) -> str:
    """Return a value as a variable of the environment may hold it."""
    text = str(value)[:_VALUE].replace("\0", "")
    return text.encode("utf-8", "replace").decode()


def _end_of(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _OUTPUT))
    text = output.read(_OUTPUT).decode("utf-8", "replace").strip()
    return f":\n{text}" if text else ""


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    if child.stdin is not None:
        with suppress(OSError):
            child.stdin.close()


def post(url: str, document: Mapping[str, object], timeout: float) -> None:
    """Post a notice as JSON; OSError if it is not accepted. The error does not name the URL.

    A redirection is not followed: a POST would become a GET, and a token would go elsewhere. The
    answer's body is not read.
    """
    import http.client
    import urllib.error
    import urllib.request

    class NoRedirection(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args: Any, **kwargs: Any) -> None:
            """Make the redirection an HTTPError."""

    body = json.dumps(document).encode()
    try:
        asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        opener = urllib.request.build_opener(NoRedirection)
        opener.open(asked, timeout=timeout).close()
    except urllib.error.HTTPError as error:
        error.close()
        raise OSError(f"the server answered with status {error.code}") from None
    except urllib.error.URLError as error:
        reason = error.reason
        text = reason.strerror if isinstance(reason, OSError) else None
        cause = reason if isinstance(reason, Exception) else error
        raise OSError(text or f"the request failed ({type(cause).__name__})") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        # Some of their messages contain the URL.
        raise OSError(f"the request failed ({type(error).__name__})") from None


def _say(text: str) -> None:
    for line in mask_secrets(text).splitlines():
        print(f"flinkish: {line}", file=sys.stderr, flush=True)
