"""``flinkish run``: its options; what they mean is in :mod:`flinkish.cli.submission`."""

from __future__ import annotations

import re
from typing import Any

import click

from flinkish.cli.arguments import dry_run_option, words_of
from flinkish.cli.base import Call, command
from flinkish.cli.program_options import parallelism_option, program_options, program_words
from flinkish.cli.submission import RunOptions, submit
from flinkish.errors import UsageError
from flinkish.operators.uids import uid_to_operator_id

_OPERATOR_ID = re.compile("[0-9A-Fa-f]{32}")


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


def _uid_map(
    _ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """``OLD=NEW`` options as pairs; the first ``=`` separates, so that NEW may contain more.

    Raises UsageError unless every pair has both sides and no state and no uid stands twice.
    """
    pairs = []
    states: dict[str, str] = {}
    uids: dict[str, str] = {}
    for value in values:
        old, _, new = value.partition("=")
        if not (old and new):
            raise UsageError(
                f"--uid-map {value!r} is not OLD=NEW",
                hint="write --uid-map old=new; the first = separates: give the operator id of an "
                "old uid that contains one",
            )
        # A uid and its operator id are two names of one state.
        state = old.lower() if _OPERATOR_ID.fullmatch(old) else uid_to_operator_id(old)
        for taken, key, what in ((states, state, "state"), (uids, new, "new uid")):
            if key in taken:
                raise UsageError(
                    f"--uid-map names one {what} twice: {taken[key]!r} and {value!r}",
                    hint="the state of one operator goes to one operator",
                )
            taken[key] = value
        pairs.append((old, new))
    return tuple(pairs)


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
    "--uid-map",
    metavar="OLD=NEW",
    multiple=True,
    callback=_uid_map,
    help="With -s: the state of OLD (a uid of the savepoint, or an operator id) goes to uid NEW of "
    "the program; the first = separates (repeatable).",
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
