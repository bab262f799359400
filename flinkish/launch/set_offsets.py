"""``--set-offsets``: from what a user writes to what a restore is told, with the file read."""

from __future__ import annotations

import json
from collections.abc import Iterable

from flinkish.errors import UsageError
from flinkish.storage import storage_error

#: Largest size of a file of offsets, in bytes: that of some ten thousand partitions.
_MAX_BYTES = 4 << 20


def offsets_of(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of source and target of a restore, checked, with their files read.

    Parameters
    ----------
    pairs
        Names of sources, each with ``earliest``, ``latest``, ``timestamp:TIME``, ``moved``, offsets
        as JSON, or the path of a file with offsets.

    Raises
    ------
    UsageError
        A source is named twice or not at all, a target says nothing, or a file cannot be read.
    """
    from flinkish.connectors.offsets import parse_target

    targets: dict[str, str] = {}
    for name, where in pairs:
        if not name:
            raise not_a_pair(f"={where}")
        if name in targets:
            raise UsageError(
                f"the offsets of source {name!r} are set twice",
                hint="use --set-offsets once per source",
            )
        targets[name] = parse_target(_text(where)).text
    return tuple(targets.items())


def pair_of(value: str) -> tuple[str, str]:
    """Return SOURCE and WHERE of ``SOURCE=WHERE``; UsageError when it is not of that form.

    What a source reads has ``=`` in it, and so may JSON: offsets in place begin at the first
    ``={``, else the last ``=`` separates.
    """
    name, equals, where = value.partition("={")
    if equals and name.strip():
        return name, "{" + where
    name, equals, where = value.rpartition("=")
    if not (name.strip() and where.strip()):
        raise not_a_pair(value)
    return name, where


def not_a_pair(value: str) -> UsageError:
    """Return the error for what is not SOURCE=WHERE."""
    return UsageError(
        f"{value!r} is not SOURCE=WHERE",
        hint="write --set-offsets SOURCE=earliest, =latest, =timestamp:TIME, =moved or =FILE",
    )


def _text(where: str) -> str:
    if _says_it(where):
        return where
    try:
        with open(where, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(
            f"no file with offsets at {where}",
            hint="--set-offsets takes earliest, latest, timestamp:TIME, JSON or a file with it",
        ) from None
    except PermissionError as error:
        raise storage_error("read", where, error) from error
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {where}: {error}") from error
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{where} is larger than {_MAX_BYTES} bytes: it does not contain offsets")
    try:
        offsets = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON: {error}") from error
    return json.dumps(offsets)


def _says_it(text: str) -> bool:
    word = text.strip()
    return word in ("earliest", "latest", "moved") or word.startswith(("timestamp:", "{"))
