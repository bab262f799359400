"""The options of a restore, parsed and combined with the configuration for all callers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, get_type_hints

from flinkish.config import Config, parse_boolean
from flinkish.errors import Corrupt, StorageError, UsageError
from flinkish.messages.codec import decode_fields, encode_fields
from flinkish.messages.launch import Program, RestoreSpec
from flinkish.messages.restore_options import SINK_MODES, VERIFY_LEVELS, RestoreOptions
from flinkish.operators.uids import uid_to_operator_id

_OPERATOR_ID = re.compile("[0-9A-Fa-f]{32}")
_RECOVERY = "execution.state-recovery."
#: The setting with the savepoint to start from.
RECOVERY_PATH = _RECOVERY + "path"
#: The beginning of an absolute path or a URL.
_BEGINS_PATH = re.compile("/|[A-Za-z][A-Za-z0-9+.-]*:/")
#: Largest size of a file of offsets, in bytes: that of some ten thousand partitions.
_MAX_OFFSETS = 4 << 20
_T = TypeVar("_T", Program, RestoreOptions)


def given(options: RestoreOptions) -> list[tuple[str, str]]:
    """Return the given options except the claim mode, each in words and as its flag."""
    names = (
        (options.allow_non_restored, "dropping non-restored state", "-n (--allowNonRestoredState)"),
        (options.fork, "a fork", "--fork"),
        (options.uid_map, "a uid map", "--uid-map"),
        (options.path_map, "mapping paths", "--map-path"),
        (options.reset_sources, "a source that starts from scratch", "--reset-source"),
        (options.sink_ahead, "a choice for a sink that is ahead", "--sink-ahead"),
        (options.accept_lost_rows, "skipping lost rows", "--accept-lost-rows"),
        (options.accept_partial, "incomplete results", "--accept-partial"),
        (options.set_offsets, "setting offsets", "--set-offsets"),
        (options.accept_repeated_rows, "reading rows again", "--accept-repeated-rows"),
        (options.offline, "planning without a broker", "--offline"),
        (options.verify, "a check of the savepoint's files", "--verify"),
    )
    return [(name, flag) for value, name, flag in names if value]


def settings(
    savepoint: str | None, options: RestoreOptions, parallelism: int | None
) -> dict[str, str | None]:
    """Return the savepoint and the options that are also settings, by their keys."""
    return {
        RECOVERY_PATH: savepoint,
        _RECOVERY + "ignore-unclaimed-state": "true" if options.allow_non_restored else None,
        _RECOVERY + "claim-mode": options.claim_mode,
        "parallelism.default": None if parallelism is None else str(parallelism),
    }


def restore_spec(
    savepoint: str | None,
    options: RestoreOptions,
    config: Config,
    *,
    parallelism: int | None = None,
    checkpoints: str | None = None,
) -> RestoreSpec | None:
    """Return the requested restore, or None without a savepoint.

    ``savepoint``: the savepoint, or a plain Spark checkpoint; None uses the configuration.
    ``options``: how it is restored. ``config``: loaded with :func:`settings`. ``parallelism``:
    requested number of state partitions. ``checkpoints``: the checkpoints of a job, which stand for
    a savepoint.

    Raises UsageError if options have wrong values, or are given without a savepoint (``sink_ahead``
    needs one only to roll a table back), and StorageError if a location or file is unusable.
    """
    path = checkpoints or savepoint or config.get(RECOVERY_PATH)
    if path is None:
        mode = [("a claim mode", "-cm (--claimMode)")] if options.claim_mode else []
        # A new checkpoint may also continue after its sink's batches, or drop output; only a
        # rollback needs the table's version in a savepoint.
        rest = options if options.sink_ahead == "rollback" else replace(options, sink_ahead=None)
        for name, flag in [*given(rest), *mode]:
            raise UsageError(
                f"{name} needs a savepoint to restore from",
                hint=f"give it with -s PATH, or omit {flag}",
            )
        return None
    from flinkish.savepoint.directory.places import savepoint_meant

    options = checked(
        replace(
            options,
            allow_non_restored=config.boolean(_RECOVERY + "ignore-unclaimed-state"),
            claim_mode=config.get(_RECOVERY + "claim-mode"),
        )
    )
    return RestoreSpec(savepoint_meant(path), options, parallelism)


def well_typed(value: _T) -> _T:
    """Return a program or options encoded and decoded; raise UsageError for wrong types.

    Python programs may give anything, but a launch that cannot be decoded would make the registry
    unreadable.
    """
    try:
        return decode_fields(type(value), encode_fields(value))
    except Corrupt as error:
        raise UsageError(
            error.message,
            hint="several values are a tuple, as in Program('app.py', ('in', 'out')) and "
            "RestoreOptions(uid_map=(('old', 'new'),))",
        ) from error


def checked(options: RestoreOptions) -> RestoreOptions:
    """Return checked options, with offsets read from files. Raises UsageError or StorageError."""
    options = well_typed(options)
    return replace(
        options,
        uid_map=check_uid_map(options.uid_map),
        path_map=check_path_map(options.path_map),
        set_offsets=offsets_of(options.set_offsets),
    )


def check_uid_map(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the pairs (old, new) of a uid map, checked.

    Raises UsageError if a pair lacks a side, or one state or one uid appears in the map twice.
    """
    checked_pairs = []
    states: dict[str, str] = {}
    uids: dict[str, str] = {}
    for old, new in pairs:
        value = f"{old}={new}"
        if not (old.strip() and new.strip()):
            raise not_a_pair(value)
        # A uid and its operator id name the same state.
        state = old.lower() if _OPERATOR_ID.fullmatch(old) else uid_to_operator_id(old)
        for taken, key, what in ((states, state, "state"), (uids, new, "new uid")):
            if key in taken:
                raise UsageError(
                    f"the uid map contains one {what} twice: {taken[key]!r} and {value!r}",
                    hint="map the state of one operator to one operator: --uid-map OLD=NEW",
                )
            taken[key] = value
        checked_pairs.append((old, new))
    return tuple(checked_pairs)


