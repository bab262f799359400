"""The launch of a program: its paths, its Spark, its interpreters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flinkish import storage
from flinkish.config import Config, working_directory
from flinkish.errors import UsageError
from flinkish.launch import spark_submit as programs
from flinkish.launch.restoring import well_typed
from flinkish.launch.spark_submit import Installation
from flinkish.messages.launch import Launch, Program

if TYPE_CHECKING:
    from flinkish.client.context import Context

_HASHER = "execution.stream-graph-hasher.version"
_PARTITIONS = "spark.sql.shuffle.partitions"


def launch_of(program: Program, config: Config, cwd: str) -> Launch:
    """Return the launch that a program and the configuration describe, without a restore.

    ``program``: names a file or a module. ``config``: ``parallelism.default`` and the keys
    ``spark.*`` are used. The program's own settings override both, except for a
    ``parallelism.default`` from the command line. ``cwd``: the base of relative paths.

    Raises UsageError if neither or both of a file and a module are named, or if a value has the
    wrong type; and the errors of :func:`program_file`.
    """
    file, home = _path(program.application), _path(program.spark_home)
    program = well_typed(replace(program, application=file, spark_home=home))
    if program.application and program.module:
        raise UsageError(
            "the file and the module of a program are mutually exclusive",
            hint="name the program only once: APP.py, -py or -pym",
        )
    if not (program.application or program.module):
        jar = ": --jarfile adds a library, jobs are PySpark programs" if program.jars else ""
        raise UsageError(
            f"no program was specified{jar}", hint="flinkish run [OPTIONS] APP.py [ARGS...]"
        )
    parallelism = config.setting("parallelism.default")
    partitions = {} if parallelism.value is None else {_PARTITIONS: parallelism.value}
    conf = {**config.extra("spark."), **partitions, **program.conf}
    if parallelism.origin in ("flag", "-D"):
        conf |= partitions
    complete = {**vars(absolute(program, cwd)), "conf": conf}
    return Launch(**complete, options=config.to_options(), working_directory=cwd)


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def absolute(program: Program, cwd: str) -> Program:
    """Return a program with absolute paths; split the comma-separated items of files and packages.

    Raises the errors of :func:`program_file`.
    """
    file, home = program.application, program.spark_home
    return replace(
        program,
        application=None if file is None else program_file(file, cwd),
        spark_home=os.path.abspath(os.path.expanduser(home)) if home else None,
        py_files=tuple(_absolute(item, cwd) for item in _items(program.py_files)),
        archives=tuple(_absolute(item, cwd) for item in _items(program.archives)),
        jars=tuple(_absolute(item, cwd) for item in _items(program.jars)),
        packages=tuple(_items(program.packages)),
    )


def find_spark(launch: Launch) -> Installation:
    """Return the Spark and the interpreters that run a launch.

    Raises LaunchFailed if something is missing; the error says what to install.
    """
    return programs.resolve(launch, os.environ)


def pinned(launch: Launch) -> tuple[Launch, Installation]:
    """Return the launch with the Spark that was found for it; see :func:`find_spark`."""
    installation = find_spark(launch)
    return programs.pinned(launch, installation), installation


#: The Spark that the configuration and the environment name.
DEFAULT_SPARK = Program()


def own_application(program: Program, config: Config) -> tuple[Launch, Installation]:
    """Return the launch of an application of flinkish itself, and its Spark.

    ``program``: only its Spark settings are used; relative paths are not converted. ``config``: its
    options and its keys ``spark.*`` are passed to the application; settings of the program win.

    Raises LaunchFailed as :func:`find_spark` does.
    """
    where = working_directory(instead="/")
    conf = {**config.extra("spark."), **program.conf}
    complete = {**vars(program), "conf": conf, "working_directory": where}
    return pinned(Launch(**complete, options=config.to_options()))


def with_spark(launch: Launch, program: Program) -> Launch:
    """Return a recorded launch with another Spark, master or Python, where a program names one.

    If the program names a Python but no Spark, ``$SPARK_HOME`` or else that Python's own pyspark is
    used, because the recorded Spark belongs to the old Python. Settings of the program are added.
    """
    launch = replace(launch, conf={**launch.conf, **program.conf})
    if program.master is not None:
        launch = replace(launch, master=program.master)
    python = program.client_python or program.python
    if python is not None:
        launch = replace(
            launch, python=program.python or python, client_python=python, spark_home=None
        )
    if program.spark_home is not None:
        launch = replace(launch, spark_home=program.spark_home)
        if python is None:
            launch = replace(launch, client_python=None)
    return launch


def note_old_hasher(context: Context) -> None:
    """Report that the program's ids are those of the older hasher, if they are."""
    if context.config.get(_HASHER) == "v2":
        context.reporter.note(
            f"{_HASHER} is v2: ids of operators without a uid depend on chaining and parallelism. "
            "A savepoint has the ids of both hashers: change to v3, the default, at any restore"
        )


def checkpoint_directory(config: Config) -> str:
    """Return the directory below which jobs get their checkpoints, as a path or a URL."""
    directory = config.get("execution.checkpointing.dir") or ""
    if directory.startswith("/"):
        return directory
    from flinkish.storage import locate

    return locate(directory)


def asked_partitions(launch: Launch) -> int | None:
    """Return the requested number of state partitions, from any setting; None without one."""
    text = launch.conf.get(_PARTITIONS, "")
    return int(text) if text.isascii() and text.isdigit() else None


def program_file(application: str, cwd: str) -> str:
    """Return the absolute path of a program.

    Raises UsageError if there is no such file or it is a jar; StorageError if access is denied.
    """
    if not application.strip():
        raise UsageError("the name of the program file is empty", hint="name a Python file")
    path = os.path.join(cwd, os.path.expanduser(application))
    if application.endswith(".jar"):
        raise UsageError(
            f"the program {application} is a jar, and jobs are PySpark programs",
            hint="save the checkpoint of an application in a jar with: "
            "flinkish savepoint --from-checkpoint URL",
        )
    if storage.is_directory(path) or not storage.exists(path) or not os.path.isfile(path):
        what = "is a directory" if os.path.isdir(path) else "does not exist"
        raise UsageError(
            f"the program file {what}: {application}",
            hint=f"name a Python file; paths are relative to {cwd}",
        )
    return os.path.normpath(path)


def _items(values: Sequence[str]) -> list[str]:
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def _absolute(item: str, cwd: str) -> str:
    """Return a local file (``x.zip``, ``x.zip#name``) with its absolute path, other items as is."""
    name, hash_, alias = item.partition("#")
    path = os.path.join(cwd, os.path.expanduser(name))
    return os.path.normpath(path) + hash_ + alias if os.path.exists(path) else item
