"""The values of configuration keys: what each kind accepts, and its normal form. Pure."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from flinkish.config.keys import Key
from flinkish.errors import InvalidConfiguration

if TYPE_CHECKING:
    from datetime import datetime

#: The prefixes of a PostgreSQL registry's URL.
POSTGRES = ("postgresql://", "postgres://")

_UNITS: dict[str, float] = {
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "min": 60.0,
    "m": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "s": 1.0,
    "sec": 1.0,
    "secs": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "": 1.0,
    "ms": 1e-3,
    "milli": 1e-3,
    "millis": 1e-3,
    "millisecond": 1e-3,
    "milliseconds": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "micro": 1e-6,
    "micros": 1e-6,
    "microsecond": 1e-6,
    "microseconds": 1e-6,
    "ns": 1e-9,
    "nano": 1e-9,
    "nanos": 1e-9,
    "nanosecond": 1e-9,
    "nanoseconds": 1e-9,
}

#: The scheme of a URL that lacks its slashes: any word before ``:/``, or one of the listed words
#: before ``:``. Any other text with a colon is a path.
_SCHEME = re.compile(r"(?i)([a-z][a-z0-9+.-]*(?=:/)|s3[an]?|gc?s|hdfs|abfss?)(?=:)")

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


def parse_duration(text: str) -> float:
    """Return the seconds of a duration in Flink's notation: ``60 s``, ``10min``, ``500 ms``.

    The units are those of Flink's ``TimeUtils`` (d, h, min, s, ms, µs, ns and their long forms);
    decimals are allowed. A number without a unit means **seconds**, as everywhere in flinkish;
    Flink reads it as milliseconds, so give the unit for both to agree. Raises InvalidConfiguration
    for any other text, and for more than 9e9 seconds.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zµ]*)\s*", text.lower(), re.ASCII)
    unit = _UNITS.get(match.group(2)) if match else None
    if match is None or unit is None:
        raise InvalidConfiguration(
            f"{text!r} is not a duration", hint='write a number and a unit, such as "90 s" or "2 h"'
        )
    seconds = float(match.group(1)) * unit
    if seconds > 9e9:  # 285 years; threading and queues refuse to wait for more than 9.2e9 s
        raise InvalidConfiguration(
            f"the duration {text!r} is too long", hint="use a shorter duration"
        )
    return seconds


def parse_time(text: str) -> datetime:
    """Return the time of a text in ISO 8601, naive without a zone; a date alone means midnight.

    Raises ValueError for any other text.
    """
    from datetime import datetime

    # Python 3.10 does not know the letter; every Python takes a sign after a date for a separator.
    word = re.sub("[Zz]$", "+00:00", text)
    word = re.sub(r"^(\d{4}-?\d\d-?\d\d)(?=[+-])", r"\1T00:00", word, flags=re.ASCII)
    return datetime.fromisoformat(word)


def parse_moment(text: str, now: float) -> float:
    """Return the time, in seconds since the epoch, of a duration before ``now`` or of a time.

    A duration is what :func:`parse_duration` takes, except a bare number of eight digits. A time is
    in ISO 8601 (``2026-11-23``, ``2026-11-23T10:30``, with or without a zone) or a time of day
    (``10:30``, ``10:30:15``), which means the last such time before ``now``; without a zone a time
    is in this host's zone. Raises InvalidConfiguration for any other text.
    """
    from datetime import datetime, timedelta

    word = text.strip()
    time_of_day = re.fullmatch(r"(\d\d?)(:\d\d(?::\d\d)?)", word, re.ASCII)
    try:
        if time_of_day is not None:
            here = datetime.fromtimestamp(now)
            day, hour = f"{here:%Y-%m-%d}", time_of_day[1].zfill(2)
            moment = datetime.fromisoformat(f"{day}T{hour}{time_of_day[2]}")
            return (moment - timedelta(days=moment > here)).timestamp()
        if re.match(r"\d{4}-", word, re.ASCII):
            return parse_time(word).timestamp()
        if re.fullmatch(r"\d{8}", word, re.ASCII):  # meant as a date, not as so many seconds
            raise ValueError
        return now - parse_duration(word)
    except (InvalidConfiguration, ValueError, OverflowError):
        raise InvalidConfiguration(
            f"{text!r} is neither a duration nor a time",
            hint='write "2 h" for two hours ago, "10:30", or "2026-11-23T10:30"',
        ) from None


def parse_boolean(text: str) -> bool:
    """Return the boolean of ``true/false``, ``yes/no``, ``on/off``, ``1/0``, in any letter case."""
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise InvalidConfiguration(f"{text!r} is not a boolean", hint="write true or false")


