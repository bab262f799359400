"""The effective configuration: its layers, and which of them wins.

The first layer that has the key wins: a command's flag, ``-D key=value``, the environment
(``FLINKISH_<KEY>``, upper case, dots and dashes as underscores), ``spark.flinkish.KEY`` settings,
``./flinkish.toml``, ``$XDG_CONFIG_HOME/flinkish/config.toml``, the default. TOML files may use
dotted keys (``"client.timeout" = "60 s"``) or tables (``[client]`` / ``timeout = "60 s"``).

Unknown keys are kept: ``spark.*`` is passed to Spark, and :meth:`Config.warnings` lists the others
with the nearest known name. A bad *value* of a known key is an error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.config.keys import BY_NAME, CANONICAL, KEYS, canonical, environment_name
from flinkish.config.secrets import MASK, is_secret, mask_secrets
from flinkish.config.values import POSTGRES, normal_value, parse_boolean, parse_duration
from flinkish.errors import InvalidConfiguration, StorageError, UsageError

#: The prefix of keys given as settings of Spark, for drivers that flinkish does not start.
SPARK_PREFIX = "spark.flinkish."
_SPARK = f"Spark setting {SPARK_PREFIX}"


@dataclass(frozen=True)
class Setting:
    """One effective value and the layer it comes from.

    ``key``: the name in :data:`KEYS`, or the name of an unknown key. ``value``: None if the key has
    no value. ``origin``: ``flag``, ``-D``, ``environment FLINKISH_X``,
    ``Spark setting spark.flinkish.KEY``, the path of a file, or ``default``.
    """

    key: str
    value: str | None
    origin: str

    @property
    def masked(self) -> str | None:
        """The value with passwords and tokens hidden, safe to show."""
        if self.value is None:
            return None
        if is_secret(self.key):
            return MASK
        if self.key == "registry.url" and not self.value.startswith(("/", "sqlite:", *POSTGRES)):
            return MASK  # an unknown form: a password may be anywhere in it
        return mask_secrets(self.value)


class Config:
    """The effective configuration: the value and the origin of each key.

    :meth:`load` makes it; it is immutable afterwards.
    """

    def __init__(self, settings: Mapping[str, Setting]) -> None:
        self._settings = dict(settings)

    @staticmethod
    def load(
        *,
        flags: Mapping[str, str | None] | None = None,
        dynamic: Sequence[str] = (),
        spark: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> Config:
        """Read all layers.

        ``flags`` are keys set by a command's own options; None means not given. ``dynamic`` are the
        ``-D`` options in order: ``k=v``, or ``k`` alone for ``k=true`` (as in Flink); the last of a
        repeated key wins. ``spark`` are keys set as ``spark.flinkish.KEY``, which come after the
        environment. ``environ`` and ``cwd`` default to those of the process. If the working
        directory no longer exists, there is no ``./flinkish.toml``, and relative paths are errors.

        Raises InvalidConfiguration if a value is invalid for its key, a ``-D`` option has no key,
        the old and the new name of a key have different values in one layer, or a file cannot be
        read, is not TOML or has a nested list; StorageError if access to a file is denied.
        """
        env = os.environ if environ is None else environ
        here = cwd or working_directory(instead="")
        given_flags = [(k, v, "flag") for k, v in (flags or {}).items() if v is not None]
        layers: list[tuple[Iterable[tuple[str, str, str]], str]] = [
            (given_flags, here),
            (_dynamic(dynamic), here),
            (_environment(env), here),
            ([(k, v, _SPARK + k) for k, v in (spark or {}).items()], here),
            *((_file(path), os.path.dirname(path)) for path in config_files(env, here)),
        ]
        settings: dict[str, Setting] = {}
        for entries, base in layers:
            for name, setting in _layer(entries).items():
                if name not in settings:
                    settings[name] = _normalised(setting, base)
        state_home = _xdg(env, "XDG_STATE_HOME", os.path.join(".local", "state"))
        for key in KEYS:
            if key.name not in settings:
                value = key.default and key.default.replace("$XDG_STATE_HOME", state_home)
                settings[key.name] = Setting(key.name, value, "default")
        return Config(settings)

    def setting(self, key: str) -> Setting:
        """Return the setting of ``key``, which may be a Flink 1.x name.

        An unset key has the value None and the origin ``default``.
        """
        name = canonical(key)
        return self._settings.get(name) or Setting(name, None, "default")

    def settings(self) -> list[Setting]:
        """Return all known keys in the order of :data:`KEYS`, then the unknown keys."""
        settings = [self._settings[key.name] for key in KEYS]
        return settings + [self._settings[k] for k in sorted(self._settings) if k not in BY_NAME]

    def get(self, key: str) -> str | None:
        """Return the value of ``key`` in its normal form, or None when it has none."""
        return self.setting(key).value

    def duration(self, key: str) -> float:
        """Return a duration in seconds; InvalidConfiguration if the key has no value."""
        return parse_duration(self._required(key))

    def boolean(self, key: str) -> bool:
        """Return a boolean; InvalidConfiguration if the key has no value."""
        return parse_boolean(self._required(key))

    def integer(self, key: str) -> int | None:
        """Return a number, or None when the key has no value."""
        value = self.get(key)
        return None if value is None else int(value)

    def extra(self, prefix: str) -> dict[str, str]:
        """Return the values of unknown keys that were set and start with ``prefix``, by key."""
        return {
            name: setting.value
            for name, setting in sorted(self._settings.items())
            if name.startswith(prefix) and name not in BY_NAME and setting.value is not None
        }

    def registry_url(self) -> str:
        """Return the URL of the registry; a SQLite URL always has an absolute path."""
        return self._required("registry.url")

    def to_options(self) -> dict[str, str]:
        """Return the options that a driver needs, for ``Launch.options``.

        These are all keys that have a value, except ``spark.*`` (passed as Spark's configuration),
        ``registry.url`` (it may hold a password, and ``status --json`` shows options) and
        ``notify.*`` (for the supervisor; a URL may hold a token).
        """
        return {
            name: setting.value
            for name, setting in sorted(self._settings.items())
            if setting.value is not None
            and name != "registry.url"
            and not name.startswith(("spark.", "notify."))
        }

    def warnings(self) -> list[str]:
        """Return a line for each unknown key but ``spark.*``, with a similar known name if any."""
        lines = []
        for setting in self.settings():
            if setting.key in BY_NAME or setting.key.startswith("spark."):
                continue
            near = _nearest(setting.key, CANONICAL)
            if near:
                lines.append(f"unknown key {setting.key} ({setting.origin}): did you mean {near}?")
            else:
                lines.append(f"unknown key {setting.key} ({setting.origin}) has no effect")
        return lines

    def _required(self, key: str) -> str:
        value = self.get(key)
        if value is None:
            raise InvalidConfiguration(f"{key} is not set", hint=f"set it with -D {key}=VALUE")
        return value


def config_files(environ: Mapping[str, str], cwd: str) -> tuple[str, str]:
    """Return the paths of the files of the configuration; the first wins."""
    user = os.path.join(_xdg(environ, "XDG_CONFIG_HOME", ".config"), "flinkish", "config.toml")
    return os.path.join(cwd, "flinkish.toml"), user


def working_directory(*, instead: str | None = None) -> str:
    """Return the working directory of the process, or ``instead`` if it was removed.

    Without ``instead``, that is a UsageError.
    """
    try:
        return os.getcwd()
    except OSError as error:
        if instead is not None:
            return instead
        raise UsageError(
            f"the working directory no longer exists: {error.strerror}",
            hint="change to an existing directory",
        ) from error


def environment_warnings(environ: Mapping[str, str]) -> list[str]:
    """Return one line for each ``FLINKISH_*`` variable that looks like a misspelt key.

    Variables that resemble no key are ignored: programs may have their own.
    """
    variables = {environment_name(name): name for name in CANONICAL}
    lines = []
    for variable in sorted(environ):
        if variable.startswith("FLINKISH_") and variable not in variables:
            near = _nearest(variable, variables)
            if near:
                lines.append(f"unknown environment variable {variable}: did you mean {near}?")
    return lines


def _nearest(word: str, words: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # only for a misspelt name: keeps start-up short

    return next(iter(get_close_matches(word, list(words), n=1, cutoff=0.8)), None)


def _dynamic(options: Sequence[str]) -> list[tuple[str, str, str]]:
    last: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        name = name.strip()
        if not name:
            raise InvalidConfiguration(
                f"the setting {option!r} has no key", hint="use -D key=value"
            )
        last[name] = value.strip() if equals else "true"
    return [(name, value, "-D") for name, value in last.items()]


def _environment(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    entries = []
    for name in CANONICAL:
        variable = environment_name(name)
        if environ.get(variable):  # an empty variable counts as unset, as is usual
            entries.append((name, environ[variable], f"environment {variable}"))
    return entries


def _file(path: str) -> list[tuple[str, str, str]]:
    table = read_toml(path)
    return [] if table is None else [(k, value, path) for k, value in _flatten(table, "", path)]


def read_toml(path: str) -> dict[str, Any] | None:
    """Return the tables of a TOML file; None if it does not exist.

    Raises InvalidConfiguration if it is not a file or not TOML, StorageError if access is denied.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise StorageError(
            f"cannot read {path}: {error.strerror}", hint="make it readable for your user"
        ) from error
    except OSError as error:
        raise InvalidConfiguration(
            f"cannot read {path}: {error.strerror}", hint="make it a readable file, or remove it"
        ) from error
    from importlib import import_module

    # The parser is imported by name, because type checkers for Python 3.10 may find neither module.
    tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table: dict[str, Any] = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfiguration(
            f"{path} is not a TOML file: {error}",
            hint='write lines such as: "client.timeout" = "60 s"',
        ) from error
    return table


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
                    f"{name} in {path} is a nested list", hint="use text, a number or a flat list"
                )
            yield name, ",".join(str(item) for item in value)
        else:
            yield name, str(value)


