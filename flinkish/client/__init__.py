"""The use cases of flinkish, for Python programs; the command line only parses and renders.

:class:`~flinkish.client.client.Client` is the entry point::

    from flinkish import Client, Program

    with Client() as client:
        job = client.run(Program("app.py", arguments=("in", "out"), master="local[2]"))
        savepoint = job.stop("savepoints")
        job = client.run("app_v2.py", from_savepoint=savepoint)

This package never prints and never asks the user: notices, warnings and progress go to a
:class:`~flinkish.client.reporter.Reporter`, errors are those of :mod:`flinkish.errors`. Names are
imported when they are first used, so that importing this package costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    from flinkish.client.all_jobs import JobOutcome, NewestSavepoint
    from flinkish.client.checking import OperatorPlan, Plan
    from flinkish.client.client import Client, prune
    from flinkish.client.exporting import ExportedCheckpoint, ExportResult
    from flinkish.client.job import Job, PendingSavepoint
    from flinkish.client.metrics import Metric, Sample
    from flinkish.client.migration import Changes
    from flinkish.client.pruning import PruneResult
    from flinkish.client.purge import PurgeResult
    from flinkish.client.rehearsal import RehearsalResult
    from flinkish.client.reporter import Progress, Reporter, SilentReporter
    from flinkish.client.savepoints import Savepoint
    from flinkish.client.together import StartedAgain
    from flinkish.client.waiting import Start
    from flinkish.messages.launch import Program
    from flinkish.messages.queries import QueryStatus
    from flinkish.messages.requests import SavepointSummary
    from flinkish.messages.restore_options import RestoreOptions
    from flinkish.messages.results import SavepointCopy
    from flinkish.registry.jobs import JobState
    from flinkish.savepoint.directory.dispose import Disposed
    from flinkish.savepoint.manage.verify import Verification

__all__ = [
    "Changes",
    "Client",
    "Disposed",
    "ExportResult",
    "ExportedCheckpoint",
    "Job",
    "JobOutcome",
    "JobState",
    "Metric",
    "NewestSavepoint",
    "OperatorPlan",
    "PendingSavepoint",
    "Plan",
    "Program",
    "Progress",
    "PruneResult",
    "PurgeResult",
    "QueryStatus",
    "RehearsalResult",
    "Reporter",
    "RestoreOptions",
    "Sample",
    "Savepoint",
    "SavepointCopy",
    "SavepointSummary",
    "SilentReporter",
    "Start",
    "StartedAgain",
    "Verification",
    "prune",
]

_HOMES = {
    "Changes": "client.migration",
    "Client": "client.client",
    "Disposed": "savepoint.directory.dispose",
    "ExportResult": "client.exporting",
    "ExportedCheckpoint": "client.exporting",
    "Job": "client.job",
    "JobOutcome": "client.all_jobs",
    "JobState": "registry.jobs",
    "Metric": "client.metrics",
    "NewestSavepoint": "client.all_jobs",
    "OperatorPlan": "client.checking",
    "PendingSavepoint": "client.job",
    "Plan": "client.checking",
    "Program": "messages.launch",
    "Progress": "client.reporter",
    "PruneResult": "client.pruning",
    "PurgeResult": "client.purge",
    "QueryStatus": "messages.queries",
    "RehearsalResult": "client.rehearsal",
    "Reporter": "client.reporter",
    "RestoreOptions": "messages.restore_options",
    "Sample": "client.metrics",
    "Savepoint": "client.savepoints",
    "SavepointCopy": "messages.results",
    "SavepointSummary": "messages.requests",
    "SilentReporter": "client.reporter",
    "Start": "client.waiting",
    "StartedAgain": "client.together",
    "Verification": "savepoint.manage.verify",
    "prune": "client.client",
}


if not TYPE_CHECKING:  # otherwise type checkers would accept any name as an attribute

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            from importlib import import_module

            return getattr(import_module(f"flinkish.{_HOMES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
