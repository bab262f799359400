"""``flinkish upgrade fleet FILE.toml``: many jobs, each with its way back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.options.arguments import complete_file, dry_run_option
from flinkish.cli.output.printer import Output
from flinkish.cli.output.upgrades_text import document
from flinkish.units import table
from flinkish.upgrade.fleet import FleetResult, exit_code, upgrade_fleet


@command("fleet", exit_codes=(3,))
@click.argument("file", metavar="FILE.toml", type=click.Path(), shell_complete=complete_file)
@click.option(
    "--jobs",
    "at_once",
    type=click.IntRange(min=1),
    metavar="K",
    default=1,
    show_default=True,
    help="Number of upgrades that run at the same time.",
)
@click.option("--keep-going", is_flag=True, help="Continue with the others after a failed upgrade.")
@dry_run_option
def fleet(call: Call, file: str, at_once: int, keep_going: bool, dry_run: bool) -> int:
    """Upgrade the jobs named in a file, each as upgrade in-place does.

    After the first failed upgrade no other is started. Jobs that already run what the file asks
    for are up to date, and interrupted upgrades are finished, so you can run the command again
    to continue. Exit code 0: every job is up to date; 3: some are not; 1: none is.
    """
    out = call.out
    with call.session() as session:
        results = upgrade_fleet(
            session,
            file,
            at_once=at_once,
            keep_going=keep_going,
            dry_run=dry_run,
            on_result=partial(_tell, out),
        )
    _show(out, results)
    return exit_code(results)


def _tell(out: Output, result: FleetResult) -> None:
    if result.error is None:
        out.note(f"{result.name}: {result.outcome.value}")
    else:
        out.complain(f"{result.name}: {result.outcome.value}: {result.error.message}")


def _show(out: Output, results: Sequence[FleetResult]) -> None:
    if out.json:
        out.document({"jobs": [_document(result) for result in results]})
    elif not out.quiet:
        rows = [(r.name, r.outcome.value, r.job_id or "-") for r in results]
        for line in table(("NAME", "OUTCOME", "JOB ID"), rows):
            out.line(line)


def _document(result: FleetResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "outcome": result.outcome.value,
        "job_id": result.job_id,
        "upgrade": None if result.upgrade is None else document(result.upgrade),
        "error": None if result.error is None else result.error.to_record(),
    }
