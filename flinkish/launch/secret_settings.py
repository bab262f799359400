"""Keep secret Spark settings and arguments out of the registry, and hide them from other users.

Users may give keys of storage as Spark settings (``--conf spark.hadoop.fs.s3a.secret.key=...``)
and passwords as arguments of the program. The launcher passes them to the supervisor in one
environment variable, which the supervisor removes from its environment. The supervisor passes them
on in files that only their owner can read and that the driver removes as soon as it runs: the
settings to ``spark-submit`` as properties, the arguments to the driver, which gives them to the
program in place of the masked ones on its command line. So no command line but the user's own shows
them. In cluster mode, the file of :mod:`.carried_job` contains the arguments.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from flinkish.config import MASK, is_secret
from flinkish.config.secrets import holds_secret, is_reference, mask_words
from flinkish.errors import (
    InvalidConfiguration,
    LaunchFailed,
    StorageError,
    UsageError,
    quoted_path,
)
from flinkish.messages.codec import decode, encode
from flinkish.messages.launch import Launch, Secrets

#: From the launcher to the supervisor: the :class:`~flinkish.messages.launch.Secrets` as JSON.
SETTINGS_VARIABLE = "FLINKISH_SECRET_CONF"
#: From the supervisor to the driver: the files that the driver removes.
FILE_VARIABLE = "FLINKISH_SECRET_FILE"
ARGUMENTS_VARIABLE = "FLINKISH_ARGUMENTS_FILE"
#: Spark's own key for what else is secret. The key itself is not secret.
REDACTION = "spark.redaction.regex"
_DEFAULTS = "spark-defaults.conf"
#: Largest size of a file of arguments, in bytes.
_MAX_ARGUMENTS_BYTES = 64 << 10
#: Linux's largest size of one variable, in bytes, with its name, ``=`` and a NUL (MAX_ARG_STRLEN).
_MAX_VARIABLE_BYTES = 128 << 10


def redaction_of(launch: Launch) -> re.Pattern[str] | None:
    """Return the ``spark.redaction.regex`` of the launch, or None for Spark's default. Pure.

    The names of Spark's default are among flinkish's (:func:`~flinkish.config.secrets.is_secret`).
    Raises InvalidConfiguration if the pattern is invalid. Nothing is started then, because it is
    unknown what to mask.
    """
    text = launch.conf.get(REDACTION)
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidConfiguration(
            f"{REDACTION} is not a valid Python regular expression: {error}",
            hint="write it without Java's own syntax, and put flags such as (?i) at its beginning",
        ) from error


def secrets_of(launch: Launch) -> dict[str, str]:
    """Return the Spark settings that are secret by their name, or whose value has a password. Pure.

    Spark's rule (``Utils.redact``: its pattern is found in the key or in the value) applies to the
    user's own pattern, except for values that are paths, coordinates or classes.
    """
    pattern = redaction_of(launch)

    def secret(key: str, value: str) -> bool:
        if pattern is not None:
            own = pattern.search(key) or (pattern.search(value) and not is_reference(value))
            if own:
                return True
        return holds_secret(key, value)

    return {
        key: value
        for key, value in launch.conf.items()
        if value != MASK and key != REDACTION and secret(key, value)
    }


def arguments_of(launch: Launch) -> tuple[str, ...]:
    """Return the arguments that the program gets. Pure."""
    return (*launch.arguments, *launch.secret_arguments)


def shown_arguments(launch: Launch) -> tuple[str, ...]:
    """Return the program's arguments as they may be stored and shown. Pure."""
    plain = mask_words(launch.arguments, redaction_of(launch))
    return (*plain, *(MASK for _ in launch.secret_arguments))


def without_secrets(launch: Launch) -> Launch:
    """Return the launch as it may be stored and shown. Pure.

    Secret settings and arguments are masked, secret options are left out.
    """
    hidden = dict.fromkeys(secrets_of(launch), MASK)
    options = {key: value for key, value in launch.options.items() if not is_secret(key)}
    plain = mask_words(launch.arguments, redaction_of(launch))
    masked = tuple(MASK for _ in launch.secret_arguments)
    return replace(
        launch,
        conf={**launch.conf, **hidden},
        options=options,
        arguments=plain,
        secret_arguments=masked,
    )


