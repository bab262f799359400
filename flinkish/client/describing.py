"""Describe a program's operators without running its queries."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from flinkish.client.context import Context
from flinkish.client.program import launch_of, pinned
from flinkish.config import working_directory
from flinkish.errors import MissingUid
from flinkish.launch.driver_call import ask_driver
from flinkish.messages.calls import Described, DescribeTask
from flinkish.messages.launch import Program


def describe(context: Context, program: Program, *, require_uids: bool = False) -> Described:
    """Return a program's queries, with the uids and the state of their operators.

    The program runs to its end, but its queries are only planned.

    ``context``: its reporter receives notices and the driver's log. ``require_uids``: whether every
    stateful operator must have a uid.

    Raises UsageError or LaunchFailed if the program cannot be run; MissingUid if a stateful
    operator has none, and must; and the error with which the submission of the program would end.
    """
    launch, installation = pinned(launch_of(program, context.config, working_directory()))
    context.reporter.note("planning the program's queries ...")
    described = ask_driver(
        DescribeTask(),
        launch,
        installation,
        answer=Described,
        name=launch.default_name,
        environ=os.environ,
        show_log=context.reporter.log,
    )
    missing = [fact for query in described.queries for fact in query["missing"]]
    if require_uids and missing:
        names = ", ".join(_named(fact) for fact in missing)
        raise MissingUid(
            f"{len(missing)} stateful operator{'s have' if len(missing) > 1 else ' has'} no uid: "
            f"{names}",
            operators=missing,
        )
    return described


def _named(fact: Mapping[str, Any]) -> str:
    where = f", {fact['location']}" if fact["location"] else ""
    return f'"{fact["name"]}" ({fact["kind"]}{where})'


def dot_graph(queries: Sequence[Mapping[str, Any]]) -> str:
    """Return the graph of a described program for Graphviz, each query a cluster."""
    from flinkish.operators.render import digraph

    return digraph([str(query["dot"]) for query in queries])
