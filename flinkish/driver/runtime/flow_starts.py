"""What a job does for the flows of its pipeline, whose queries the server starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flinkish.connectors.path_map import PathMap
from flinkish.driver.connect.flows import Flow, next_version
from flinkish.driver.log import log
from flinkish.driver.plan.writer_settings import own_location
from flinkish.driver.restore.restorer import Restorer
from flinkish.driver.runtime.file_sink_log import make_log_ready
from flinkish.driver.runtime.program_gate import ProgramGate
from flinkish.driver.runtime.query_setup import Prepared, Preparer
from flinkish.driver.runtime.running_query import ManagedQuery
from flinkish.driver.runtime.start_phase import StartPhase
from flinkish.errors import FlinkishError
from flinkish.messages.requests import LeftOut


class FlowStarts:
    """Prepares the flows of one run of a pipeline, and takes their queries when they start.

    ``is_guest`` says that no flow is refused: one that cannot be prepared runs all the same.
    ``on_start`` is called after each step that may have been the last of the job's start.
    ``record`` records a query in the registry, or raises FlinkishError.
    """

    def __init__(
        self,
        preparer: Preparer,
        restorer: Restorer | None,
        gate: ProgramGate,
        start_phase: StartPhase,
        not_served: list[tuple[str, Any, str]],
        on_start: Callable[[], None],
        record: Callable[[ManagedQuery], None],
        *,
        paths: PathMap,
        is_guest: bool,
    ) -> None:
        self._preparer = preparer
        self._restorer = restorer
        self._gate = gate
        self._start_phase = start_phase
        self._not_served = not_served
        self._on_start = on_start
        self._record = record
        self._paths = paths
        self.is_guest = is_guest
        self._flows: Sequence[str] = ()

    @property
    def restores(self) -> bool:
        """Whether the job restores a savepoint."""
        return self._restorer is not None

    def prepare_flow(self, flow: Flow) -> Prepared:
        """Prepare the query of a flow before it starts.

        A refusal fails the job. A guest's flow is never refused: the error becomes its note.
        """
        own = own_location(flow.facts, flow.writer._spark)
        try:
            return self._preparer.prepare(flow.name, flow.writer, flow.facts, place=next_version)
        except FlinkishError as error:
            if not self.is_guest:
                self._gate.fail(error)
                raise
            log(f"query '{flow.name}': {error.message}")
            return Prepared(flow.name, False, own, None, None, (error.message,), own=own)

    def flows_prepared(self, waiting: Sequence[ManagedQuery]) -> Mapping[str, str]:
        """Take all flows of the pipeline, none of which has started.

        Returns the Spark settings that the restored checkpoints need. Raises the errors of
        :meth:`Restorer.check` and :meth:`Restorer.roll_back`.
        """
        settings: Mapping[str, str] = {}
        if self._restorer is not None:
            try:
                self._restorer.check(more_to_come=False)
                self._restorer.roll_back([query.name for query in waiting])
            except FlinkishError as error:
                self._gate.fail(error)
                raise
            settings = self._restorer.session_settings()
        for query in waiting:
            if query.query_id:  # its checkpoint exists: an earlier run's, or restored
                self._gate.add(query)
        self._flows = [query.name for query in waiting]
        for name in self._flows:  # all that --queries may have announced, though none runs yet
            self._start_phase.started(name)
        self._start_phase.ended()
        self._on_start()
        return settings

    def flow_started(self, query: ManagedQuery, *, restored: bool) -> bool:
        """Wait until no request is in flight, then take the query; return False if it must end.

        The query, which has planned no batch yet, must end if the job is over by then. It must also
        end if it cannot be recorded, or the log of its file sink cannot be made ready, unless the
        flow is a guest's.
        """
        with self._gate.changed:
            self._gate.settle()
            if self._gate.ending is not None or self._gate.fatal is not None:
                return False
            with self._start_phase.starting(query.name):
                self._gate.add(query)
        if not self.is_guest:
            try:
                self._record(query)
            except FlinkishError as unrecorded:
                self._gate.fail(unrecorded)
                return False
        self._on_start()
        if restored:
            error = make_log_ready(query.jsq, query.session, query.name, self._paths)
            if error is not None and not self.is_guest:
                self._gate.fail(error)
                return False
        return True

    def unknown_flow(self, name: str, handle: Any, why: str) -> None:
        """Note a query of the pipeline that is not under flinkish's control."""
        self._not_served.append((name, handle, why))

    def to_come(self) -> tuple[LeftOut, ...]:
        """Return the flows of the pipeline that have never run, which a savepoint lacks."""
        names = {query.name for query in self._gate.queries()}
        reason = "its turn in the pipeline has not come, and it has never run"
        return tuple(
            LeftOut(name, reason, pending=True) for name in self._flows if name not in names
        )