def without_masked(launch: Launch) -> Launch:
    """Return a stored launch without its masked settings, which must not reach Spark. Pure."""
    return replace(launch, conf={k: v for k, v in launch.conf.items() if v != MASK})


def with_redaction(launch: Launch, spark_home: str, environ: Mapping[str, str]) -> Launch:
    """Return the launch with the redaction pattern of Spark's defaults, unless it has its own.

    The pattern is ``spark.redaction.regex``; Spark itself would also read it from its defaults.
    Raises :class:`LaunchFailed` when the defaults cannot be read.
    """
    if REDACTION in launch.conf:
        return launch
    pattern = default_of(REDACTION, spark_home, environ)
    return replace(launch, conf={**launch.conf, REDACTION: pattern}) if pattern else launch


def default_of(key: str, spark_home: str, environ: Mapping[str, str]) -> str | None:
    """Return the value of a setting in Spark's defaults, a file of Java properties, or None.

    Raises :class:`LaunchFailed` when the defaults cannot be read.
    """
    text = _defaults(spark_home, environ)
    # Without comments, and with the lines joined that end with a backslash.
    text = re.sub(r"(?m)^[ \t]*[#!].*|(\\.)|\\\n[ \t]*", r"\1", text)
    values = re.findall(rf"(?m)^[ \t]*{re.escape(key)}(?:[ \t]*[=:][ \t]*|[ \t]+)(.*)$", text)
    return re.sub(r"\\(.)", r"\1", values[-1]).strip() if values else None


def hand_over(environ: Mapping[str, str], launch: Launch) -> dict[str, str]:
    """Return the environment of a supervisor that gets the secrets of ``launch``. Pure.

    Raises :class:`UsageError` if they are too long for one variable, or a setting is not UTF-8.
    """
    secrets = Secrets(secrets_of(launch), handed_arguments(launch))
    _check_encoding(secrets.conf)
    kept = {key: value for key, value in environ.items() if key != SETTINGS_VARIABLE}
    if secrets == Secrets():
        return kept
    text = json.dumps(encode(secrets))
    most = _MAX_VARIABLE_BYTES - len(SETTINGS_VARIABLE) - 2
    if len(text) > most:
        raise UsageError(
            "the secret settings and the arguments are too long to be handed over: "
            f"as JSON they have {len(text)} bytes, but at most {most} are possible",
            hint="give fewer or shorter settings and arguments, or have the program read a file",
        )
    return {**kept, SETTINGS_VARIABLE: text}


def take(environ: MutableMapping[str, str]) -> Secrets:
    """Return the secrets that were passed, and remove them from the environment."""
    text = environ.pop(SETTINGS_VARIABLE, None)
    return Secrets() if text is None else decode(Secrets, json.loads(text))


def handed_arguments(launch: Launch) -> tuple[str, ...] | None:
    """Return all arguments when one of them must not be seen, else None."""
    whole = arguments_of(launch)
    return None if shown_arguments(launch) == whole and not launch.secret_arguments else whole


def read_arguments(path: str) -> tuple[str, ...]:
    """Return the arguments in a file, one per line; empty lines are ignored.

    Raises UsageError unless it is a file (or pipe) that only this user can read, with UTF-8 text of
    limited size and without NUL; StorageError if access is denied.
    """
    chmod = f"chmod 600 {quoted_path(path)}"
    check = "check the path and its permissions"
    try:
        with open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            if not (stat.S_ISREG(facts.st_mode) or stat.S_ISFIFO(facts.st_mode)):
                raise UsageError(f"{path} is not a file", hint="one argument a line")
            if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
                raise UsageError(
                    f"the secret arguments in {path} can be read by others "
                    f"(mode {stat.S_IMODE(facts.st_mode):04o}, owner {facts.st_uid})",
                    hint=f"make it yours, readable by you alone: {chmod}",
                )
            data = file.read(_MAX_ARGUMENTS_BYTES + 1)
    except PermissionError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}", hint=check) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=check) from error
    if len(data) > _MAX_ARGUMENTS_BYTES:
        raise UsageError(f"{path} is too long for arguments", hint="one argument a line")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not valid UTF-8", hint="one argument a line") from error
    if "\x00" in text:
        raise UsageError(f"{path} contains a NUL character", hint="one argument a line")
    return tuple(line.removesuffix("\r") for line in text.split("\n") if line.strip())


