"""The context of every use case: the configuration, the registry, and the reporter of progress."""

from __future__ import annotations

import os
from collections.abc import Callable

from flinkish.client.reporter import Reporter, SilentReporter
from flinkish.config import Config
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from flinkish.registry.liveness import reconcile

#: Called with a question that needs the user's consent; returns True for yes.
Agree = Callable[[str], bool]


class Context:
    """The configuration and the registry of a client; a context manager.

    Parameters
    ----------
    config : Config
        The effective configuration; it names the registry.
    reporter : Reporter, optional
        Receives notices, warnings and progress. Default: they are dropped.
    """

    def __init__(self, config: Config, reporter: Reporter | None = None) -> None:
        self.config = config
        self.reporter: Reporter = SilentReporter() if reporter is None else reporter
        self._registry: Registry | None = None
        _limit_transfers(config)

    @property
    def registry(self) -> Registry:
        """The registry, opened at first use."""
        if self._registry is None:
            self._registry = Registry.open(self.config.registry_url())
        return self._registry

    def with_config(self, config: Config) -> Context:
        """Return a context with other settings, but the same reporter and registry."""
        other = Context(config, self.reporter)
        other._registry = self.registry
        return other

    def find_job(self, reference: str, *, include_final: bool = False) -> JobRecord:
        """Return the job that ``reference`` refers to; one whose driver has died is FAILED.

        Parameters
        ----------
        reference : str
            A job id, a unique prefix of one, or the name of exactly one job.
        include_final : bool
            Whether a name may also refer to a job that has ended.

        Returns
        -------
        JobRecord
            The job's record in the registry.

        Raises
        ------
        JobNotFound, AmbiguousJob
            No job, or several, match.
        """
        job = self.registry.find_job(reference, include_final=include_final)
        return reconcile(self.registry, [job])[0]

    def timeout(self, seconds: float | None) -> float:
        """Return ``seconds``, or the value of ``client.timeout`` when it is None."""
        return self.config.duration("client.timeout") if seconds is None else seconds

    def close(self) -> None:
        """Close the registry if it was opened."""
        if self._registry is not None:
            self._registry.close()
            self._registry = None

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refuse(_question: str) -> bool:
    """Refuse every question: what needs consent raises ConsentNeeded."""
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
    """Pass a configured number of transfers to the storage.

    Most commands never need it, and importing the storage is slow: the default is not passed.
    """
    key = "execution.savepoint.transfers"
    if config.setting(key).origin != "default":
        from flinkish.storage import set_connections

        set_connections(config.integer(key) or 1)