def path_pair(value: str) -> tuple[str, str]:
    """Return the two paths of ``OLD=NEW``; UsageError if it has another form.

    Paths may contain ``=`` (directories ``key=value``). Of several ``=``, the only one before an
    absolute path or a URL counts.
    """
    places = [i for i, character in enumerate(value) if character == "="]
    if len(places) > 1:
        places = [i for i in places if _BEGINS_PATH.match(value, i + 1)]
    if len(places) != 1:
        raise UsageError(
            f"--map-path {value}: it is not OLD=NEW",
            hint="write two absolute paths or URLs: --map-path /data/in=s3a://bucket/in",
        )
    return value[: places[0]], value[places[0] + 1 :]


def check_path_map(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the pairs (old, new) of mapped paths as locations, checked.

    Raises
    ------
    UsageError
        A side is empty or not a path, both sides are the same place, or two pairs overlap.
    """
    from flinkish.connectors.path_map import overlapping
    from flinkish.storage import locate

    located = []
    for old, new in pairs:
        try:
            pair = locate(old), locate(new)
        except StorageError as error:
            raise UsageError(f"--map-path {old}={new}: {error.message}", hint=error.hint) from error
        if pair[0] == pair[1]:
            raise UsageError(
                f"--map-path {old}={new}: both sides are the same place", hint="omit --map-path"
            )
        located.append(pair)
    for one, other in overlapping(located):
        raise UsageError(
            f"--map-path: {one} and {other} overlap, so that paths in both have two places",
            hint="map directories that do not contain each other",
        )
    return tuple(located)


def not_a_pair(value: str) -> UsageError:
    """Return the error for an entry of a uid map that does not have the form OLD=NEW."""
    return UsageError(
        f"{value!r} in the uid map is not OLD=NEW",
        hint="write --uid-map old=new; the first = separates the two, so use the operator id of an "
        "old uid that contains =",
    )


_WHERE = "earliest, latest, timestamp:TIME, moved, offsets as JSON, or a file with them"


def offsets_of(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of source and target of a restore, checked, with their files read.

    ``pairs`` are names of sources, each with ``earliest``, ``latest``, ``timestamp:TIME``,
    ``moved``, offsets as JSON, or the path of a file with offsets.

    Raises UsageError if a source is named twice or not at all, a target is invalid, or a file is
    missing or invalid; StorageError if access to it is denied.
    """
    from flinkish.connectors.offsets import parse_target

    targets: dict[str, str] = {}
    for name, where in pairs:
        if not name:
            raise no_offset_pair(f"={where}")
        if name in targets:
            raise UsageError(
                f"the offsets of source {name!r} are set twice",
                hint="use --set-offsets once per source",
            )
        targets[name] = parse_target(_offsets_text(where)).text
    return tuple(targets.items())


def offset_pair(value: str) -> tuple[str, str]:
    """Return SOURCE and WHERE of ``SOURCE=WHERE``; UsageError when it is not of that form.

    SOURCE and WHERE may contain ``=``: JSON begins at the first ``={``, an absolute path at the
    last ``=/``, and a word at the last ``=``.
    """
    name, equals, where = value.partition("={")
    if equals and name.strip():
        return name, "{" + where
    name, _, where = value.rpartition("=")
    if not _says_it(where) and (path := re.fullmatch("(.*)=(/.*)", value)):
        name, where = path.groups()
    if not (name.strip() and where.strip()):
        raise no_offset_pair(value)
    return name, where


def no_offset_pair(value: str) -> UsageError:
    """Return the error for text that does not have the form SOURCE=WHERE."""
    return UsageError(
        f"{value!r} is not SOURCE=WHERE",
        hint="write --set-offsets SOURCE=WHERE, where WHERE is " + _WHERE,
    )


def _offsets_text(where: str) -> str:
    if _says_it(where):
        return where
    try:
        with open(where, "rb") as file:
            data = file.read(_MAX_OFFSETS + 1)
    except FileNotFoundError:
        raise UsageError(
            f"no file with offsets at {where}",
            hint="--set-offsets takes " + _WHERE,
        ) from None
    except PermissionError as error:
        from flinkish.storage import storage_error

        raise storage_error("read", where, error) from error
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {where}: {error}") from error
    if len(data) > _MAX_OFFSETS:
        raise UsageError(f"{where} is larger than {_MAX_OFFSETS} bytes: it contains no offsets")
    try:
        offsets = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON: {error}") from error
    return json.dumps(offsets)


def _says_it(text: str) -> bool:
    word = text.strip()
    return word in ("earliest", "latest", "moved") or word.startswith(("timestamp:", "{"))


#: The allowed values of the options that have a fixed set of them.
_CHOICES = {"sink_ahead": SINK_MODES, "verify": VERIFY_LEVELS, "claim_mode": ("no_claim", "claim")}


def options_from(texts: Mapping[str, str]) -> RestoreOptions:
    """Return the options of a restore from text, by their names with dashes: ``sink-ahead``.

    Several values are a JSON list, or separated by commas outside braces; pairs are ``OLD=NEW``
    or ``SOURCE=WHERE``. Raises UsageError for an unknown option or a wrong value.
    """
    hints = get_type_hints(RestoreOptions)
    values: dict[str, Any] = {}
    for name, text in texts.items():
        option = name.replace("-", "_")
        if option not in hints:
            names = ", ".join(key.replace("_", "-") for key in hints)
            raise UsageError(f"a restore has no option {name!r}", hint=f"the options are {names}")
        if option in _CHOICES and text not in _CHOICES[option]:
            raise UsageError(
                f"{text!r} is not a value of the restore option {name}",
                hint=f"it takes {' or '.join(_CHOICES[option])}",
            )
        if hints[option] is bool:
            values[option] = parse_boolean(text)
        elif hints[option] == tuple[tuple[str, str], ...]:
            values[option] = tuple(_PAIRS[option](word) for word in _words(text))
        elif hints[option] == tuple[str, ...]:
            values[option] = _words(text)
        else:
            values[option] = text
    return RestoreOptions(**values)


def _words(text: str) -> tuple[str, ...]:
    if text.lstrip().startswith("["):
        try:
            return tuple(str(word) for word in json.loads(text))
        except ValueError as error:
            raise UsageError(f"{text!r} is not a JSON list: {error}") from error
    words, depth = [""], 0
    for char in text:
        depth += (char == "{") - (char == "}")
        if char == "," and depth <= 0:
            words.append("")
        else:
            words[-1] += char
    return tuple(word.strip() for word in words if word.strip())


def uid_pair(value: str) -> tuple[str, str]:
    """Return OLD and NEW of ``OLD=NEW``; the first ``=`` separates, so NEW may contain more."""
    old, equals, new = value.partition("=")
    if not equals:
        raise not_a_pair(value)
    return old, new


_PAIRS = {"uid_map": uid_pair, "path_map": path_pair, "set_offsets": offset_pair}
