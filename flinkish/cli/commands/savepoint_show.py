"""``flinkish savepoint show PATH``: the contents of a savepoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.savepoints import SavepointContents, ShowDocument
from flinkish.errors import UsageError
from flinkish.units import counted, size_text, table

if TYPE_CHECKING:
    from flinkish.savepoint.format.reader import OpenSavepoint


@command("savepoint show", exit_codes=(4, 11, 15), documents=(ShowDocument,))
@click.argument("path", metavar="PATH", type=click.Path())
@click.option(
    "--lag",
    is_flag=True,
    help="Ask a Kafka broker how many rows follow the saved offsets (needs --bootstrap-server).",
)
@click.option(
    "--bootstrap-server",
    "servers",
    metavar="HOST:PORT",
    help="The broker to ask, which savepoints do not record; several are separated by commas.",
)
def show(call: Call, path: str, lag: bool, servers: str | None) -> int:
    """Show the contents of a savepoint: its queries, offsets, operators and schemas.

    Its bytes are either its own, which disposing of it frees, or shared with other savepoints
    or with a checkpoint. For a job that is itself named "show", give flinkish savepoint the
    job's id.
    """
    from flinkish.savepoint.format.reader import open_savepoint

    if lag != bool(servers):
        raise UsageError(
            "--lag and --bootstrap-server must be used together: a savepoint does not record the "
            "brokers of its sources",
            hint="use both: --lag --bootstrap-server HOST:PORT",
        )
    savepoint = open_savepoint(path)
    out = call.out
    if out.quiet and not out.json:
        out.line(savepoint.path)
        return 0
    contents = describe_in_full(savepoint)
    _add_kafka(contents["queries"], servers)
    if out.json:
        document: ShowDocument = {"savepoint": cast(SavepointContents, contents)}
        out.document(document)
    else:
        for line in render(contents):
            out.line(line)
    return 0


def _add_kafka(queries: Sequence[dict[str, Any]], servers: str | None) -> None:
    """Add the Kafka offsets to the descriptions of queries, with their lag if there is a broker."""
    from flinkish.client.kafka_offsets import ask_lag, kafka_offsets
    from flinkish.messages.codec import encode_fields

    asked = ask_lag(queries, servers) if servers is not None else map(kafka_offsets, queries)
    for query, offsets in zip(queries, asked, strict=True):
        query["kafka"] = [encode_fields(each) for each in offsets]


def describe_in_full(savepoint: OpenSavepoint) -> dict[str, Any]:
    """Return the savepoint as JSON data, with its own bytes and those that it shares."""
    from flinkish.savepoint.directory.sharing import measure
    from flinkish.savepoint.format.operator_lookup import address, shared_ids
    from flinkish.savepoint.format.reader import describe

    space = measure(savepoint)
    described = describe(savepoint)["savepoint"]
    for query in described["queries"]:
        for operator in query["operators"]:
            operator["address"] = address(query["name"], operator["uid"], operator["ordinal"])
    return {
        **described,
        "shared_ids": sorted(shared_ids(savepoint)),
        "own_bytes": space.own_bytes,
        "shared_bytes": space.shared_bytes,
        "users": list(space.users),
    }


#: The note on a savepoint that was taken while the program might still start other queries.
INCOMPLETE = "the program may not have started all its queries; later ones are missing"
_SHARED = (
    "Operators of several queries share an operator id: address them as QUERY/UID or QUERY/ORDINAL."
)


def render(savepoint: Mapping[str, Any]) -> list[str]:
    """Return a savepoint's description as lines for people. Pure."""
    lines = [
        f"{savepoint['path']}",
        f"  job          {savepoint['job_name']}  {savepoint['job_id']}",
        f"  taken        {savepoint['created']} by {savepoint['trigger']}",
        f"  format       {savepoint['format']}, version {savepoint['format_version']}",
        f"  written      by flinkish {savepoint['flinkish_version']}, Spark "
        f"{savepoint['spark_version'] or '-'}, Python {savepoint['python_version'] or '-'}",
        f"  program      {savepoint['program'] or '-'}",
        f"  restored     {_restored(savepoint)}",
        f"  data         {savepoint['files']} files, {size_text(savepoint['bytes'])}: "
        f"{size_text(savepoint['own_bytes'])} own, {size_text(savepoint['shared_bytes'])} shared",
        f"  relocatable  {_relocatable(savepoint)}",
    ]
    if savepoint["users"]:
        lines.append(f"  used by      {', '.join(savepoint['users'])}")
    lines += [
        f"  left out     query '{each['query']}': {each['reason']}"
        for each in savepoint["left_out"]
    ]
    if not savepoint["complete"]:
        lines.append(f"  incomplete   {INCOMPLETE}")
    for query in savepoint["queries"]:
        lines += ["", *_query(query)]
    if savepoint["shared_ids"]:
        lines += ["", _SHARED]
    return lines


def _restored(savepoint: Mapping[str, Any]) -> str:
    return f"from {savepoint['restored_from']}" if savepoint["restored_from"] else "no"


def _relocatable(savepoint: Mapping[str, Any]) -> str:
    if savepoint["relocatable"]:
        return "yes"
    return f"no (shares files with {', '.join(savepoint['holders'])})"


def _query(query: Mapping[str, Any]) -> Iterator[str]:
    yield f"query {query['name']}  {query['query_id']}"
    yield f"  batch      {query['batch_id']}"
    watermark = "at its maximum: drained" if query["drained"] else query["watermark"] or "-"
    yield f"  watermark  {watermark}"
    yield f"  state      {query['backend'] or '-'}, checkpoint format {query['checkpoint_format']}"
    yield f"  data       {query['files']} files, {size_text(query['bytes'])}"
    yield from _kafka(query["kafka"])
    rows = [
        (
            str(operator["ordinal"]),
            operator["kind"] or "-",
            operator["uid"] or "-",
            operator["operator_id"] or "-",
            str(operator["partitions"]),
            "-" if operator["rows"] is None else str(operator["rows"]),
            size_text(operator["bytes"]),
            ", ".join(store["name"] for store in operator["stores"]),
        )
        for operator in query["operators"]
    ]
    if rows:
        yield from [""] if query["kafka"] else []
        head = ("ORDINAL", "OPERATOR", "UID", "OPERATOR ID", "PARTITIONS", "ROWS", "SIZE", "STORES")
        yield from ("  " + line for line in table(head, rows, right="0456"))


def _kafka(offsets: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the table of Kafka offsets, with the broker's offsets if a broker was asked."""
    if not offsets:
        return
    asked = any(each["end"] is not None or each["note"] for each in offsets)
    keys = ("topic", "partition", "offset", *(("begin", "end", "lag", "note") if asked else ()))
    keys += ("source",) if len({each["entry"] for each in offsets}) > 1 else ()
    rows = [tuple("-" if each[key] is None else str(each[key]) for key in keys) for each in offsets]
    head = tuple(key.upper() for key in keys)
    yield from ("  " + line for line in table(head, rows, right="12345" if asked else "12"))
    if asked:
        lags = [each["lag"] for each in offsets if each["lag"] is not None]
        unknown = len(offsets) - len(lags)
        rest = f", without {counted(unknown, 'partition')} whose lag is unknown" if unknown else ""
        yield f"  lag        {sum(lags):,} rows at most{rest}"
