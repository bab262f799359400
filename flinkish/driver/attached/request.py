"""What a program asks for when it attaches: by arguments, environment and Spark settings.

The first place that has a value wins: an argument of ``flinkish.attach``, the environment
(``FLINKISH_NAME``, ``FLINKISH_RESTORE_SINK_AHEAD``, ``FLINKISH_<KEY>``), Spark's settings
(``spark.flinkish.name``, ``spark.flinkish.restore.sink-ahead``, ``spark.flinkish.KEY``), and for
keys the files of the configuration. But an argument ``parallelism`` gives way to the option of that
name. Options of a restore are those of ``run -s`` (:mod:`flinkish.launch.restoring`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flinkish.config import Config
from flinkish.config.loader import SPARK_PREFIX
from flinkish.errors import UsageError
from flinkish.launch.restoring import options_from, restore_spec, settings
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions

#: The prefixes of restore options: after :data:`SPARK_PREFIX`, and in the environment.
_RESTORE = "restore."
_RESTORE_VARIABLE = "FLINKISH_RESTORE_"
_NAME_VARIABLE = "FLINKISH_NAME"
_SAVEPOINT = "execution.state-recovery.path"


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
        """The requested number of state partitions."""
        return self.config.integer("parallelism.default")


def attach_request(
    arguments: Arguments, environ: Mapping[str, str], spark: Mapping[str, str], cwd: str
) -> AttachRequest:
    """Return what a program asks for.

    ``spark`` are the settings of its session. Raises UsageError for options that contradict each
    other, and InvalidConfiguration for wrong values.
    """
    keys, asked = split_settings(spark)
    asked |= {
        variable.removeprefix(_RESTORE_VARIABLE).lower().replace("_", "-"): value
        for variable, value in environ.items()
        if variable.startswith(_RESTORE_VARIABLE) and value
    }
    elsewhere = asked.pop("savepoint", None)
    savepoint = arguments.savepoint or elsewhere
    text = asked.pop("parallelism", None)
    parallelism = arguments.parallelism if text is None else _number(text)
    options = _merged(arguments.restore, options_from(asked))
    name = arguments.name or environ.get(_NAME_VARIABLE) or keys.pop("name", None)
    keys.pop("name", None)
    flags = {**arguments.keys, **settings(savepoint, options, parallelism)}
    config = Config.load(flags=flags, spark=keys, environ=environ, cwd=cwd)
    spec = restore_spec(savepoint, options, config, parallelism=parallelism)
    return AttachRequest(config, name or None, spec)


def asks_restore(
    arguments: Arguments, environ: Mapping[str, str], spark: Mapping[str, str]
) -> bool:
    """Return whether a program asks for a restore, even if its other settings are wrong."""
    keys, asked = split_settings(spark)
    named = ("FLINKISH_FROM_SAVEPOINT", f"{_RESTORE_VARIABLE}SAVEPOINT")
    return (
        arguments.savepoint is not None
        or bool(asked)
        or any(environ.get(variable) for variable in named)
        or any(key in keys for key in (_SAVEPOINT, "from-savepoint"))
    )


def split_settings(spark: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the keys of flinkish in Spark's settings, and the options of a restore."""
    own = {
        key.removeprefix(SPARK_PREFIX): value
        for key, value in spark.items()
        if key.startswith(SPARK_PREFIX)
    }
    restore = {k.removeprefix(_RESTORE): v for k, v in own.items() if k.startswith(_RESTORE)}
    return {k: v for k, v in own.items() if not k.startswith(_RESTORE)}, restore


def _merged(first: RestoreOptions, second: RestoreOptions) -> RestoreOptions:
    """Return the options of two layers; the first layer's count unless they are defaults."""
    return replace(second, **{k: v for k, v in vars(first).items() if v != getattr(NO_OPTIONS, k)})


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError(
            f"{SPARK_PREFIX}{_RESTORE}parallelism is {text!r}",
            hint="it is the number of state partitions, at least 1",
        )
    return int(text)
