"""``flinkish export``: plain Spark checkpoints, for programs that go on without flinkish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from flinkish.cli.base import Call, Command, command, first_argument
from flinkish.cli.options.arguments import complete_file
from flinkish.cli.options.origin import OriginOptions
from flinkish.cli.options.program import named_by, parallelism_option, program_options
from flinkish.cli.options.restore import restore_options
from flinkish.cli.output import exports_text
from flinkish.cli.output.driver_log import driver_output
from flinkish.client import exporting
from flinkish.client.check_origin import find_origin
from flinkish.errors import UsageError
from flinkish.registry.jobs import JobRecord

_NAMED = {"-s", "--fromSavepoint"}
_REPLACES = "--in-place-of"
_USAGE = "flinkish export SAVEPOINT DIR [APP.py [ARGS]...]"


@dataclass(frozen=True)
class ExportOptions(OriginOptions):
    """The parsed options of ``export``."""

    query: str | None
    replaces: str | None

    @property
    def leading(self) -> tuple[str, ...]:
        """The names of the words before the program."""
        words = (("SAVEPOINT", self.savepoint), ("DIR", self.replaces))
        return tuple(name for name, option in words if option is None)


class PlacesFirst(Command):
    """A command whose words before the program may have options between and behind them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move these words to behind the options: ``SAVEPOINT DIR --fork APP.py``."""
        rest, options, words = list(args), list[str](), list[str]()
        while True:
            at = first_argument(self, rest)
            options += rest if at is None else rest[:at]
            rest = [] if at is None else rest[at:]
            flags = {word.partition("=")[0] for word in options}
            leading = 2 - bool(flags & _NAMED) - (_REPLACES in flags)
            if not rest or len(words) >= leading:
                return super().parse_args(ctx, [*options, *words, *rest])
            words.append(rest.pop(0))


@command(
    "export",
    exit_codes=(4, 5, 10, 11, 13, 15),
    cls=PlacesFirst,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@click.argument(
    "words",
    metavar="SAVEPOINT DIR [APP.py [ARGS]...]",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_file,
)
@restore_options
@click.option(
    "--query",
    metavar="NAME",
    help="Export only this query; the program must be able to restore all of them.",
)
@click.option(
    _REPLACES,
    "replaces",
    metavar="PATH",
    type=click.Path(),
    help="Instead of DIR: replace this checkpoint of a program by the query's; the old one is "
    "kept beside it.",
)
@parallelism_option
@program_options
def export(call: Call, **options: Any) -> int:
    """Make plain Spark checkpoints of a savepoint, which programs continue without flinkish.

    Each query gets a directory in DIR for its checkpointLocation. Without APP.py the state stays
    as it is, and no JVM is started. With it the plan of check is carried out: the program runs to
    its end and none of its queries is started; the checkpoints are for its Spark. SAVEPOINT may
    also be a plain checkpoint, or a job that has ended. DIR appears when all checkpoints are
    made. Exit codes 4 and 5 as for check.
    """
    parsed = ExportOptions(**options)
    with call.session(parsed.settings()) as session, driver_output(call.out):
        words = parsed.program.arguments
        names = parsed.leading
        if len(words) < len(names):
            raise UsageError(f"no {names[len(words)]} was specified", hint=_USAGE)
        places = dict(zip(names, words, strict=False))
        program = named_by(words[len(names) :], parsed.program)
        origin = find_origin(session, places["SAVEPOINT"]) if "SAVEPOINT" in places else None
        result = exporting.export(
            session,
            program if program.application or program.module else None,
            origin if isinstance(origin, str) else parsed.savepoint,
            places.get("DIR"),
            parsed.restore,
            job=origin if isinstance(origin, JobRecord) else None,
            parallelism=parsed.parallelism,
            query=parsed.query,
            replaces=parsed.replaces,
        )
    exports_text.show(call.out, result)
    return 0
