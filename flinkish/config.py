"""Configuration: every key flinkish knows, where a value may come from, and which one wins.

Layers, the first that has the key wins: a command's flag, ``-D key=value``, the environment
(``FLINKISH_<KEY>``, upper case, dots and dashes as underscores), ``./flinkish.toml``,
``$XDG_CONFIG_HOME/flinkish/config.toml``, the default. Keys are Flink 2.x's; the names of Flink
1.x are accepted in every layer (Flink: ``ConfigOption.withDeprecatedKeys``). TOML files may use
dotted keys (``"client.timeout" = "60 s"``) or tables (``[client]`` / ``timeout = "60 s"``).

Keys flinkish does not know are kept: ``spark.*`` goes through to Spark, others are listed by
:meth:`Config.warnings` with the nearest known name. A bad *value* of a known key is an error.

Imported by every command, hence light: nothing here reads a TOML parser or a path library unless
a file is there to be read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.errors import InvalidConfiguration
from flinkish.masking import MASK as MASK
from flinkish.masking import is_secret as is_secret
from flinkish.masking import mask_secrets as mask_secrets

#: What a registry's URL may begin with, besides the path of a SQLite file.
_POSTGRES = ("postgresql://", "postgres://")


@dataclass(frozen=True)
class Key:
    """One configuration key.

    ``default`` is what the documentation shows; ``$XDG_STATE_HOME`` in it is resolved when the
    configuration is loaded. ``kind`` is one of string, duration, boolean, int, choice, path, url.
    """

    name: str
    default: str | None
    meaning: str
    old_names: tuple[str, ...] = ()
    kind: str = "string"
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setting:
    """One effective value and where it came from.

    ``origin``: ``flag``, ``-D``, ``environment FLINKISH_X``, the path of a file, or ``default``.
    """

    key: str
    value: str | None
    origin: str

    @property
    def masked(self) -> str | None:
        """The value as it may be shown: passwords and tokens hidden."""
        if self.value is None:
            return None
        if is_secret(self.key):
            return MASK
        if self.key == "registry.url" and not self.value.startswith(("/", "sqlite:", *_POSTGRES)):
            return MASK  # nothing that is known: there may be a password anywhere
        return mask_secrets(self.value)


KEYS: tuple[Key, ...] = (
    Key(
        "registry.url",
        "sqlite:///$XDG_STATE_HOME/flinkish/registry.db",
        "the job registry: sqlite:///PATH, a bare path, or postgresql://USER@HOST/DATABASE "
        "(in the environment also FLINKISH_REGISTRY)",
        ("registry",),
        "url",
    ),
    Key(
        "execution.checkpointing.savepoint-dir",
        None,
        "where savepoints go; none and no TARGET: the trigger fails, exit 2, naming this key",
        ("state.savepoints.dir",),
        "path",
    ),
    Key(
        "execution.checkpointing.dir",
        "$XDG_STATE_HOME/flinkish/checkpoints",
        "where jobs' Spark checkpoints live",
        ("state.checkpoints.dir",),
        "path",
    ),
    Key(
        "execution.state-recovery.path",
        None,
        "the savepoint to start from, as `run -s`",
        ("execution.savepoint.path",),
        "path",
    ),
    Key(
        "execution.state-recovery.ignore-unclaimed-state",
        "false",
        "skip savepoint state that no operator of the program takes, as `run -n`",
        ("execution.savepoint.ignore-unclaimed-state",),
        "boolean",
    ),
    Key(
        "execution.state-recovery.claim-mode",
        "no_claim",
        "who owns the savepoint after a restore, as `run -cm`",
        ("execution.savepoint-restore-mode",),
        "choice",
        ("no_claim", "claim"),
    ),
    Key(
        "execution.stream-graph-hasher.version",
        "v3",
        "operator ids of operators without a uid",
        (),
        "choice",
        ("v2", "v3"),
    ),
    Key(
        "pipeline.auto-generate-uids",
        "true",
        "false: submission fails if any operator lacks a uid",
        (),
        "boolean",
    ),
    Key("parallelism.default", None, "state partitions (none: Spark's own setting)", (), "int"),
    Key("client.timeout", "60 s", "how long the client waits before exit 14", (), "duration"),
    Key(
        "execution.savepoint.transfers",
        "64",
        "how many files are on their way to or from remote storage at once",
        (),
        "int",
    ),
    Key(
        "execution.savepoint.distributed",
        "auto",
        "who copies a savepoint's files: true, the job's executors; false, its driver; auto, the "
        "executors from 1 GiB on, between remote storages, on a cluster",
        (),
        "choice",
        ("auto", "true", "false"),
    ),
    Key(
        "execution.quiesce.timeout",
        "10 min",
        "how long stop and cancel -s wait for the running batch to end",
        (),
        "duration",
    ),
    Key(
        "execution.cancel.grace",
        "10 s",
        "how long a plain cancel waits for the running batch before interrupting it",
        (),
        "duration",
    ),
    Key(
        "execution.shutdown.grace",
        "30 s",
        "how long the program may go on after its job was stopped",
        (),
        "duration",
    ),
    Key(
        "execution.heartbeat.interval",
        "2 s",
        "how often a driver reports to the registry",
        (),
        "duration",
    ),
)

_BY_NAME: dict[str, Key] = {key.name: key for key in KEYS}
_CANONICAL: dict[str, str] = {old: key.name for key in KEYS for old in (key.name, *key.old_names)}

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

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


def parse_duration(text: str) -> float:
    """Seconds of a duration written as Flink writes it: ``60 s``, ``10min``, ``500 ms``, ``7d``.

    Units are those of Flink's ``TimeUtils`` (d, h, min, s, ms, µs, ns and their long forms);
    decimals are allowed. A bare number means **seconds**, as everywhere in flinkish (Flink reads
    it as milliseconds: give the unit to be understood by both).

    Raises :class:`InvalidConfiguration` for anything else, and for a number below zero.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zµ]*)\s*", text.lower(), re.ASCII)
    unit = _UNITS.get(match.group(2)) if match else None
    if match is None or unit is None:
        raise InvalidConfiguration(
            f"{text!r} is not a duration", hint='write a number and a unit, such as "90 s" or "2 h"'
        )
    seconds = float(match.group(1)) * unit
    if seconds > 1e11:  # three thousand years; keeps every later sum a finite, sane number
        raise InvalidConfiguration(f"{text!r} is too long a duration", hint="give fewer days")
    return seconds


