"""The options about a program and its Spark: of ``run``, ``info``, ``check`` and others."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import click

from flinkish.cli.options.arguments import F, complete_file, packed, take, words_of
from flinkish.errors import UsageError
from flinkish.launch.deploy_mode import DEPLOY_MODE, TARGETS, of_target
from flinkish.messages.launch import LEAST_PARALLELISM, Program


def _program_of(options: dict[str, Any]) -> Program:
    """Return the program that the options describe, with all words as its arguments.

    :func:`named_by` later takes the program's file from the words.
    """
    mode, conf = options.pop("deploy_mode"), options["conf"]
    target = options.pop("target")
    if target is not None:
        master = options["master"] or conf.get("spark.master")
        options["master"], mode = of_target(target, master, mode or conf.get(DEPLOY_MODE))
    options["application"] = options.pop("program") or None
    options["module"] = options["module"] or None
    options["arguments"] = options.pop("words")
    options["conf"] = {**conf, **({} if mode is None else {DEPLOY_MODE: mode})}
    return take(Program, options)


def named_by(words: tuple[str, ...], program: Program) -> Program:
    """Return a program with its words; the first word is its file, unless an option names it."""
    if not (program.application or program.module):
        return replace(program, application=(*words, None)[0], arguments=words[1:])
    return replace(program, arguments=words)


def pairs(
    _ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Return ``key=value`` options as a mapping; the last value of a repeated key counts.

    Raises UsageError for a value of another form.
    """
    values_by_key = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not (key.strip() and equals):
            raise UsageError(f"--conf {value!r} is not KEY=VALUE", hint="use --conf key=value")
        values_by_key[key.strip()] = text
    return values_by_key


def _arguments_in(
    ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[str, ...]:
    if value is None or ctx.resilient_parsing:
        return ()
    from flinkish.launch.secret_settings import read_arguments

    return read_arguments(value)


#: The program and its arguments, or with ``-py`` or ``-pym`` only the arguments. The command must
#: have ``allow_interspersed_args`` False.
program_words = click.argument(
    "words",
    metavar="APP.py [ARGS]...",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_file,
)

#: This option is not in the list below, because ``run`` has its ``--name`` between this option and
#: those of the list.
parallelism_option = click.option(
    "-p",
    "--parallelism",
    type=click.IntRange(min=LEAST_PARALLELISM),
    metavar="N",
    help="State partitions (spark.sql.shuffle.partitions).",
)

#: Commands that run Spark without a program have this option too (:func:`spark_options`).
master_option = click.option(
    "-m", "--master", "--jobmanager", "master", metavar="URL", help="Spark master."
)
python_option = click.option(
    "-pyexec", "--pyExecutable", "python", metavar="PYTHON", help="Python of the executors."
)
client_python_option = click.option(
    "-pyclientexec",
    "--pyClientExecutable",
    "client_python",
    metavar="PYTHON",
    help="Python of the driver.",
)


def _spark_home(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Return the directory; UsageError if it has no Spark.

    A directory that a job has recorded is checked only at the launch, which raises LaunchFailed.
    """
    if ctx.resilient_parsing or not value:  # the words are being completed
        return value
    if not os.path.isfile(os.path.join(os.path.expanduser(value), "bin/spark-submit")):
        raise UsageError(
            f"--spark-home: {value} is not a Spark installation: it has no bin/spark-submit",
            hint="name a Spark directory, or omit the option to use SPARK_HOME or pyspark",
        )
    return value


spark_home_option = click.option(
    "--spark-home",
    metavar="DIR",
    type=click.Path(),
    callback=_spark_home,
    help="Spark installation to use. Default: SPARK_HOME, else the installed pyspark.",
)
conf_option = click.option(
    "--conf",
    metavar="KEY=VALUE",
    multiple=True,
    callback=pairs,
    help="A Spark setting (repeatable).",
)

secret_args_option = click.option(
    "--secret-args",
    "secret_arguments",
    metavar="FILE",
    callback=_arguments_in,
    shell_complete=complete_file,
    help="File with secret program arguments, one per line, that are never shown (mode 0600).",
)

_OPTIONS = (
    master_option,
    click.option(
        "-t",
        "--target",
        "target",
        metavar="TARGET",
        shell_complete=words_of(*TARGETS),
        help="Flink's deployment target: "
        + ", ".join(name for name, each in TARGETS.items() if each.is_supported)
        + "; selects -m and --deploy-mode.",
    ),
    click.option(
        "--deploy-mode",
        type=click.Choice(["client", "cluster"]),
        help="Where the driver runs: on this host, or on a node of the cluster.",
    ),
    click.option(
        "-py",
        "--python",
        "program",
        metavar="FILE",
        type=click.Path(),
        help="The program; all words after the options are then its arguments.",
    ),
    click.option(
        "-pym", "--pyModule", "module", metavar="MODULE", help="The program, as a module."
    ),
    click.option(
        "-pyfs",
        "--pyFiles",
        "py_files",
        metavar="FILES",
        multiple=True,
        help="Comma-separated files for the program's imports.",
    ),
    click.option(
        "-pyarch",
        "--pyArchives",
        "archives",
        metavar="FILES",
        multiple=True,
        help="Comma-separated archives, unpacked on the executors.",
    ),
    python_option,
    client_python_option,
    click.option(
        "-C",
        "--classpath",
        "-j",
        "--jarfile",
        "jars",
        metavar="URL",
        multiple=True,
        help="A jar for driver and executors (repeatable).",
    ),
    click.option(
        "--packages", metavar="COORDINATES", multiple=True, help="Comma-separated Maven packages."
    ),
    spark_home_option,
    conf_option,
    secret_args_option,
)


def program_options(function: F) -> F:
    """Add the options for the program and its Spark, in the help's order.

    The command gets them as ``program``, whose ``arguments`` are all words of the command line.
    """
    function = packed(function, "program", _program_of)
    for option in reversed(_OPTIONS):  # decorators apply from the last to the first
        function = option(function)
    return function


def spark_options(function: F) -> F:
    """Add the options that select the Spark of flinkish's own applications, or a job's new Spark.

    The command gets them under the names of a ``Program``'s fields.
    """
    options = (master_option, spark_home_option, python_option, client_python_option, conf_option)
    for option in reversed(options):  # decorators apply from the last to the first
        function = option(function)
    return function
