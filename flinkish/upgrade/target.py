"""The requested new version of a job, and its launch, derived from the old job's. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from flinkish.client.program import with_spark
from flinkish.messages.launch import Launch, Program
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions
from flinkish.messages.upgrades import Health

_RECOVERY = "execution.state-recovery."
_PARTITIONS = "spark.sql.shuffle.partitions"
#: Changes nothing in the program.
NO_PROGRAM = Program()


@dataclass(frozen=True)
class Changes:
    """The new program's differences from the old job; None and empty keep what the job had.

    ``program`` has absolute paths; ``drops_arguments`` says that the new program gets no arguments
    if it names none. ``working_directory`` applies only if ``program`` names an application.
    """

    program: Program = NO_PROGRAM
    drops_arguments: bool = False
    parallelism: int | None = None
    working_directory: str | None = None


@dataclass(frozen=True, kw_only=True)
class NewVersion:
    """The request for an upgrade.

    ``target`` is the directory of the savepoint; None is the configured one. ``timeout`` is the
    time in seconds for the job's savepoint and, if the job is stopped, for its end as well; None is
    ``client.timeout``.
    """

    changes: Changes = field(repr=False)
    restore: RestoreOptions = field(default=NO_OPTIONS, repr=False)
    target: str | None = None
    timeout: float | None = None
    health: Health = Health()  # noqa: RUF009  (frozen)


def target_launch(old: Launch, changes: Changes) -> Launch:
    """Return the launch of the new program, without a restore; for its Spark see with_spark."""
    new = changes.program
    launch = replace(
        with_spark(old, new),
        restore=None,
        options={k: v for k, v in old.options.items() if not k.startswith(_RECOVERY)},
    )
    if new.application is not None:
        launch = replace(
            launch,
            application=new.application,
            module=None,
            working_directory=changes.working_directory or old.working_directory,
        )
    if new.arguments or changes.drops_arguments:
        launch = replace(launch, arguments=new.arguments)
    if new.secret_arguments:
        launch = replace(launch, secret_arguments=new.secret_arguments)
    if changes.parallelism is not None:
        launch = replace(launch, conf={**launch.conf, _PARTITIONS: str(changes.parallelism)})
    return launch