def parse_boolean(text: str) -> bool:
    """True or False of ``true/false``, ``yes/no``, ``on/off``, ``1/0``, in any case."""
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise InvalidConfiguration(f"{text!r} is not a boolean", hint="write true or false")


def sqlite_path(url: str, base: str | None = None) -> str | None:
    """The absolute path of a SQLite registry URL; None when the URL is of another kind.

    ``sqlite:///relative``, ``sqlite:////absolute``, ``sqlite:~/x`` and a bare path are accepted;
    relative ones start at ``base`` (default: the working directory).

    Raises :class:`InvalidConfiguration` for what is neither a path nor a URL of a registry; it
    shows nothing of it, as there may be a password anywhere.
    """
    if url.startswith("sqlite:"):
        path = url[len("sqlite:") :]
        if path.startswith("///"):
            path = path[3:]
        elif path.startswith("//"):
            raise InvalidConfiguration(
                f"{url!r} names a host, and a SQLite registry is a file",
                hint="write sqlite:///relative/path or sqlite:////absolute/path",
            )
    elif url.startswith(_POSTGRES):
        return None
    else:
        _check_plain_path(url)
        path = url
    if not path:
        raise InvalidConfiguration(
            f"{url!r} names no file", hint="write sqlite:////absolute/path/registry.db"
        )
    return _absolute(path, base or os.getcwd())


def _check_plain_path(text: str) -> None:
    """Refuse what would be the name of a file by mistake only. ``./`` in front makes it one."""
    if not text or text[0] in "/.~":
        what = "has a control character in it" if not text.isprintable() else None
    elif re.match(r"\s*[\w.-]+\s*=", text):
        what = "is a list of parameters (libpq's KEY=VALUE form), and a URL is needed"
    elif (scheme := re.match(r"[A-Za-z][\w+.-]*(?=:)", text)) is not None:
        what = f"begins with {scheme.group()}:, which no registry has"
    elif "@" in text.partition("/")[0]:
        what = "names a user or a host, and has no postgresql:// in front"
    else:
        what = None if text.isprintable() else "has a control character in it"
    if what:
        raise InvalidConfiguration(
            f"the registry's value {what}",
            hint="write postgresql://USER@HOST:PORT/DATABASE, sqlite:////absolute/path, or a path "
            "(./NAME for a file of such a name)",
        )


