"""What every use case starts from: the configuration, the registry, and who is told of progress."""

from __future__ import annotations

import os
from collections.abc import Callable

from flinkish.client.reporter import Reporter, SilentReporter
from flinkish.config import Config
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from flinkish.registry.liveness import reconcile

#: Asked a question that needs somebody's agreement; True is yes.
Agree = Callable[[str], bool]


class Context:
    """The configuration and the registry of a client; a context manager.

    Parameters
    ----------
    config : Config
        The effective configuration; it names the registry.
    reporter : Reporter, optional
        Told of notices, warnings and progress. Default: nobody is.
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
        """Return a context with the settings of one call; reporter and registry are this one's."""
        other = Context(config, self.reporter)
        other._registry = self.registry
        return other

    def find_job(self, reference: str, *, include_final: bool = False) -> JobRecord:
        """Return the job that ``reference`` means, as it really is (a dead one is FAILED).

        Parameters
        ----------
        reference : str
            A job id, a unique prefix of one, or the name of exactly one job.
        include_final : bool
            Whether a name may also be that of a job that has ended.

        Returns
        -------
        Job
            The job's record in the registry.

        Raises
        ------
        JobNotFound, AmbiguousJob
            No job, or several, are meant.
        """
        job = self.registry.find_job(reference, include_final=include_final)
        return reconcile(self.registry, [job])[0]

    def timeout(self, seconds: float | None) -> float:
        """Return ``seconds``, or those of ``client.timeout`` for None."""
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
    """Agree to nothing: what needs consent raises ConsentNeeded."""
    return False


def accept(_question: str) -> bool:
    """Agree to everything."""
    return True


def requester() -> str:
    """Return who asks: ``user@host``."""
    import getpass

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user in the password database, as in some containers
        user = str(os.getuid())
    return f"{user}@{os.uname().nodename}"


def _limit_transfers(config: Config) -> None:
    """Tell the storage what was asked for; most commands never need it, and its import costs."""
    key = "execution.savepoint.transfers"
    if config.setting(key).origin != "default":
        from flinkish.storage import set_connections

        set_connections(config.integer(key) or 1)
