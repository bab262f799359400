"""The file of a fleet: which jobs are upgraded, and to what."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields, replace
from typing import Any

from flinkish.config import parse_duration, read_toml
from flinkish.errors import FlinkishError, UsageError
from flinkish.launch.restoring import check_path_map, check_uid_map
from flinkish.messages.launch import LEAST_PARALLELISM, Program
from flinkish.messages.restore_options import SINK_MODES, RestoreOptions
from flinkish.messages.upgrades import LEAST_HEALTH_BATCHES, Health
from flinkish.storage.locations import locate_from
from flinkish.upgrade.target import Changes, NewVersion

#: Options of a restore that a fleet's file cannot set.
_NOT_OF_A_FLEET = ("claim_mode", "fork", "verify")
#: The keys that differ from the names of their fields, by field.
_KEY_OF = {"allow_non_restored": "allow-non-restored-state", "path_map": "map-path"}
_Pairs = tuple[tuple[str, str], ...]
#: The options with a pair for each entry of a table.
_TABLES = ("uid_map", "path_map", "set_offsets")


def _kind_of(option: Field[Any]) -> type:
    if option.name in _TABLES:
        return dict
    return {bool: bool, tuple: list}.get(type(option.default), str)


#: The keys for the options of a restore, with the field and the type of its value.
_RESTORE = {
    _KEY_OF.get(each.name, each.name.replace("_", "-")): (each.name, _kind_of(each))
    for each in fields(RestoreOptions)
    if each.name not in _NOT_OF_A_FLEET
}
#: The keys of an entry and, except ``job``, of ``[defaults]``, with the types of their values.
_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "job": str,
    "to": str,
    "args": list,
    "master": str,
    "spark-home": str,
    "pyexec": str,
    "pyclientexec": str,
    "conf": dict,
    "parallelism": int,
    **{key: kind for key, (_, kind) in _RESTORE.items()},
    "savepoint-path": str,
    "timeout": str,
    "health-batches": int,
    "health-timeout": str,
    "handover": bool,
}
_LEAST = {"parallelism": LEAST_PARALLELISM, "health-batches": LEAST_HEALTH_BATCHES}
#: The keys of paths that start at the file's directory; an interpreter without a slash is looked up
#: in PATH instead. ``pyexec``, the executors' interpreter, starts at that directory only if such a
#: file exists, because the interpreter may also be in an archive that is unpacked elsewhere.
_PATHS = ("to", "spark-home", "pyexec", "pyclientexec")
_NAMES = {str: "text", list: "a list of texts", dict: "a table of texts", int: "a whole number"}


@dataclass(frozen=True)
class FleetEntry:
    """One entry: the upgrade of the jobs of a name or a pattern.

    ``pattern`` is a job's id, or a job's name, in which ``*`` and ``?`` are wildcards. With
    ``handover`` the driver of the new program starts before the job is stopped.
    """

    pattern: str
    version: NewVersion
    handover: bool = False


def read_fleet(file: str) -> tuple[FleetEntry, ...]:
    """Return the entries of a fleet's file.

    Raises UsageError if the file is missing, or :func:`parse_fleet` refuses it;
    InvalidConfiguration if it is not TOML; StorageError if access to it is denied.
    """
    path = os.path.abspath(file)
    table = read_toml(path)
    if table is None:
        raise UsageError(f"no such file: {file}", hint="name the fleet's TOML file")
    return parse_fleet(table, os.path.dirname(path))


def parse_fleet(table: Mapping[str, Any], directory: str) -> tuple[FleetEntry, ...]:
    """Return the entries of a fleet's file.

    ``table`` is the file's TOML: tables ``[[upgrade]]``, and ``[defaults]`` for the keys that they
    omit. Relative paths start at ``directory``, that of the file.

    Raises UsageError for unknown keys, wrong values, no entry, or two entries for one name.
    """
    unknown = sorted(set(table) - {"upgrade", "defaults"})
    if unknown:
        raise _wrong(
            f"unknown table or key {unknown[0]!r}", "it may have [defaults] and [[upgrade]]"
        )
    defaults = table.get("defaults", {})
    entries = table.get("upgrade", [])
    if not isinstance(defaults, dict):
        raise _wrong("defaults is not a table", "write its keys below [defaults]")
    if not isinstance(entries, list) or not entries:
        raise _wrong("it has no [[upgrade]]", "write one for each job or name pattern")
    if "job" in defaults:
        raise _wrong("[defaults] names a job", "name jobs in [[upgrade]]")
    fleet: list[FleetEntry] = []
    _check(defaults, "[defaults]")
    for number, entry in enumerate(entries, start=1):
        where = f"[[upgrade]] number {number}"
        if not isinstance(entry, dict) or "job" not in entry:
            raise _wrong(f"{where} has no job", 'add: job = "NAME"')
        _check(entry, where)
        merged = {**defaults, **entry}
        merged["conf"] = {**defaults.get("conf", {}), **entry.get("conf", {})}
        fleet.append(_entry(merged, where, directory))
        earlier = [each.pattern for each in fleet[:-1]]
        if fleet[-1].pattern in earlier:
            first = earlier.index(fleet[-1].pattern) + 1
            raise _wrong(
                f"[[upgrade]] number {first} and number {number} are both for {entry['job']!r}",
                "remove one of them",
            )
    return tuple(fleet)


def _check(table: Mapping[str, Any], where: str) -> None:
    """Check the keys of an entry or of the defaults, and each value separately."""
    for key, value in table.items():
        kind = _KEYS.get(key)
        if kind is None:
            raise _wrong(f"{where} has the unknown key {key!r}", f"known keys: {', '.join(_KEYS)}")
        if _has_empty(value) and key != "args":
            raise _wrong(f"{key} of {where} is empty", "remove the key, or give it a value")
        if not _is_of(value, kind):
            what = _NAMES.get(kind, "true or false") if isinstance(kind, type) else "another type"
            raise _wrong(f"{key} of {where} is {value!r}", f"it must be {what}")
        if key in _LEAST and value < _LEAST[key]:
            raise _wrong(f"{key} of {where} is {value}", f"it must be {_LEAST[key]} or more")
    sink_ahead = table.get("sink-ahead")
    if sink_ahead not in (None, *SINK_MODES):
        words = f"use one of {', '.join(SINK_MODES)}"
        raise _wrong(f"sink-ahead of {where} is {sink_ahead!r}", words)


def _entry(table: Mapping[str, Any], where: str, directory: str) -> FleetEntry:
    paths = {
        key: os.path.normpath(os.path.join(directory, os.path.expanduser(table[key])))
        for key in _PATHS
        if key in table and (not key.endswith("exec") or "/" in table[key])
    }
    if not os.path.isfile(paths.get("pyexec", "")):
        paths.pop("pyexec", None)
    arguments = table.get("args")
    program, patience = paths.get("to"), _seconds(table, "health-timeout", where)
    target = table.get("savepoint-path")
    changes = Changes(
        Program(
            application=program,
            arguments=tuple(arguments or ()),
            master=table.get("master"),
            spark_home=paths.get("spark-home"),
            python=paths.get("pyexec", table.get("pyexec")),
            client_python=paths.get("pyclientexec", table.get("pyclientexec")),
            conf=table["conf"],
        ),
        drops_arguments=arguments == [],
        parallelism=table.get("parallelism"),
        working_directory=None if program is None else directory,
    )
    version = NewVersion(
        changes=changes,
        restore=_options(table, where, directory),
        health=Health(
            table.get("health-batches", Health.batches),
            Health.timeout if patience is None else patience,
        ),
        target=None if target is None else _location(target, where, directory),
        timeout=_seconds(table, "timeout", where),
    )
    return FleetEntry(table["job"], version, handover=table.get("handover", False))


def _seconds(table: Mapping[str, Any], key: str, where: str) -> float | None:
    if key not in table:
        return None
    try:
        return parse_duration(table[key])
    except FlinkishError as error:
        raise _wrong(f"{key} of {where}: {error.message}", error.hint) from error


def _options(table: Mapping[str, Any], where: str, directory: str) -> RestoreOptions:
    def located(text: str) -> str:
        return locate_from(directory, text) if text.strip() else text

    values = {name: table[key] for key, (name, _) in _RESTORE.items() if key in table}
    for name, value in values.items():
        if isinstance(value, list | dict):
            values[name] = tuple(value.items() if isinstance(value, dict) else value)
    options = RestoreOptions(**values)
    return replace(
        options,
        uid_map=_checked(check_uid_map, options.uid_map, f"uid-map of {where}"),
        path_map=_checked(
            lambda pairs: check_path_map((located(old), located(new)) for old, new in pairs),
            options.path_map,
            f"map-path of {where}",
        ),
        set_offsets=tuple((name, _target(text, where)) for name, text in options.set_offsets),
    )


def _checked(check: Callable[[_Pairs], _Pairs], pairs: _Pairs, where: str) -> _Pairs:
    try:
        return check(pairs)
    except FlinkishError as error:
        raise _wrong(f"{where}: {error.message}", error.hint) from error


def _location(text: str, where: str, directory: str) -> str:
    try:
        return locate_from(directory, text)
    except FlinkishError as error:
        raise _wrong(f"savepoint-path of {where}: {error.message}", error.hint) from error


def _target(text: str, where: str) -> str:
    """Return where a source resumes; a fleet's file cannot refer to other files."""
    from flinkish.connectors.offsets import parse_target

    try:
        return parse_target(text).text
    except UsageError as error:
        raise _wrong(f"set-offsets of {where}: {error.message}", error.hint or "") from error


def _is_of(value: Any, kind: type | tuple[type, ...]) -> bool:
    if isinstance(value, bool) and kind is not bool:
        return False
    if not isinstance(value, kind):
        return False
    if isinstance(value, dict):
        return all(isinstance(each, str) for each in value.values())
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return True


def _has_empty(value: Any) -> bool:
    """Return whether a text, or one in a list or in the keys of a table, is empty. Pure."""
    texts = [value] if isinstance(value, str) else value
    return isinstance(texts, list | dict | tuple) and any(
        isinstance(each, str) and not each.strip() for each in texts
    )


def _wrong(what: str, hint: str) -> UsageError:
    return UsageError(f"invalid fleet file: {what}", hint=hint)
