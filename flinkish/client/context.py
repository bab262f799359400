"""The context of every use case: configuration, registry, reporter; and interrupted waits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flinkish.client.reporter import Reporter, SilentReporter
from flinkish.config import Config, sqlite_path
from flinkish.errors import (
    AmbiguousJob,
    JobNotFound,
    SavepointNotFound,
    UsageError,
    quoted_path,
)
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from flinkish.registry.liveness import reconcile

if TYPE_CHECKING:
    from flinkish.messages.plan import Check

#: Called with a question that needs the user's consent; returns True for yes.
Agree = Callable[[str], bool]


class Context:
    """The configuration and the registry of a client; a context manager.

    ``config``: the effective configuration; it names the registry. ``reporter``: receives notices,
    warnings and progress. Default: they are dropped.
    """

    def __init__(self, config: Config, reporter: Reporter | None = None) -> None:
        self.config = config
        self.reporter: Reporter = SilentReporter() if reporter is None else reporter
        self._opened = _OpenedRegistry(config)
        _limit_transfers(config)

    @property
    def registry(self) -> Registry:
        """The registry, opened at first use; it is not created.

        An explicitly configured registry must exist. The default registry may be absent as long as
        no job was run: it then counts as empty, and no file is created.

        Raises RegistryError if the configured registry does not exist, or cannot be read.
        """
        return self._opened.existing()

    @property
    def writable_registry(self) -> Registry:
        """The registry, created if it does not exist; for use cases that add jobs or savepoints.

        Raises RegistryError if it cannot be created or opened.
        """
        return self._opened.created()

    @property
    def registry_or_empty(self) -> Registry:
        """The registry, an empty one in memory if its file does not exist; for dry runs.

        An empty PostgreSQL database gets its tables.

        Raises RegistryError if it cannot be opened.
        """
        return self._opened.existing(empty_if_absent=True)

    @property
    def absent_registry(self) -> str | None:
        """URL of the registry if it does not exist and an empty one stands for it; else None."""
        url = self.registry.url_masked
        return url if self._opened.is_absent else None

    def with_config(self, config: Config) -> Context:
        """Return a context with other settings, but the same reporter and registry."""
        other = Context(config, self.reporter)
        other._opened = self._opened
        return other

    def find_job(self, reference: str, *, include_final: bool = False) -> JobRecord:
        """Return the job that ``reference`` refers to; one whose driver died is FAILED or FAILING.

        ``reference``: a job's id, a unique prefix of an id, or a name that exactly one job has.
        ``include_final``: whether a name may also refer to a job that has ended.

        Raises JobNotFound or AmbiguousJob if no job, or several, match; UsageError if ``reference``
        is blank, or has 32 characters but is not an id.
        """
        try:
            job = self.registry.find_job(reference, include_final=include_final)
        except JobNotFound as error:
            if self.absent_registry is None:
                raise
            raise JobNotFound(
                f"{error.message}: there is no registry at {self.absent_registry}",
                hint="HOME, XDG_STATE_HOME and registry.url determine its location; see: "
                "flinkish config show --origin",
            ) from error
        return reconcile(self.registry, [job])[0]

    def find_origin(self, word: str) -> JobRecord | str:
        """Return the job that a word refers to, or the word itself if it is a savepoint's location.

        ``word``: a URL, or a path that exists, is a savepoint; anything else is a job's id, a
        prefix of one, or a name, even of a job that has ended.

        Raises UsageError if the word means both a path and a job (or several), or is neither a path
        nor a possible reference to a job; AmbiguousJob or JobNotFound if it matches several jobs,
        or nothing; SavepointNotFound if it can only be a path, and nothing is there.
        """
        if "://" in word or word.startswith("file:"):
            return word
        from flinkish.storage.local import status_of

        there = status_of(os.path.expanduser(word), follow=True) is not None
        is_path = "/" in word or word.startswith("~")
        if there and is_path:
            return word
        try:
            job = self.find_job(word, include_final=True)
        except AmbiguousJob:
            if not there:
                raise
            which = "several jobs"
        except (JobNotFound, UsageError) as error:
            if there:
                return word
            if is_path:
                raise SavepointNotFound(f"no savepoint at {word}", path=word) from None
            if not isinstance(error, JobNotFound):
                raise
            nothing = f"{error.message}, nor a savepoint at that path"
            raise JobNotFound(nothing, hint=error.hint) from None
        else:
            if not there:
                return job
            which = f"job {job.name} ({job.job_id})"
        raise UsageError(
            f"{word!r} is ambiguous: it means {which}, and is also a path here",
            hint=f"for the savepoint, use -s {quoted_path(word)}; for the job, its id, or more "
            "digits of it",
        )

    def report(self, check: Check) -> None:
        """Report a check as a warning or a note, unless its outcome is OK."""
        from flinkish.messages.plan import RestoreOutcome

        if check.outcome is RestoreOutcome.WARNING:
            self.reporter.warning(check.text)
        elif check.outcome is not RestoreOutcome.OK:
            self.reporter.note(check.text)

    def timeout(self, seconds: float | None) -> float:
        """Return ``seconds``, or the value of ``client.timeout`` when it is None."""
        return self.config.duration("client.timeout") if seconds is None else seconds

    def close(self) -> None:
        """Close the registry if it was opened."""
        self._opened.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _OpenedRegistry:
    """The registry of a configuration: opened at first use, created only for :meth:`created`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._registry: Registry | None = None
        self.is_absent = False

    def existing(self, *, empty_if_absent: bool = False) -> Registry:
        if self._registry is None:
            url = self._config.registry_url()
            path = sqlite_path(url)
            is_default = self._config.setting("registry.url").origin == "default"
            may_be_absent = is_default or empty_if_absent
            if may_be_absent and path is not None and Registry.is_absent(path):
                self._registry, self.is_absent = Registry.absent(path), True
            else:
                self._registry = Registry.open(url, create=empty_if_absent)
        return self._registry

    def created(self) -> Registry:
        if self._registry is None or self.is_absent:
            self.close()
            self._registry = Registry.open(self._config.registry_url())
        return self._registry

    def close(self) -> None:
        if self._registry is not None:
            self._registry.close()
        self._registry, self.is_absent = None, False


class Interrupted(KeyboardInterrupt):
    """A signal ended the wait, not the work.

    ``code``: the exit status, 130 or 143. ``follow``: a command that shows or continues the work.

    It is a KeyboardInterrupt, not an Exception, so that no ``except Exception`` catches it.
    """

    def __init__(self, code: int, message: str = "", follow: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.follow = follow


@contextmanager
def interruptible(message: str, follow: str) -> Iterator[None]:
    """Make Ctrl-C and SIGTERM end a wait with a message; ``follow``: see :class:`Interrupted`."""
    try:
        yield
    except KeyboardInterrupt as stop:
        code = stop.code if isinstance(stop, Interrupted) else 130
        raise Interrupted(code, message, follow) from None


def refuse(_question: str) -> bool:
    """Refuse every question, so that whatever needs consent raises ConsentNeeded."""
    return False


def accept(_question: str) -> bool:
    """Consent to every question."""
    return True


def requester() -> str:
    """Return who makes a request: ``user@host``."""
    import getpass

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user in the password database, as in some containers
        user = str(os.getuid())
    return f"{user}@{os.uname().nodename}"


def _limit_transfers(config: Config) -> None:
    """Set the number of transfers only if it is configured: importing the storage takes time."""
    key = "execution.savepoint.transfers"
    if config.setting(key).origin != "default":
        from flinkish.storage import set_connections

        set_connections(config.integer(key) or 1)
