"""What every command starts from: its output, the configuration, the registry."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from flinkish.cli.output import Output
from flinkish.config import Config, environment_warnings
from flinkish.jobs.liveness import reconcile
from flinkish.jobs.model import Job
from flinkish.jobs.registry import Registry


class Session:
    """One call of the command.

    Parameters
    ----------
    dynamic: the ``-D`` options in order.
    flags: configuration keys set by the command's own options.
    """

    def __init__(
        self,
        out: Output,
        *,
        dynamic: Sequence[str] = (),
        flags: Mapping[str, str | None] | None = None,
    ) -> None:
        self.out = out
        self.config = Config.load(flags=flags or {}, dynamic=dynamic)
        for line in (*self.config.warnings(), *environment_warnings(os.environ)):
            out.warning(line)
        _limit_transfers(self.config)
        self._registry: Registry | None = None

    @property
    def registry(self) -> Registry:
        """The registry, opened at first use."""
        if self._registry is None:
            self._registry = Registry.open(self.config.registry_url())
        return self._registry

    def find_job(self, reference: str, *, include_final: bool = False) -> Job:
        """The job that ``reference`` means, as it really is (a dead one is FAILED)."""
        job = self.registry.find_job(reference, include_final=include_final)
        return reconcile(self.registry, [job])[0]

    def close(self) -> None:
        """Close the registry if it was opened."""
        if self._registry is not None:
            self._registry.close()
            self._registry = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _limit_transfers(config: Config) -> None:
    """Tell the storage what was asked for; most commands never need it, and its import costs."""
    key = "execution.savepoint.transfers"
    if config.setting(key).origin != "default":
        from flinkish.storage import set_connections

        set_connections(config.integer(key) or 1)


class Interrupted(BaseException):
    """A signal ended the waiting, not the work. ``code`` is the exit status, 130 or 143.

    Not an Exception: nothing on the way up may swallow it.
    """

    def __init__(self, code: int, message: str = "", follow: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.follow = follow
