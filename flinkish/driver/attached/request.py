"""What a program asks for when it attaches: by arguments, environment and Spark settings.

The first place that has a value wins: an argument of ``flinkish.attach``, the environment
(``FLINKISH_NAME``, ``FLINKISH_RESTORE_SINK_AHEAD``, ``FLINKISH_<KEY>``), Spark's settings
(``spark.flinkish.name``, ``spark.flinkish.restore.sink-ahead``, ``spark.flinkish.KEY``), and for
keys the files of the configuration. Options of a restore are those of ``run -s``
(:mod:`flinkish.launch.restoring`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flinkish.config import Config, read_toml, working_directory
from flinkish.config.keys import CANONICAL, canonical, environment_name
from flinkish.config.loader import SPARK_PREFIX, config_files
from flinkish.errors import InvalidConfiguration, StorageError, UsageError
from flinkish.launch.restoring import RECOVERY_PATH, options_from, restore_spec, settings
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions

#: The prefixes of restore options: after :data:`SPARK_PREFIX`, and in the environment.
_RESTORE = "restore."
_RESTORE_VARIABLE = "FLINKISH_RESTORE_"
_SINK_AHEAD = (_RESTORE + "sink-ahead", _RESTORE_VARIABLE + "SINK_AHEAD")
_NAME_VARIABLE = "FLINKISH_NAME"
_PARALLELISM = "parallelism.default"
_ALLOW_NON_RESTORED = "execution.state-recovery.ignore-unclaimed-state"


@dataclass(frozen=True)
class Arguments:
    """The arguments of ``flinkish.attach``.

    ``keys`` are settings of flinkish's configuration.
    """

    name: str | None = None
    savepoint: str | None = None
    restore: RestoreOptions = NO_OPTIONS
    parallelism: int | None = None
    keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AttachRequest:
    """What a program asks for. ``name`` is None if the program does not name its job."""

    config: Config
    name: str | None
    restore: RestoreSpec | None

    @property
    def parallelism(self) -> int | None:
        """The number of shuffle partitions for the session, or None."""
        return self.config.integer(_PARALLELISM)


def attach_request(
    arguments: Arguments, environ: Mapping[str, str], spark: Mapping[str, str], cwd: str
) -> AttachRequest:
    """Return what a program asks for.

    ``spark`` are the settings of the program's session. Raises UsageError for options that
    contradict each other, and InvalidConfiguration for wrong values.
    """
    keys, by_spark = split_settings(spark)
    name = arguments.name or environ.get(_NAME_VARIABLE) or keys.pop("name", None)
    keys.pop("name", None)
    by_environment = {
        variable.removeprefix(_RESTORE_VARIABLE).lower().replace("_", "-"): value
        for variable, value in environ.items()
        if variable.startswith(_RESTORE_VARIABLE) and value
    }
    by_spark = {k: text for k, text in by_spark.items() if k not in by_environment}
    keys |= _keys_of(by_spark)
    argument_keys = {canonical(key) for key in arguments.keys}
    own = settings(arguments.savepoint, arguments.restore, arguments.parallelism)
    flags = {
        **{k: text for k, text in _keys_of(by_environment).items() if k not in argument_keys},
        **arguments.keys,
        **{key: value for key, value in own.items() if value is not None},
    }
    config = Config.load(flags=flags, spark=keys, environ=environ, cwd=cwd)
    asks = "parallelism" in by_spark or config.setting(_PARALLELISM).origin == "flag"
    parallelism = config.integer(_PARALLELISM) if asks else None
    options = _merged(arguments.restore, _options({**by_spark, **by_environment}))
    spec = restore_spec(arguments.savepoint, options, config, parallelism=parallelism)
    return AttachRequest(config, name or None, spec)


def asks_restore(
    arguments: Arguments,
    environ: Mapping[str, str],
    spark: Mapping[str, str],
    cwd: str | None = None,
) -> bool:
    """Return whether a program asks for a restore, even if its other settings are wrong.

    A program counts as asking if a file of its configuration is not TOML, as the file may name a
    savepoint. An option for a sink that is ahead is not a request for a restore, unless the sink's
    table is to be rolled back.
    """
    keys, asked = split_settings(spark)
    variables = {environment_name(key) for key in CANONICAL if canonical(key) == RECOVERY_PATH}
    texts = [*((_RESTORE + name, value) for name, value in asked.items()), *environ.items()]
    if (
        arguments.savepoint is not None
        or any(canonical(key) == RECOVERY_PATH for key in (*keys, *arguments.keys))
        or any(
            value and (name in variables or name.startswith((_RESTORE, _RESTORE_VARIABLE)))
            for name, value in texts
            if name not in _SINK_AHEAD or value == "rollback"
        )
    ):
        return True
    here = working_directory(instead="") if cwd is None else cwd
    return any(_may_name_savepoint(path) for path in config_files(environ, here))


def _may_name_savepoint(path: str) -> bool:
    """Return whether a file of the configuration names a savepoint, or may do so."""
    try:
        table = read_toml(path)
    except InvalidConfiguration:
        return True
    except StorageError:  # such as the home directory of another user
        return False
    return any(canonical(key) == RECOVERY_PATH for key in _names(table or {}))


def _names(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _names(value, f"{prefix}{key}.")
        else:
            yield prefix + key


def settings_of(session: Any) -> dict[str, str]:
    """Return the settings of a session, and of its context."""
    settings = {str(key): str(value) for key, value in session.sparkContext.getConf().getAll()}
    entries = session._jsparkSession.conf().getAll().iterator()
    while entries.hasNext():
        entry = entries.next()
        settings[str(entry._1())] = str(entry._2())
    return settings


def split_settings(spark: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the keys of flinkish in Spark's settings, and the options of a restore."""
    own = {
        key.removeprefix(SPARK_PREFIX): value
        for key, value in spark.items()
        if key.startswith(SPARK_PREFIX)
    }
    restore = {k.removeprefix(_RESTORE): v for k, v in own.items() if k.startswith(_RESTORE)}
    return {k: v for k, v in own.items() if not k.startswith(_RESTORE)}, restore


def _options(texts: Mapping[str, str]) -> RestoreOptions:
    return options_from({k: v for k, v in texts.items() if k not in ("savepoint", "parallelism")})


def _keys_of(texts: Mapping[str, str]) -> dict[str, str]:
    """Return those options of a restore that are also settings, by their keys."""
    options, parallelism = _options(texts), texts.get("parallelism")
    number = None if parallelism is None else _number(parallelism)
    keys = settings(texts.get("savepoint") or None, options, number)
    if "allow-non-restored" in texts:  # false must win over the places that come later
        keys[_ALLOW_NON_RESTORED] = str(options.allow_non_restored).lower()
    return {key: value for key, value in keys.items() if value is not None}


def _merged(first: RestoreOptions, second: RestoreOptions) -> RestoreOptions:
    """Return the options of two layers; the first layer's count unless they are defaults."""
    return replace(second, **{k: v for k, v in vars(first).items() if v != getattr(NO_OPTIONS, k)})


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError(
            f"{text!r} is not a value of the restore option parallelism",
            hint="give the number of state partitions, at least 1",
        )
    return int(text)
