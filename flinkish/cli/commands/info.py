"""``flinkish info``: a program's operators, without running its queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import click

from flinkish.cli.base import Call, OptionalValue, command
from flinkish.cli.documents.programs import InfoDocument, PlannedOperator, PlannedQueryRecord
from flinkish.cli.options.program import (
    named_by,
    parallelism_option,
    program_options,
    program_words,
)
from flinkish.cli.output.graph_svg import graph_svg
from flinkish.cli.output.printer import Output
from flinkish.cli.output.progress import driver_output
from flinkish.cli.output.text import columns_text
from flinkish.client.dryrun import describe, dot_graph
from flinkish.errors import UsageError
from flinkish.messages.launch import Program
from flinkish.savepoint.format.operator_lookup import address


@command(
    "info",
    exit_codes=(4,),
    documents=(InfoDocument,),
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@program_words
@click.option(
    "--dot", "as_dot", is_flag=True, help="Print one graph for Graphviz, with a cluster per query."
)
@click.option("--svg", "as_svg", is_flag=True, help="Print the graph as an image in SVG.")
@click.option(
    "--require-uids",
    cls=OptionalValue,
    is_flag=False,
    flag_value="stateful",
    type=click.Choice(["all", "stateful"]),
    metavar="[all|stateful]",
    help="Exit 4 if a stateful operator has no uid (for CI); with 'all', if any operator has none, "
    "as with pipeline.auto-generate-uids=false.",
)
@parallelism_option
@program_options
def info(
    call: Call,
    as_dot: bool,
    as_svg: bool,
    require_uids: Literal["all", "stateful"] | None,
    parallelism: int | None,
    program: Program,
) -> int:
    """Show a program's operators: uids, operator ids, state.

    The program runs to its end, but its streaming queries are only planned: none is started, no
    stream is read and no job is registered. Everything after APP.py is passed to the program.
    """
    if as_dot + as_svg + call.out.json > 1:
        raise UsageError(
            "--dot, --svg and --json are mutually exclusive", hint="use only one of them"
        )
    flags = {"parallelism.default": None if parallelism is None else str(parallelism)}
    with call.session(flags) as session, driver_output(call.out):
        described = describe(
            session, named_by(program.arguments, program), require_uids=require_uids
        )
    queries = list(described.queries)
    _show(call.out, queries, as_dot=as_dot, as_svg=as_svg)
    return 0


def _show(out: Output, queries: list[dict[str, Any]], *, as_dot: bool, as_svg: bool) -> None:
    if not queries:
        out.warning("the program started no streaming query")
    for query in queries:
        for note in query["notes"]:
            out.warning(f"query '{query['name']}': {note}")
        if query["coverage"]["with_uid"] < query["coverage"]["stateful"]:
            out.warning(f"query '{query['name']}': {query['coverage_message']}")
    if out.json:
        document: InfoDocument = {"queries": [_document(query) for query in queries]}
        out.document(document)
    elif as_dot:
        for line in dot_graph(queries).split("\n"):
            out.line(line)
    elif as_svg:
        out.text(graph_svg(queries))
    else:
        for number, query in enumerate(queries):
            if number:
                out.line()
            for line in _text(query, quiet=out.quiet):
                out.line(line)
        shared = _shared_ids(queries)
        if shared and not out.quiet:
            out.line()
            out.line("Operators of several queries share an operator id; address them by query:")
            for line in shared:
                out.line(f"  {line}")


def _document(query: Mapping[str, Any]) -> PlannedQueryRecord:
    """Return a query as JSON data; operators with state also get an address, unique in the job."""
    return {
        "name": query["name"],
        "operators": [
            cast(PlannedOperator, {**operator, "address": _address(query, operator)})
            for operator in query["operators"]
        ],
        "coverage": query["coverage"],
        "notes": query["notes"],
    }


def _address(query: Mapping[str, Any], operator: Mapping[str, Any]) -> str | None:
    """Return the address that other commands take; None for an operator without state."""
    if not operator["stateful"]:
        return None
    return address(query["name"], operator["uid"], operator["ordinal"])


def _shared_ids(queries: list[dict[str, Any]]) -> list[str]:
    """Return ``ID: ADDRESS, ADDRESS`` for each id that several stateful operators share."""
    owners: dict[str, list[str]] = {}
    for query in queries:
        for operator in query["operators"]:
            name = _address(query, operator)
            if name is not None:
                owners.setdefault(operator["operator_id"], []).append(name)
    return [f"{id_}: {', '.join(names)}" for id_, names in owners.items() if len(set(names)) > 1]


def _text(query: Mapping[str, Any], *, quiet: bool) -> Iterator[str]:
    """Yield a query as lines: its tree and, unless ``quiet``, the state of stateful operators."""
    yield f"Query {query['name']}"
    yield from (f"  {line}" for line in query["tree"])
    if quiet:
        return
    stateful = sorted(
        (op for op in query["operators"] if op["stateful"]), key=lambda op: op["ordinal"]
    )
    for operator in stateful:
        yield (
            f'  state {operator["ordinal"]}: "{operator["name"]}" ({operator["kind"]}, '
            f"partitions: {operator['partitions']})"
        )
        for store in operator["stores"]:
            key, value = columns_text(store["key_schema"]), columns_text(store["value_schema"])
            yield f"    {store['name']}: ({key}) -> ({value})"
        for state in operator.get("typed_states", ()):
            serializer = state["serializer"].rpartition(":")[2]
            yield f"    typed state {state['name']}: {state['type']}, by {serializer}"