class Config:
    """The effective configuration: for each key its value and where it came from.

    Made by :meth:`load`; never changes afterwards.
    """

    def __init__(self, settings: Mapping[str, Setting]) -> None:
        self._settings = dict(settings)

    @staticmethod
    def load(
        *,
        flags: Mapping[str, str | None] | None = None,
        dynamic: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> Config:
        """Read all layers.

        Parameters
        ----------
        flags: keys set by a command's own options; None means the option was not given.
        dynamic: the ``-D`` options in order, ``k=v``, or ``k`` alone for ``k=true`` (as in Flink);
            of a repeated key the last wins.
        environ, cwd: default to the process's own.

        Raises :class:`InvalidConfiguration` for a value that its key does not take, for the old
        and the new name of a key set differently in one layer, and for a file that is no TOML.
        """
        env = os.environ if environ is None else environ
        here = os.path.abspath(cwd or os.getcwd())
        user_file = os.path.join(_xdg(env, "XDG_CONFIG_HOME", ".config"), "flinkish", "config.toml")
        given_flags = [(k, v, "flag") for k, v in (flags or {}).items() if v is not None]
        layers: list[tuple[Iterable[tuple[str, str, str]], str]] = [
            (given_flags, here),
            (_dynamic(dynamic), here),
            (_environment(env), here),
            (_file(os.path.join(here, "flinkish.toml")), here),
            (_file(user_file), os.path.dirname(user_file)),
        ]
        found: dict[str, Setting] = {}
        for entries, base in layers:
            for name, setting in _layer(entries).items():
                if name not in found:
                    found[name] = _normalised(setting, base)
        state_home = _xdg(env, "XDG_STATE_HOME", os.path.join(".local", "state"))
        for key in KEYS:
            if key.name not in found:
                value = key.default and key.default.replace("$XDG_STATE_HOME", state_home)
                found[key.name] = Setting(key.name, value, "default")
        return Config(found)

    def setting(self, key: str) -> Setting:
        """The setting of ``key`` (a 1.x name is fine); value None, origin default when unset."""
        name = canonical(key)
        return self._settings.get(name) or Setting(name, None, "default")

    def settings(self) -> list[Setting]:
        """All known keys in the order of :data:`KEYS`, then the others that were given."""
        known = [self._settings[key.name] for key in KEYS]
        return known + [self._settings[k] for k in sorted(self._settings) if k not in _BY_NAME]

    def get(self, key: str) -> str | None:
        """The value of ``key`` in its normal form, or None when it has none."""
        return self.setting(key).value

    def duration(self, key: str) -> float:
        """Seconds. Raises :class:`InvalidConfiguration` when the key has no value."""
        return parse_duration(self._required(key))

    def boolean(self, key: str) -> bool:
        """True or false. Raises :class:`InvalidConfiguration` when the key has no value."""
        return parse_boolean(self._required(key))

    def integer(self, key: str) -> int | None:
        """The number, or None when the key has no value."""
        value = self.get(key)
        return None if value is None else int(value)

    def extra(self, prefix: str) -> dict[str, str]:
        """The given keys that start with ``prefix`` and are not flinkish's own."""
        return {
            name: setting.value
            for name, setting in sorted(self._settings.items())
            if name.startswith(prefix) and name not in _BY_NAME and setting.value is not None
        }

    def registry_url(self) -> str:
        """URL of the registry; for SQLite always with an absolute path."""
        return self._required("registry.url")

    def to_options(self) -> dict[str, str]:
        """What a driver needs to know of this configuration, for ``Launch.options``.

        All keys that have a value, except ``spark.*`` (they travel as Spark's configuration) and
        ``registry.url`` (it may hold a password, and options are shown by ``status --json``).
        """
        return {
            name: setting.value
            for name, setting in sorted(self._settings.items())
            if setting.value is not None
            and name != "registry.url"
            and not name.startswith("spark.")
        }

    def warnings(self) -> list[str]:
        """One line for each given key that flinkish does not know, with the nearest it does."""
        lines = []
        for setting in self.settings():
            if setting.key in _BY_NAME or setting.key.startswith("spark."):
                continue
            near = _nearest(setting.key, _CANONICAL)
            if near:
                lines.append(f"unknown key {setting.key} ({setting.origin}): did you mean {near}?")
            else:
                lines.append(f"unknown key {setting.key} ({setting.origin}) has no effect")
        return lines

    def _required(self, key: str) -> str:
        value = self.get(key)
        if value is None:
            raise InvalidConfiguration(f"{key} is not set", hint=f"give -D {key}=VALUE")
        return value


def canonical(key: str) -> str:
    """The Flink 2.x name of a key given by any of its names; other keys as they are."""
    return _CANONICAL.get(key, key)


def environment_name(key: str) -> str:
    """The environment variable of a key: ``FLINKISH_CLIENT_TIMEOUT`` for ``client.timeout``."""
    return "FLINKISH_" + key.upper().replace(".", "_").replace("-", "_")


def environment_warnings(environ: Mapping[str, str]) -> list[str]:
    """One line for each ``FLINKISH_*`` variable that looks like a misspelt key.

    Variables that resemble no key are left alone: programs may have their own.
    """
    known = {environment_name(name): name for name in _CANONICAL}
    lines = []
    for variable in sorted(environ):
        if variable.startswith("FLINKISH_") and variable not in known:
            near = _nearest(variable, known)
            if near:
                lines.append(f"unknown environment variable {variable}: did you mean {near}?")
    return lines


def _nearest(word: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # only when something is misspelt: keeps start-up short

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.8)), None)


