"""The fast path of ``flinkish list``: read a SQLite registry directly in the plain case.

The object model of the registry (dataclasses, enums, JSON, regular expressions) takes several
times as long to import as Python itself takes to start, and the start-up of ``list`` has a measured
budget. The plain case is therefore read here with ``sqlite3`` alone. In the plain case, the
registry has the current schema, and all active jobs to be listed are certainly alive on this host;
or there is no default registry yet. In any other case the result is None, and the caller uses
:class:`flinkish.registry.job_registry.Registry` and :mod:`flinkish.registry.liveness`.

The names of states are those of :mod:`flinkish.registry.jobs`; a test compares the names and the
results.
"""

from __future__ import annotations

import os

from flinkish.registry.schema import UNACKNOWLEDGED, VERSION, is_absent

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
    from typing import Any

FINAL = ("FAILED", "CANCELED", "FINISHED")
SCHEDULED = ("INITIALIZING", "CREATED")

_PROCESS = (
    "json_extract({0}, '$.host'), json_extract({0}, '$.pid'), json_extract({0}, '$.start_ticks')"
)
_JOBS = (
    "SELECT job_id, name, state, start_time, end_time, "
    + _PROCESS.format("driver")
    + ", "
    + _PROCESS.format("supervisor")
    + " FROM flinkish_jobs"
)
_FAILED = (
    f"SELECT name, job_id FROM flinkish_jobs WHERE {UNACKNOWLEDGED} ORDER BY start_time, job_id"
)
_QUERIES = (
    "SELECT q.job_id, q.name, json_extract(q.status, '$.batch_id') FROM flinkish_queries q "
    "JOIN flinkish_jobs ON flinkish_jobs.job_id = q.job_id {where} "
    "ORDER BY q.job_id, q.name, q.seen"
)
_SAVEPOINTS = (
    "SELECT s.job_id, s.path FROM flinkish_savepoints s "
    "JOIN flinkish_jobs ON flinkish_jobs.job_id = s.job_id {where} "
    "AND s.disposed IS NULL AND s.created = (SELECT MAX(n.created) FROM flinkish_savepoints n "
    "WHERE n.job_id = s.job_id AND n.disposed IS NULL) ORDER BY s.path"
)


def registry_path(environ: Mapping[str, str], cwd: str) -> str | None:
    """Return the file of the SQLite registry if it is the default or named by one variable.

    The result is None when a configuration file exists, when any other ``FLINKISH_*`` variable may
    matter (an invalid one must be reported), when ``HOME`` is not an absolute path, or when the
    registry is not a file that exists, named by its absolute path. Only the default file may be
    absent, because the first ``run`` creates it. Raises OSError if it is unknown whether the file
    exists.
    """
    named = None
    for variable in environ:
        if variable.startswith("FLINKISH_"):
            if variable in ("FLINKISH_REGISTRY", "FLINKISH_REGISTRY_URL"):
                if named is not None:
                    return None
                named = environ[variable]
            elif variable not in _HARMLESS or not environ[variable].strip():
                return None
    config = environ.get("XDG_CONFIG_HOME", "")
    state = environ.get("XDG_STATE_HOME", "")
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        return None
    config = config if config.startswith("/") else home + "/.config"
    state = state if state.startswith("/") else home + "/.local/state"
    if os.path.exists(f"{cwd}/flinkish.toml") or os.path.exists(f"{config}/flinkish/config.toml"):
        return None
    path = named if named else f"{state}/flinkish/registry.db"
    if path.startswith("sqlite:////"):
        path = path[10:]
    if not path.startswith("/") or path != path.strip():
        return None
    if is_absent(path):
        return path if named is None else None
    return path if os.path.isfile(path) else None


#: Variables that ``list`` does not use and that accept every value that is not blank.
_HARMLESS = (
    "FLINKISH_EXECUTION_CHECKPOINTING_SAVEPOINT_DIR",
    "FLINKISH_EXECUTION_CHECKPOINTING_DIR",
)


def read_jobs(
    path: str, *, running: bool, scheduled: bool, everything: bool, name: str | None
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]] | None:
    """Return what ``list`` shows, or None for anything but the plain case.

    The result has the rows for ``cli.output.jobs_text.list_document``, and the name and id of each
    job that ran, failed and is not acknowledged. ``path`` is absolute; if there is no file, the
    registry is empty. The filters are those of :class:`flinkish.cli.commands.list.ListOptions`.

    Raises OSError if it is unknown whether the file exists.
    """
    if is_absent(path):
        return [], []
    import sqlite3

    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        connection = sqlite3.connect(f"file:{quoted}?mode=rw", uri=True, isolation_level=None)
    except sqlite3.Error:
        return None
    try:
        version = connection.execute("SELECT MAX(version) FROM flinkish_schema").fetchone()[0]
        if version != VERSION:
            return None
        connection.execute("BEGIN")  # all queries below see the same state of the registry
        rows = _read(connection, *_condition(running, scheduled, everything, name))
        return None if rows is None else (rows, connection.execute(_FAILED).fetchall())
    except sqlite3.Error:
        return None  # busy, damaged, or without JSON functions, which the slow path does not need
    finally:
        connection.close()


def _condition(
    running: bool, scheduled: bool, everything: bool, name: str | None
) -> tuple[str, list[str]]:
    states: list[str] = []
    where = "WHERE 1 = 1"
    if not everything:
        negated = "NOT " if running or not scheduled else ""
        states = [*FINAL, *SCHEDULED] if running and not scheduled else list(FINAL)
        if scheduled and not running:
            states = list(SCHEDULED)
        where += f" AND flinkish_jobs.state {negated}IN ({', '.join('?' * len(states))})"
    if name is not None:
        pattern = "*" in name or "?" in name
        where += f" AND flinkish_jobs.name {'GLOB' if pattern else '='} ?"
        states.append(name.replace("[", "[[]") if pattern else name)
    return where, states


def _read(
    connection: sqlite3.Connection, where: str, values: list[str]
) -> list[dict[str, Any]] | None:
    rows = connection.execute(f"{_JOBS} {where} ORDER BY start_time, job_id", values).fetchall()
    host = os.uname().nodename
    jobs: dict[str, dict[str, Any]] = {}
    for job_id, name, state, start, end, *processes in rows:
        if state not in FINAL and not _certainly_alive(host, processes[:3], processes[3:]):
            return None
        jobs[job_id] = {
            "job_id": job_id,
            "name": name,
            "state": state,
            "start_time": start,
            "end_time": end,
            "queries": {},
            "last_savepoint": None,
        }
    for job_id, name, batch in connection.execute(_QUERIES.format(where=where), values):
        jobs[job_id]["queries"][name] = batch
    for job_id, path in connection.execute(_SAVEPOINTS.format(where=where), values):
        jobs[job_id]["last_savepoint"] = path
    return list(jobs.values())


def _certainly_alive(host: str, driver: list[Any], supervisor: list[Any]) -> bool:
    """Return whether a job's driver runs on this host, or its supervisor if it has no driver yet.

    The rule is that of :func:`flinkish.registry.liveness.loss_reason`; False in case of doubt.
    """
    where, pid, ticks = driver if driver[1] is not None else supervisor
    if pid is None or where != host or ticks is None:
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            text = stream.read()
    except OSError:
        return False
    fields = text[text.rindex(b")") + 2 :].split()
    return fields[0] not in (b"Z", b"X") and int(fields[19]) == ticks
