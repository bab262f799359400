"""The command as a click application: lazily loaded commands, errors, signals, completion."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from flinkish import __version__
from flinkish.cli import command_index
from flinkish.cli.base import HELP_NAMES, HELP_WIDTH, did_you_mean, scan
from flinkish.cli.output.printer import Output, report
from flinkish.cli.output.streams import READER_GONE, Stream, StreamLost
from flinkish.cli.output.text import SCHEMA_VERSION
from flinkish.errors import ResultNotWritten, UsageError

if TYPE_CHECKING:
    from flinkish.client.context import Interrupted

COMPLETE = "_FLINKISH_COMPLETE"
_COMMON_FLAGS = frozenset({"--json", "-q", "--quiet", "--debug"})


class Root(click.Group):
    """``flinkish`` itself; a command's module is imported only when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of :data:`command_index.COMMANDS`."""
        return list(command_index.COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        return command_index.load(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does.

        In addition, the first argument of ``savepoint`` may name another command.
        """
        if (
            args[0] not in command_index.COMMANDS
            and args[0][:1] != "-"
            and not ctx.resilient_parsing
        ):
            near = did_you_mean(args[0], command_index.COMMANDS)
            raise click.UsageError(f"No such command {args[0]!r}.{near}", ctx=ctx)
        name, command, rest = super().resolve_command(ctx, args)
        words = command_index.SUB_WORDS.get(name or "", {})
        if command is None or not words:
            return name, command, rest
        first = next((word for kind, word in scan(command, rest) if kind == "argument"), None)
        if first not in words:
            return name, command, rest
        rest.remove(first)
        return f"{name} {first}", command_index.load(f"{name} {first}"), rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the tables of commands, one for each task."""
        from flinkish.cli.help_sections import COMMANDS

        widest = max(map(len, command_index.COMMANDS))
        for title, names in COMMANDS.items():
            with formatter.section(title):
                # The first column has the same width in all tables.
                formatter.write_dl(
                    [(f"{name:<{widest}}", command_index.COMMANDS[name].help) for name in names]
                )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names of commands and the root's own options."""
        items = [
            CompletionItem(name, help=entry.help)
            for name, entry in command_index.COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)


def _version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"flinkish {__version__}")
        ctx.exit()


root = Root(
    "flinkish",
    help=(
        "Apache Flink's job lifecycle for PySpark Structured Streaming: run jobs, take savepoints, "
        "stop and resume from them."
    ),
    epilog="Each command has its own help: flinkish COMMAND --help",
    context_settings={"help_option_names": HELP_NAMES, "max_content_width": HELP_WIDTH},
    no_args_is_help=False,
    params=[
        click.Option(
            ["-v", "--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Show the version.",
        )
    ],
)


def run(argv: Sequence[str], outputs: list[Output] | None = None) -> int:
    """Run one command line and return its exit status; append its outputs to ``outputs``."""
    if COMPLETE in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(root, {}, "flinkish", COMPLETE, os.environ[COMPLETE])
    try:
        _check_text(argv)
    except UsageError as error:
        return report(error, Output(json="--json" in argv))
    behind = _flinks_action(common_options_behind(argv))
    outputs = [] if outputs is None else outputs
    # This output is for errors before the called command has appended its own output. A group
    # without its command takes no options, and ``behind`` is then one word without the options of
    # ``argv``: this output takes them from ``argv``.
    outputs.append(_output_of(argv if len(behind) == 1 else behind))
    try:
        with _sigterm_raises():
            return _invoke(behind, outputs)
    except StreamLost as lost:
        is_gone = isinstance(lost.failure, BrokenPipeError)
        return READER_GONE if is_gone else ResultNotWritten.code
    except click.ClickException as error:
        return report(_usage_error(error), outputs[-1])
    except KeyboardInterrupt as stop:
        from flinkish.client.context import Interrupted

        out = outputs[-1]
        return _interrupted(stop, out) if isinstance(stop, Interrupted) else report(stop, out)
    except Exception as error:  # noqa: BLE001 - the boundary: every error is reported
        return report(error, outputs[-1])


def report_lost_result(
    argv: Sequence[str], failure: OSError, status: int, outputs: Sequence[Output] = ()
) -> int:
    """Report on stderr that the result could not be written to stdout; return the exit status.

    ``failure`` is the cause. A command's own ``status`` other than 0 is kept. ``outputs``: the
    outputs of :func:`run`, if it was called.
    """
    said = sys.stdout.said if isinstance(sys.stdout, Stream) else ""
    lines = said.splitlines()
    error = ResultNotWritten(
        f"the result could not be written to stdout: {failure.strerror or failure}",
        hint=_what_is_lost(lines, status),
        result=said,
    )
    out = outputs[-1] if outputs else _output_of(common_options_behind(argv))
    out.error(error)
    return status or error.code


def _what_is_lost(lines: Sequence[str], status: int) -> str:
    """Return the hint about a lost result, so that nobody repeats the command to get it. Pure."""
    result = f"its result is: {lines[0]}" if len(lines) == 1 else ""
    if status:
        return result
    return f"the command succeeded; {result or 'only its result is lost'}"


def _check_text(argv: Sequence[str]) -> None:
    """Refuse arguments that are not valid text: neither registry nor driver could record them."""
    for word in argv:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"the argument {word!r} is not valid UTF-8",
                hint="arguments, names and paths must be UTF-8, in a UTF-8 locale such as C.UTF-8",
            ) from None


def common_options_behind(argv: Sequence[str]) -> list[str]:
    """Move the options common to all commands from before a command's name to after it.

    ``flinkish -D KEY=VALUE list`` is Flink's order, ``flinkish --json list`` that of other tools.
    A group whose command is missing has no place for them, and gets none.
    """
    rest, moved = list(argv), []
    while rest and rest[0].startswith("-"):
        if rest[0] in _COMMON_FLAGS or (rest[0].startswith("-D") and len(rest[0]) > 2):
            moved.append(rest.pop(0))
        elif rest[0] == "-D" and len(rest) > 1:
            moved += rest[:2]
            del rest[:2]
        else:
            return list(argv)
    if not moved or not rest:
        return list(argv)
    is_group = isinstance(command_index.load(rest[0]), click.Group)
    if is_group and len(rest) == 1:
        return rest
    place = 2 if is_group else 1
    return rest[:place] + moved + rest[place:]


def _flinks_action(argv: Sequence[str]) -> list[str]:
    """Replace Flink's action ``run-application`` with a ``run`` on the cluster. Pure."""
    if argv[:1] != ["run-application"]:
        return list(argv)
    return ["run", "--detached", "--deploy-mode", "cluster", *argv[1:]]


def _invoke(argv: Sequence[str], outputs: list[Output]) -> int:
    try:
        with root.make_context("flinkish", list(argv), obj=outputs) as ctx:
            status: Any = root.invoke(ctx)
            return int(status or 0)
    except click.exceptions.Exit as stop:
        return stop.exit_code


def _usage_error(error: click.ClickException) -> UsageError:
    message = error.format_message().strip().rstrip(".")
    message = message[:1].lower() + message[1:]
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx else "flinkish"
    return UsageError(message, hint=f"see: {path} --help")


def _output_of(argv: Sequence[str]) -> Output:
    """Return the output for errors, which is needed even when the command line cannot be parsed."""
    words = list(argv)
    flags: set[str] = set()
    if words and words[0] in command_index.COMMANDS:
        command = command_index.load(words[0])
        if isinstance(command, click.Group):
            flags = set(words)
        elif command is not None:
            flags = {word for kind, word in scan(command, words[1:]) if kind == "option"}
    else:
        flags = set(words)
    return Output(json="--json" in flags, debug="--debug" in flags)


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Make SIGTERM raise :class:`Interrupted`, so that a wait ends cleanly with status 143."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        from flinkish.client.context import Interrupted

        raise Interrupted(143, "terminated (SIGTERM)")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupted(stop: Interrupted, out: Output) -> int:
    sys.stdout.flush()
    if out.json:
        import json

        record = {
            "id": "interrupted",
            "code": stop.code,
            "message": stop.message or "interrupted",
            "hint": f"follow it with: {stop.follow}" if stop.follow else "",
        }
        text = json.dumps({"schema_version": SCHEMA_VERSION, "error": record})
        sys.stderr.write(text + "\n")
    elif stop.message:
        out.complain(stop.message)
        if stop.follow:
            out.complain(f"follow it with: {stop.follow}")
    return stop.code
