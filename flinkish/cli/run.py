"""``flinkish run``: its options; what they mean is in :mod:`flinkish.cli.submission`."""

from __future__ import annotations

from typing import Any

import click

from flinkish.cli.arguments import complete_file, dry_run_option, words_of
from flinkish.cli.base import Call, command
from flinkish.cli.submission import RunOptions, submit
from flinkish.errors import UsageError


def _claim_mode(_ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Flink's words in any case; legacy is refused with the reason."""
    if value is None:
        return None
    word = value.lower()
    if word == "legacy":
        raise UsageError(
            "claim mode legacy does not exist here: nobody would own the savepoint's files",
            hint="use no_claim (the savepoint stays yours) or claim (the job may delete it)",
        )
    if word not in ("no_claim", "claim"):
        raise UsageError(f"unknown claim mode {value!r}", hint="-cm takes no_claim or claim")
    return word


def pairs(
    _ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """``key=value`` options as a mapping; of a repeated key the last wins."""
    found = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not (key.strip() and equals):
            raise UsageError(f"--conf {value!r} is not KEY=VALUE", hint="write --conf key=value")
        found[key.strip()] = text
    return found


@command(
    "run",
    exit_codes=(4, 5, 11, 14, 15),
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@click.argument(
    "words",
    metavar="APP.py [ARGS]...",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_file,
)
@click.option(
    "-d", "--detached", is_flag=True, help="Return when the job is RUNNING (or has failed)."
)
@click.option(
    "-s",
    "--fromSavepoint",
    "savepoint",
    metavar="PATH",
    type=click.Path(),
    help="Restore from a savepoint, or from a plain Spark checkpoint.",
)
@click.option(
    "-n",
    "--allowNonRestoredState",
    "allow_non_restored",
    is_flag=True,
    help="Drop savepoint state that nothing in the program takes.",
)
@click.option(
    "-cm",
    "--claimMode",
    "-rm",
    "--restoreMode",
    "claim_mode",
    metavar="no_claim|claim",
    shell_complete=words_of("no_claim", "claim"),
    callback=_claim_mode,
    help="Who owns the savepoint after the restore. Default: no_claim.",
)
@click.option("--fork", is_flag=True, help="With -s: new query ids, the original may go on.")
@click.option(
    "-p",
    "--parallelism",
    type=click.IntRange(min=1),
    metavar="N",
    help="State partitions (spark.sql.shuffle.partitions).",
)
@click.option("--name", metavar="NAME", help="Name of the job. Default: the program's.")
@click.option("-m", "--master", "--jobmanager", "master", metavar="URL", help="Spark's master.")
@click.option(
    "-py",
    "--python",
    "program",
    metavar="FILE",
    type=click.Path(),
    help="The program; then all words after the options are its arguments.",
)
@click.option("-pym", "--pyModule", "module", metavar="MODULE", help="The program, as a module.")
@click.option(
    "-pyfs",
    "--pyFiles",
    "py_files",
    metavar="FILES",
    multiple=True,
    help="Files, comma-separated, for the program's imports.",
)
@click.option(
    "-pyarch",
    "--pyArchives",
    "archives",
    metavar="FILES",
    multiple=True,
    help="Archives, comma-separated, unpacked on the executors.",
)
@click.option(
    "-pyexec", "--pyExecutable", "python", metavar="PYTHON", help="Python of the executors."
)
@click.option(
    "-pyclientexec",
    "--pyClientExecutable",
    "client_python",
    metavar="PYTHON",
    help="Python of the driver.",
)
@click.option(
    "-C",
    "--classpath",
    "jars",
    metavar="URL",
    multiple=True,
    help="A jar for driver and executors (repeatable).",
)
@click.option(
    "--packages", metavar="COORDINATES", multiple=True, help="Maven packages, comma-separated."
)
@click.option(
    "--spark-home",
    metavar="DIR",
    type=click.Path(),
    help="The Spark to use. Default: SPARK_HOME, else the installed pyspark.",
)
@click.option(
    "--conf",
    metavar="KEY=VALUE",
    multiple=True,
    callback=pairs,
    help="A Spark setting (repeatable).",
)
@click.option(
    "-sae",
    "--shutdownOnAttachedExit",
    "cancel_on_exit",
    is_flag=True,
    help="Attached: Ctrl-C cancels the job.",
)
@click.option(
    "--no-wait", is_flag=True, help="Return at once; the program may still fail to start."
)
@dry_run_option
def run(call: Call, **options: Any) -> int:
    """Start a job from an unchanged PySpark program.

    Everything after APP.py goes to the program. Attached (the default), the log is shown and the
    exit status is the job's: 0 FINISHED, 1 FAILED or CANCELED.
    """
    return submit(call, RunOptions(**options))
