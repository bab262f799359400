"""Triggers, which look into the registry again and again for what a deferred task waits for.

The triggerer needs flinkish, and must reach the same registry as the workers. Airflow encrypts the
arguments of triggers; the registry's URL is among them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.configuration import conf
from airflow.triggers.base import BaseTrigger, TriggerEvent

from flinkish.airflow.access import Access, Answer, JobLook, Looking
from flinkish.config import mask_secrets
from flinkish.errors import from_record


class RegistryTrigger(BaseTrigger):
    """Fires when there is an answer, or an error instead; see :class:`.Looking`.

    Parameters
    ----------
    registry, options
        As in :class:`.Access`.
    poll_interval
        Seconds between two looks.
    """

    def __init__(self, *, registry: str, options: Mapping[str, str], poll_interval: float) -> None:
        super().__init__()
        self.registry = registry
        self.options = dict(options)
        self.poll_interval = poll_interval

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {
            "registry": self.registry,
            "options": self.options,
            "poll_interval": self.poll_interval,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments, from which Airflow makes the trigger again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments()

    @staticmethod
    def repr(classpath: str, kwargs: Mapping[str, Any]) -> str:
        """Return the trigger as logs show it, with secrets masked."""
        arguments = (f"{key}={mask_secrets(str(value))}" for key, value in kwargs.items())
        return f"<{classpath} {', '.join(arguments)}>"

    @property
    def access(self) -> Access:
        """How the trigger reaches the registry."""
        return Access(self.registry, self.options)

    def look(self) -> Answer | None:
        """Look once; called in a thread of its own."""
        raise NotImplementedError

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is an answer."""
        looking = Looking(self.look)
        while (answer := await asyncio.to_thread(looking.once)) is None:
            await asyncio.sleep(self.poll_interval)
        yield TriggerEvent(answer)


class JobTrigger(RegistryTrigger):
    """Fires when a job has reached a goal, or with an error; see :class:`.JobLook`."""

    def __init__(
        self,
        *,
        job: str,
        until: str,
        query: str | None = None,
        launched: bool = False,
        **access: Any,
    ) -> None:
        super().__init__(**access)
        self.job, self.until, self.query, self.launched = job, until, query, launched
        self._look = JobLook(self.access, job, until, query, launched=launched)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        job = {"job": self.job, "until": self.until, "query": self.query, "launched": self.launched}
        return {**super().arguments(), **job}

    def look(self) -> Answer | None:
        """Look at the job once."""
        return self._look.once()


class SavepointTrigger(RegistryTrigger):
    """Fires when a requested savepoint is complete, or with an error.

    For a stop, the job must have ended too.
    """

    def __init__(self, *, request_id: str, **access: Any) -> None:
        super().__init__(**access)
        self.request_id = request_id

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {**super().arguments(), "request_id": self.request_id}

    def look(self) -> Answer | None:
        """Look at the request once."""
        return self.access.look_at_savepoint(self.request_id)


def is_deferrable(asked: bool | None) -> bool:
    """Return ``asked`` or, if it is None, whether Airflow defers tasks by default."""
    if asked is not None:
        return asked
    return bool(conf.getboolean("operators", "default_deferrable", fallback=False))


def answer_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the answer of a trigger; if the trigger has an error instead, raise the error."""
    error = event.get("error")
    if error is not None:
        raise from_record(error)
    return event
