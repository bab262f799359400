"""Secret Spark settings: not in the registry, not on a command line, not in Spark's environment.

Whoever submits a job may give keys of storage as Spark settings (``--conf
spark.hadoop.fs.s3a.secret.key=...``). The launcher hands them to the supervisor in one variable,
which that takes out of its environment; the supervisor hands them to ``spark-submit`` in a file of
properties that only its owner can read, and that the driver removes as soon as it runs.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from flinkish.config import MASK, is_secret, mask_secrets
from flinkish.errors import LaunchFailed
from flinkish.jobs.model import Launch

#: From the launcher to the supervisor: the settings, as JSON.
SETTINGS_VARIABLE = "FLINKISH_SECRET_CONF"
#: From the supervisor to the driver: the file that it removes.
FILE_VARIABLE = "FLINKISH_SECRET_FILE"
_DEFAULTS = "spark-defaults.conf"


def secrets_of(launch: Launch) -> dict[str, str]:
    """The Spark settings whose name says that they are secret, or whose value has a password in it.

    Pure.
    """
    return {
        key: value
        for key, value in launch.conf.items()
        if value != MASK and (is_secret(key) or mask_secrets(value) != value)
    }


def without_secrets(launch: Launch) -> Launch:
    """The launch as it may be kept and shown: what is secret is masked, secret options are left
    out. Pure."""
    hidden = dict.fromkeys(secrets_of(launch), MASK)
    options = {key: value for key, value in launch.options.items() if not is_secret(key)}
    return replace(launch, conf={**launch.conf, **hidden}, options=options)


def without_masked(launch: Launch) -> Launch:
    """A kept launch without the settings that were masked: they must not reach Spark. Pure."""
    return replace(launch, conf={k: v for k, v in launch.conf.items() if v != MASK})


def hand_over(environ: Mapping[str, str], launch: Launch) -> dict[str, str]:
    """The environment of a supervisor that gets the secrets of ``launch``. Pure."""
    secret = secrets_of(launch)
    kept = {key: value for key, value in environ.items() if key != SETTINGS_VARIABLE}
    return {**kept, SETTINGS_VARIABLE: json.dumps(secret)} if secret else kept


def take(environ: MutableMapping[str, str]) -> dict[str, str]:
    """The settings that were handed over; they are taken out of the environment."""
    found: dict[str, str] = json.loads(environ.pop(SETTINGS_VARIABLE, "{}"))
    return found


def properties(settings: Mapping[str, str], defaults: str = "") -> str:
    """A file of Java properties with ``settings`` behind ``defaults``, a text of the same form.

    Of a repeated key the last wins (``java.util.Properties.load``). Pure.
    """
    lines = [defaults.rstrip("\n")] if defaults else []
    for key, value in settings.items():
        name = re.sub(r"([\s\\:=#!])", r"\\\1", key)
        text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        lines.append(f"{name}={text}")
    return "\n".join(lines) + "\n"


@contextmanager
def secrets_file(
    settings: Mapping[str, str], directory: str | None, spark_home: str, environ: Mapping[str, str]
) -> Iterator[str | None]:
    """A file for ``spark-submit --properties-file`` for the time of the context.

    It stands in ``directory`` (None: that of temporary files). Spark's own defaults are in it too:
    that option would replace them (``SparkSubmitArguments.mergeDefaultSparkProperties``). Yields
    None where nothing is secret.

    Raises :class:`LaunchFailed` when it cannot be written, or the defaults not be read.
    """
    if not settings:
        yield None
        return
    home = environ.get("SPARK_CONF_DIR") or os.path.join(spark_home, "conf")
    path = None
    try:
        try:
            with open(os.path.join(home, _DEFAULTS), encoding="utf-8") as file:
                defaults = file.read()
        except FileNotFoundError:
            defaults = ""
        # Readable by its owner only, from its first moment on.
        handle, path = tempfile.mkstemp(prefix=".conf-", suffix=".properties", dir=directory)
        with open(handle, "w", encoding="utf-8") as writer:
            writer.write(properties(settings, defaults))
    except (OSError, UnicodeDecodeError) as error:
        remove(path)
        raise LaunchFailed(
            f"the secret settings could not be handed to Spark: {error}",
            hint="see that the directory of the job's log can be written and spark-defaults.conf "
            "be read",
        ) from error
    try:
        yield path
    finally:
        remove(path)


def remove(path: str | None) -> None:
    """Remove the file; it may be gone."""
    if path:
        with suppress(FileNotFoundError):
            os.unlink(path)