def _layer(entries: Iterable[tuple[str, str, str]]) -> dict[str, Setting]:
    """Return the entries of one layer under their canonical names; refuse contradictory values."""
    layer: dict[str, Setting] = {}
    first_names: dict[str, str] = {}
    for spelling, value, origin in entries:
        name = canonical(spelling)
        before = layer.get(name)
        if before is not None and before.value != value:
            kept = name
            text = (
                f"{first_names[name]} and {spelling} are the same key, with two values ({origin})"
            )
            if before.origin != origin:  # two settings of Spark, or variables of the environment
                spark = origin.startswith(_SPARK)
                kept = SPARK_PREFIX + name if spark else environment_name(name)
                text = f"{before.origin} and {origin} set the same key, {name}, to two values"
            raise InvalidConfiguration(text, hint=f"keep only {kept}")
        first_names.setdefault(name, spelling)
        layer[name] = before or Setting(name, value, origin)
    return layer


def _normalised(setting: Setting, base: str) -> Setting:
    """Return the setting with its value checked and in the normal form of its kind."""
    key, value = BY_NAME.get(setting.key), setting.value
    if key is None or value is None:
        return setting
    try:
        return Setting(setting.key, normal_value(key, value, base), setting.origin)
    except InvalidConfiguration as error:
        problem = MASK if is_secret(key.name) else mask_secrets(error.message)
        raise InvalidConfiguration(
            f"{setting.key} ({setting.origin}): {problem}",
            hint=error.hint,
            key=setting.key,
            value=setting.masked,
            origin=setting.origin,
        ) from error


def _xdg(environ: Mapping[str, str], variable: str, below_home: str) -> str:
    """Return a base directory of the XDG specification, which says to ignore relative values."""
    value = environ.get(variable, "")
    if os.path.isabs(value):
        return value
    return os.path.join(environ.get("HOME") or os.path.expanduser("~"), below_home)
