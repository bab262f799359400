"""``flinkish bundle``: a program with the agent in one file, for other launchers."""

from __future__ import annotations

import click

from flinkish.cli.base import Call, Command, command, first_argument, scan
from flinkish.cli.documents.programs import BundleDocument
from flinkish.cli.options.arguments import complete_file, dry_run_option, words_of
from flinkish.client.bundling import bundle_program
from flinkish.launch.carried_job import OF_SCHEMES
from flinkish.messages.launch import Program
from flinkish.units import size_text

_OUTPUT = ("-o", "--output")


class _OutputLast(Command):
    """A command whose output may also be its last words: ``APP.py -o FILE``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move the output to the front, unless it is before the program."""
        at = first_argument(self, args)
        is_first = any(word.partition("=")[0] in _OUTPUT for _, word in scan(self, args))
        if at is not None and not is_first:
            count = 1 if args[-1].startswith(tuple(f"{name}=" for name in _OUTPUT)) else 2
            if count == 1 or args[-2:-1] in ([name] for name in _OUTPUT):
                args = [*args[-count:], *args[:-count]]
        return super().parse_args(ctx, args)


@command(
    "bundle",
    cls=_OutputLast,
    exit_codes=(16,),
    documents=(BundleDocument,),
    context_settings={"allow_interspersed_args": False},
    options_metavar="-o FILE [OPTIONS]",
)
@click.argument(
    "words",
    metavar="[APP.py [ARGS]...]",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_file,
)
@click.option(
    "-o",
    "--output",
    "path",
    metavar="FILE",
    required=True,
    type=click.Path(),
    help="The file: FILE.py for spark-submit FILE.py, FILE.zip for spark-submit --py-files.",
)
@click.option(
    "-pym", "--pyModule", "module", metavar="MODULE", help="The program is a module, not a file."
)
@click.option(
    "--storage",
    "storages",
    metavar="|".join(OF_SCHEMES),
    type=click.Choice(tuple(OF_SCHEMES)),
    multiple=True,
    shell_complete=words_of(*OF_SCHEMES),
    help="Include what this storage needs (repeatable).",
)
@dry_run_option
def bundle(
    call: Call,
    words: tuple[str, ...],
    path: str,
    module: str | None,
    storages: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Bundle a program with flinkish's agent, for launchers that are not flinkish.

    An operator for Kubernetes, Airflow or a script submits FILE.py as the program, with further
    arguments. The job gets its registry and its name from the environment or Spark's settings, see
    docs/jobs-started-by-others.md. Without APP.py, the first argument that the launcher passes
    names the program. FILE contains flinkish and the packages that flinkish needs, for this Python
    and platform, but no secrets.
    """
    application = words[0] if words and module is None else None
    rest = words if application is None else words[1:]
    program = Program(application, tuple(rest), module)
    result = bundle_program(program, path, storages=storages, dry_run=dry_run)
    if call.out.json:
        document: BundleDocument = {"dry_run": dry_run, "bundle": result}
        call.out.document(document)
    elif call.out.quiet:
        call.out.line(result.path)
    else:
        what = "flinkish" if result.program is None else f"{result.program} and flinkish"
        would = "Would write" if dry_run else "Wrote"
        call.out.line(
            f"{would} {what} for {result.platform} to {result.path} ({size_text(result.bytes)})."
        )
    return 0