@contextmanager
def arguments_file(arguments: Sequence[str] | None, directory: str | None) -> Iterator[str | None]:
    """Yield the path of a file with the program's arguments; None without any.

    The file is removed at the end. ``directory`` defaults to that of temporary files. Raises
    LaunchFailed if the file cannot be written.
    """
    if arguments is None:
        yield None
        return
    path = None
    try:
        try:
            handle, path = tempfile.mkstemp(prefix=".arguments-", dir=directory)
            with open(handle, "w", encoding="utf-8", errors="surrogateescape") as writer:
                json.dump(list(arguments), writer)
        except OSError as error:
            raise LaunchFailed(
                f"the secret arguments could not be handed to the driver: {error}",
                hint="see that the directory of the job's log can be written",
            ) from error
        yield path
    finally:
        remove(path)


def with_arguments(argv: Sequence[str], environ: MutableMapping[str, str]) -> list[str]:
    """Return the driver's arguments with those of the program from their file, which is removed.

    ``argv`` is ``APP [ARGS...]`` or ``--module NAME [ARGS...]``.
    """
    path = environ.pop(ARGUMENTS_VARIABLE, None)
    if not path:
        return list(argv)
    try:
        with open(path, encoding="utf-8") as file:
            words = json.load(file)
    finally:
        remove(path)
    return [*argv[: 2 if argv[0] == "--module" else 1], *words]


def properties(settings: Mapping[str, str], defaults: str = "") -> str:
    """Return the text of a Java properties file: ``defaults``, then ``settings``. Pure.

    ``defaults`` is a text of the same form. The last value of a repeated key counts
    (``java.util.Properties.load``).
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
    """Yield the path of a file for ``spark-submit --properties-file``; None without settings.

    Spark's own defaults are in it too, because the option replaces them
    (``SparkSubmitArguments.mergeDefaultSparkProperties``). The file is removed at the end.
    ``directory`` defaults to that of temporary files. Raises LaunchFailed if the defaults cannot be
    read or the file cannot be written, UsageError if a setting is not UTF-8.
    """
    if not settings:
        yield None
        return
    _check_encoding(settings)
    defaults = _defaults(spark_home, environ)
    path = None
    try:
        # mkstemp makes it readable by its owner only, from the beginning.
        handle, path = tempfile.mkstemp(prefix=".conf-", suffix=".properties", dir=directory)
        with open(handle, "w", encoding="utf-8") as writer:
            writer.write(properties(settings, defaults))
    except OSError as error:
        remove(path)
        raise LaunchFailed(
            f"the secret settings could not be handed to Spark: {error}",
            hint="see that the directory of the job's log can be written",
        ) from error
    try:
        yield path
    finally:
        remove(path)


def _check_encoding(settings: Mapping[str, str]) -> None:
    """Raise UsageError for a setting that Spark would read as another text."""
    for key, value in settings.items():
        try:
            f"{key}={value}".encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"the secret setting {key} is not valid UTF-8", hint="give its value in UTF-8"
            ) from None


def remove(path: str | None) -> None:
    """Remove the file; it may be gone."""
    if path:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _defaults(spark_home: str, environ: Mapping[str, str]) -> str:
    """Return the text of Spark's defaults; empty if there are none. Raises LaunchFailed."""
    home = environ.get("SPARK_CONF_DIR") or os.path.join(spark_home, "conf")
    try:
        with open(os.path.join(home, _DEFAULTS), encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchFailed(
            f"Spark's defaults, which decide what is secret, cannot be read: {error}",
            hint=f"see that {os.path.join(home, _DEFAULTS)} is a readable text file",
        ) from error
