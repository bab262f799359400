"""Running a driver that makes a new savepoint of an old one: ``flinkish.driver.migrating``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from flinkish.jobs.drivercall import call_driver
from flinkish.jobs.model import Launch
from flinkish.jobs.program import Installation

#: Beside the result: rows and bytes written so far, as JSON.
PROGRESS_SUFFIX = ".progress"


@dataclass(frozen=True)
class NewSchema:
    """The Avro schema that the values of one state get.

    Attributes:
        query, ordinal: whose state it is.
        state: which of its states; "" where it has one.
        schema: Avro's JSON.
        name: what was asked for, ``UID[/STATE]``.
    """

    query: str
    ordinal: int
    state: str
    schema: Any
    name: str


@dataclass(frozen=True)
class Migration:
    """What a savepoint is to become; None stays as it is.

    Attributes:
        path: the savepoint.
        target: the directory that gets the new one.
        partitions: state partitions.
        backend: ``hdfs`` or ``rocksdb``.
        compression: codec of the state files.
        checkpoint_format: 1 or 2.
        formats: state format versions by the settings that pin them.
        schemas: of values.
        owner: who does it: ``user@host``.
        instead: the new one stands for the old one, which is only on the way: it has the same
            trigger and origin.
    """

    path: str
    target: str
    partitions: int | None = None
    backend: str | None = None
    compression: str | None = None
    checkpoint_format: int | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    schemas: tuple[NewSchema, ...] = ()
    owner: str | None = None
    #: ``native`` or ``canonical``.
    type: str | None = None
    instead: bool = False


def migrate_savepoint(
    migration: Migration,
    launch: Launch,
    installation: Installation,
    *,
    environ: Mapping[str, str],
    show_log: Callable[[str], object],
    on_progress: Callable[[int, int], object],
) -> dict[str, Any]:
    """Have a driver write the new savepoint; what it says of it (see ``driver.migrating``).

    Parameters
    ----------
    show_log: gets the end of the driver's output when that was no success.
    on_progress: told of rows and bytes of state written so far.

    Raises LaunchFailed, and whatever the driver refuses.
    """
    import json

    def look(result: str) -> None:
        path = result + PROGRESS_SUFFIX
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                on_progress(*json.load(file))

    return call_driver(
        launch,
        installation,
        name=f"flinkish migrate {os.path.basename(migration.path.rstrip('/'))}",
        environ=environ,
        variable="FLINKISH_MIGRATE",
        variables={
            "FLINKISH_MIGRATE_WANTED": json.dumps(asdict(migration)),
            "FLINKISH_OPTIONS": json.dumps(dict(launch.options)),
        },
        show_log=show_log,
        while_running=look,
    )