def _dynamic(options: Sequence[str]) -> list[tuple[str, str, str]]:
    last: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        name = name.strip()
        if not name:
            raise InvalidConfiguration(f"-D {option!r} names no key", hint="write -D key=value")
        last[name] = value.strip() if equals else "true"
    return [(name, value, "-D") for name, value in last.items()]


def _environment(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    entries = []
    for name in _CANONICAL:
        variable = environment_name(name)
        if environ.get(variable):  # an empty variable counts as unset, as is usual
            entries.append((name, environ[variable], f"environment {variable}"))
    return entries


def _file(path: str) -> list[tuple[str, str, str]]:
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InvalidConfiguration(
            f"cannot read {path}: {error.strerror}", hint="make it a readable file, or remove it"
        ) from error
    from importlib import import_module

    # By name: a type checker that targets Python 3.10 finds neither of the two reliably.
    tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfiguration(
            f"{path} is not a TOML file: {error}",
            hint='lines look like: "client.timeout" = "60 s"',
        ) from error
    return [(name, value, path) for name, value in _flatten(table, "", path)]


def _flatten(table: Mapping[str, Any], prefix: str, path: str) -> Iterable[tuple[str, str]]:
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict):
            yield from _flatten(value, name + ".", path)
        elif isinstance(value, bool):
            yield name, "true" if value else "false"
        elif isinstance(value, list):
            if any(isinstance(item, (dict, list)) for item in value):
                raise InvalidConfiguration(
                    f"{name} in {path} is a nested list", hint="write text, a number or a flat list"
                )
            yield name, ",".join(str(item) for item in value)
        else:
            yield name, str(value)


def _layer(entries: Iterable[tuple[str, str, str]]) -> dict[str, Setting]:
    """The entries of one layer under their canonical names; contradictions are errors."""
    layer: dict[str, Setting] = {}
    first_names: dict[str, str] = {}
    for given, value, origin in entries:
        name = canonical(given)
        before = layer.get(name)
        if before is not None and before.value != value:
            raise InvalidConfiguration(
                f"{first_names[name]} and {given} are the same key, and {before.origin} sets them "
                "to different values",
                hint=f"keep {name} only",
            )
        first_names.setdefault(name, given)
        layer[name] = before or Setting(name, value, origin)
    return layer


def _normalised(setting: Setting, base: str) -> Setting:
    """The setting with its value checked and in the normal form of its kind."""
    key, value = _BY_NAME.get(setting.key), setting.value
    if key is None or value is None:
        return setting
    try:
        return Setting(setting.key, _normal_value(key, value, base), setting.origin)
    except InvalidConfiguration as error:
        shown = MASK if is_secret(key.name) else mask_secrets(error.message)
        raise InvalidConfiguration(
            f"{setting.key} ({setting.origin}): {shown}",
            hint=error.hint,
            key=setting.key,
            value=setting.masked,
            origin=setting.origin,
        ) from error


def _normal_value(key: Key, value: str, base: str) -> str:
    text = value.strip()
    if key.kind == "duration":
        parse_duration(text)
    elif key.kind == "boolean":
        return "true" if parse_boolean(text) else "false"
    elif key.kind == "int":
        if not (text.isascii() and text.isdigit() and int(text) > 0):
            raise InvalidConfiguration(
                f"{value!r} is not a positive number", hint="write a number from 1 up"
            )
        return str(int(text))
    elif key.kind == "choice":
        word = text.lower()
        if word not in key.choices:
            raise InvalidConfiguration(
                f"{value!r} is none of its values", hint="write one of: " + ", ".join(key.choices)
            )
        return word
    elif key.kind == "path":
        if not text:
            raise InvalidConfiguration("the path is empty", hint="name a directory")
        return text if "://" in text or text.startswith("file:") else _absolute(text, base)
    elif key.kind == "url":
        path = sqlite_path(text, base)
        return text if path is None else "sqlite:///" + path
    return text


def _absolute(path: str, base: str) -> str:
    return os.path.normpath(os.path.join(base, os.path.expanduser(path)))


def _xdg(environ: Mapping[str, str], variable: str, below_home: str) -> str:
    """A base directory of the XDG specification; relative values are to be ignored."""
    value = environ.get(variable, "")
    if os.path.isabs(value):
        return value
    return os.path.join(environ.get("HOME") or os.path.expanduser("~"), below_home)