def sqlite_path(url: str, base: str | None = None) -> str | None:
    """Return the absolute path of a SQLite registry URL, or None for a PostgreSQL URL.

    ``sqlite:///relative``, ``sqlite:////absolute``, ``sqlite:~/x`` and a plain path are accepted.
    Relative paths start at ``base`` (default: the working directory).

    Raises InvalidConfiguration for anything else; for text without a ``sqlite:`` prefix its message
    quotes at most a scheme, because a password may be anywhere in the text. If the working
    directory is gone, raises it also for a relative path, and quotes the path.
    """
    if url.startswith("sqlite:"):
        path = url[len("sqlite:") :]
        if path.startswith("///"):
            path = path[3:]
        elif path.startswith("//"):
            raise InvalidConfiguration(
                f"{url!r} names a host, but a SQLite registry is a file",
                hint="write sqlite:///relative/path or sqlite:////absolute/path",
            )
    elif url.startswith(POSTGRES):
        return None
    else:
        _check_plain_path(url)
        path = url
    if not path:
        raise InvalidConfiguration(
            f"{url!r} names no file", hint="write sqlite:////absolute/path/registry.db"
        )
    return _absolute(path, base)


def _check_plain_path(text: str) -> None:
    """Refuse text that was hardly meant as a path; with a leading ``./`` it counts as a path."""
    if not text or text[0] in "/.~":
        what = "contains a control character" if not text.isprintable() else None
    elif re.match(r"\s*[\w.-]+\s*=", text):
        what = "is a list of parameters (libpq's KEY=VALUE form) instead of a URL"
    elif (scheme := re.match(r"[A-Za-z][\w+.-]*(?=:)", text)) is not None:
        what = f"begins with {scheme.group()}:, which is not supported"
    elif "@" in text.partition("/")[0]:
        what = "names a user or a host, but does not begin with postgresql://"
    else:
        what = None if text.isprintable() else "contains a control character"
    if what:
        raise InvalidConfiguration(
            f"the registry's value {what}",
            hint="write postgresql://USER@HOST:PORT/DATABASE, sqlite:////absolute/path, or a "
            "printable path (./NAME for a file with such a name)",
        )


def normal_value(key: Key, value: str, base: str) -> str:
    text = value.strip()
    if key.kind == "duration":
        if parse_duration(text) < key.least:
            raise InvalidConfiguration(
                f"the duration {value!r} is too short", hint=f"write at least {key.least:g} s"
            )
    elif key.kind == "boolean":
        return "true" if parse_boolean(text) else "false"
    elif key.kind == "int":
        if not re.fullmatch(r"0*[1-9][0-9]{0,8}", text):
            raise InvalidConfiguration(
                f"{value!r} is not a positive number", hint="write a number from 1 to 999999999"
            )
        return str(int(text))
    elif key.kind == "choice":
        word = text.lower()
        if word not in key.choices:
            raise InvalidConfiguration(
                f"{value!r} is not an allowed value", hint="write one of: " + ", ".join(key.choices)
            )
        return word
    elif key.kind == "path":
        if not text:
            raise InvalidConfiguration("the path is empty", hint="name a directory")
        return _path(text, base)
    elif key.kind == "url":
        path = sqlite_path(text, base)
        return text if path is None else "sqlite:///" + path
    return text


def _path(text: str, base: str) -> str:
    """Return a URL unchanged and a path absolute; refuse a URL that lacks its slashes."""
    if "://" in text or text.startswith(("file:", "local:")):
        return text
    if (scheme := _SCHEME.match(text)) is not None:
        _, at, place = text.rpartition("@")  # what stands before an @ may be a password
        url = f"{scheme.group()}:******@{place}" if at else text
        raise InvalidConfiguration(
            f"{url!r} names no bucket or host",
            hint=f"write {scheme.group()}://NAME/path"
            + ("" if at else f", or ./{text} for a path of that name"),
        )
    return _absolute(text, base)


def _absolute(path: str, base: str | None) -> str:
    """Return an absolute path; an empty ``base`` means that the working directory is gone.

    A ``base`` of None is the process's working directory, which only relative paths need.
    """
    expanded = os.path.expanduser(path)
    if base is None and not os.path.isabs(expanded):
        try:
            base = os.getcwd()
        except OSError:
            base = ""
    absolute = os.path.normpath(os.path.join(base or "", expanded))
    if not os.path.isabs(absolute):
        raise InvalidConfiguration(
            f"{path!r} is a relative path, but the working directory no longer exists",
            hint="write an absolute path, or change to an existing directory",
        )
    return absolute
