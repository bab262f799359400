"""The table of commands: the module of each one, and its line in the help.

The table is static: ``flinkish --help`` and the completion of names import no command.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click


@dataclass(frozen=True)
class CommandEntry:
    """One command: ``attribute`` of ``module``; ``help`` is its line in the overview."""

    module: str
    attribute: str
    help: str


COMMANDS: dict[str, CommandEntry] = {
    "run": CommandEntry("flinkish.cli.commands.run", "run", "Start a job."),
    "list": CommandEntry("flinkish.cli.commands.list", "list_command", "List jobs."),
    "info": CommandEntry(
        "flinkish.cli.commands.info", "info", "Show a program's operators and their uids."
    ),
    "status": CommandEntry("flinkish.cli.commands.status", "status", "Show one job in full."),
    "savepoint": CommandEntry(
        "flinkish.cli.commands.savepoint",
        "savepoint",
        "Take a savepoint of a job, or dispose of one.",
    ),
    "stop": CommandEntry("flinkish.cli.commands.stop", "stop", "Stop a job with a savepoint."),
    "cancel": CommandEntry("flinkish.cli.commands.cancel", "cancel", "Cancel a job."),
    "wait": CommandEntry(
        "flinkish.cli.commands.wait", "wait", "Wait until a job runs, is idle or has ended."
    ),
    "check": CommandEntry(
        "flinkish.cli.commands.check",
        "check",
        "Show what restoring a savepoint or job would do.",
    ),
    "rehearse": CommandEntry(
        "flinkish.cli.commands.rehearse",
        "rehearse",
        "Run a program for a few batches on a copy of the state.",
    ),
    "export": CommandEntry(
        "flinkish.cli.commands.export",
        "export",
        "Make plain Spark checkpoints from a savepoint.",
    ),
    "bundle": CommandEntry(
        "flinkish.cli.commands.bundle",
        "bundle",
        "Bundle a program with the agent, for other launchers.",
    ),
    "ack": CommandEntry("flinkish.cli.commands.ack", "ack", "Acknowledge failed jobs."),
    "restart": CommandEntry(
        "flinkish.cli.commands.restart", "restart", "Restart a job that has ended."
    ),
    "recover": CommandEntry(
        "flinkish.cli.commands.recover", "recover", "Restart lost jobs, after a reboot."
    ),
    "purge": CommandEntry(
        "flinkish.cli.commands.purge", "purge", "Remove jobs that ended long ago."
    ),
    "upgrade": CommandEntry(
        "flinkish.cli.commands.upgrade",
        "upgrade",
        "Upgrade a job's program or Spark, or undo an upgrade.",
    ),
    "migrate": CommandEntry(
        "flinkish.cli.commands.migrate",
        "migrate",
        "Rewrite a savepoint's state into a new savepoint.",
    ),
    "state": CommandEntry(
        "flinkish.cli.commands.state", "state", "Show and export the state in a savepoint."
    ),
    "compat": CommandEntry(
        "flinkish.cli.commands.compat", "compat", "Show which versions can resume which savepoints."
    ),
    "checkpoint": CommandEntry(
        "flinkish.cli.commands.checkpoint",
        "checkpoint",
        "Wait for the next committed batch of each query.",
    ),
    "request": CommandEntry(
        "flinkish.cli.commands.request", "request", "Follow a detached savepoint or stop."
    ),
    "logs": CommandEntry("flinkish.cli.commands.logs", "logs", "Show the driver's log of a job."),
    "metrics": CommandEntry(
        "flinkish.cli.commands.metrics", "metrics", "Print metrics for Prometheus."
    ),
    "config": CommandEntry(
        "flinkish.cli.commands.config", "config", "Show the effective configuration."
    ),
    "schema": CommandEntry(
        "flinkish.cli.commands.schema", "schema", "Print the JSON Schema of a command's output."
    ),
    "completion": CommandEntry(
        "flinkish.cli.commands.completion", "completion", "Print a shell completion script."
    ),
}

#: By command: the first arguments that turn it into another command (``savepoint list``).
SUB_WORDS: dict[str, dict[str, CommandEntry]] = {
    "savepoint": {
        word: CommandEntry(f"flinkish.cli.commands.savepoint_{word}", attribute, text)
        for word, attribute, text in (
            ("list", "list_savepoints", "List the savepoints in a directory."),
            ("show", "show", "Show what is inside a savepoint."),
            ("diff", "diff", "Compare two savepoints."),
            ("report", "report", "Write a page about the savepoints in a directory."),
            ("copy", "copy", "Copy a savepoint to another directory or storage."),
            ("verify", "verify_savepoints", "Verify that savepoints are intact."),
            ("prune", "prune", "Remove savepoints according to a retention policy."),
            ("import", "import_savepoints", "Add savepoints to the registry."),
            ("unlock", "unlock", "Remove stale locks of a directory."),
        )
    }
}


def load(name: str) -> click.Command | None:
    """Import and return the command ``name`` (also ``savepoint show``); None if it is unknown."""
    first, _, word = name.partition(" ")
    entry = SUB_WORDS.get(first, {}).get(word) if word else COMMANDS.get(first)
    if entry is None:
        return None
    command: click.Command = getattr(import_module(entry.module), entry.attribute)
    return command


def every_command() -> Iterator[tuple[str, click.Command]]:
    """Import all commands, including those of groups; yield each with the words that call it."""
    import click

    for name in COMMANDS:
        command = load(name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {word}", sub) for word, sub in command.commands.items())
        else:
            yield name, command
        for word in SUB_WORDS.get(name, {}):
            sub = load(f"{name} {word}")
            assert sub is not None
            yield f"{name} {word}", sub
