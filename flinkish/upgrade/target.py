"""The launch of the new program: the old one's, where nothing else was given. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from flinkish.messages.launch import Launch

_RECOVERY = "execution.state-recovery."
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Changes:
    """What is other than in the old job; None and empty mean: as it was started.

    Parameters
    ----------
    application : str or None
        The absolute path of the new program.
    arguments : sequence of str or None
        Its arguments.
    secret_arguments : sequence of str or None
        Further arguments, which are never recorded.
    master, spark_home, python, client_python : str or None
        Spark's master, the Spark, Python of the executors and of the driver.
    conf : mapping
        Spark settings to add or to replace.
    parallelism : int or None
        The number of state partitions.
    working_directory : str or None
        Where the new program starts, when it is another one.
    """

    application: str | None = None
    arguments: Sequence[str] | None = None
    secret_arguments: Sequence[str] | None = None
    master: str | None = None
    spark_home: str | None = None
    python: str | None = None
    client_python: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    parallelism: int | None = None
    working_directory: str | None = None


def target_launch(old: Launch, changes: Changes) -> Launch:
    """Return the launch of the new program, without a restore.

    With another Python and no Spark named, the Spark is that Python's own pyspark; Spark's recorded
    place is that of the old one.
    """
    found = replace(
        old,
        restore=None,
        options={k: v for k, v in old.options.items() if not k.startswith(_RECOVERY)},
        conf={**old.conf, **changes.conf},
    )
    if changes.application is not None:
        found = replace(
            found,
            application=changes.application,
            module=None,
            working_directory=changes.working_directory or old.working_directory,
        )
    if changes.arguments is not None:
        found = replace(found, arguments=tuple(changes.arguments))
    if changes.secret_arguments is not None:
        found = replace(found, secret_arguments=tuple(changes.secret_arguments))
    if changes.master is not None:
        found = replace(found, master=changes.master)
    python = changes.client_python or changes.python
    if python is not None:
        found = replace(
            found, python=changes.python or python, client_python=python, spark_home=None
        )
    if changes.spark_home is not None:
        found = replace(found, spark_home=changes.spark_home)
        if python is None:
            found = replace(found, client_python=None)
    if changes.parallelism is not None:
        found = replace(found, conf={**found.conf, _PARTITIONS: str(changes.parallelism)})
    return found
