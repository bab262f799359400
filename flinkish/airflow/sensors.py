"""A sensor: waits until a job runs, is idle, has committed a batch, or has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from flinkish.airflow.access import Access, Answer, JobLook, Looking
from flinkish.airflow.triggers import JobTrigger, answer_of, is_deferrable
from flinkish.annotations import public_evolving
from flinkish.client.wait_goals import parse_goal
from flinkish.errors import UsageError


@public_evolving
class FlinkishJobSensor(BaseSensorOperator):
    """Waits until a job has reached a goal; fails if the job fails, or ends without reaching it.

    A job that is not in the registry yet is waited for. The sensor's XCom has ``job_id``, ``name``
    and ``state``.

    Parameters
    ----------
    job : str
        The job's id, a unique prefix of an id, or a name that exactly one job has. A name refers to
        an unfinished job, if there is one; to wait for a particular job's end, give its id.
    until : str
        ``running``, ``batch=N``, ``idle`` or ``ended``, as for :meth:`flinkish.client.Job.wait`.
    query : str, optional
        With ``batch=N`` and ``idle``: consider only this query.
    registry, conn_id, options, deferrable : optional
        As for :class:`.operators.FlinkishOperator`. A deferred sensor looks once per
        ``poke_interval``.

    Raises
    ------
    UsageError
        ``until`` is none of these, or takes no ``query``.
    """

    template_fields: Sequence[str] = ("job", "query")

    def __init__(
        self,
        *,
        job: str,
        until: str = "running",
        query: str | None = None,
        registry: str | None = None,
        conn_id: str | None = None,
        options: Mapping[str, str] | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if parse_goal(until, query).more:
            raise UsageError(
                f"a sensor may forget its earlier looks, so it cannot wait for {until}",
                hint="wait for batch=N",
            )
        self.job, self.until, self.query = job, until, query
        self.registry, self.conn_id, self.options = registry, conn_id, dict(options or {})
        self.deferrable = is_deferrable(deferrable)
        self._looking: Looking | None = None

    def poke(self, context: Any) -> bool | PokeReturnValue:
        """Return whether the job has reached the goal; if it has, with the sensor's XCom."""
        answer = self._looked(self._access())
        return answer is not None and PokeReturnValue(True, answer)

    def execute(self, context: Any) -> Any:
        """Wait, in this process or in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        access = self._access().resolved()
        answer = self._looked(access)
        if answer is None:
            self.defer(
                trigger=JobTrigger(
                    job=self.job,
                    until=self.until,
                    query=self.query,
                    registry=access.registry,
                    options=access.options,
                    poll_interval=self.poke_interval,
                ),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        return answer

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the trigger has found; if it has an error instead, raise that error."""
        return answer_of(event)

    def _looked(self, access: Access) -> Answer | None:
        if self._looking is None:
            look = JobLook(access, self.job, self.until, self.query)
            # A rescheduled sensor is a new object at each look, and knows no earlier looks.
            self._looking = Looking(look.at_length if self.reschedule else look.once)
        answer = self._looking.once()
        return None if answer is None else dict(answer_of(answer))

    def _access(self) -> Access:
        return Access.of(self.registry, self.conn_id, self.options)
