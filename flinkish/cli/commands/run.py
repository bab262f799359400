"""``flinkish run``: its options; what they mean is in :mod:`flinkish.cli.commands.submission`."""

from __future__ import annotations

from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.submission import RunOptions, submit
from flinkish.cli.options.arguments import dry_run_option, words_of
from flinkish.cli.options.program import parallelism_option, program_options, program_words
from flinkish.cli.options.restore import restore_options
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


@command(
    "run",
    exit_codes=(4, 5, 11, 14, 15),
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@program_words
@click.option(
    "-d", "--detached", is_flag=True, help="Return when the job is RUNNING (or has failed)."
)
@restore_options
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
@click.option(
    "--plan",
    "plan",
    metavar="FILE",
    type=click.Path(),
    help="Carry out the restore plan of check -o; the program may be left out.",
)
@parallelism_option
@click.option("--name", metavar="NAME", help="Name of the job. Default: the program's.")
@program_options
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
