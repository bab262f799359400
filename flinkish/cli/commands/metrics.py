"""``flinkish metrics``: the registry in numbers, for Prometheus."""

from __future__ import annotations

import sys
import threading

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.jobs import MetricsDocument
from flinkish.cli.options.arguments import complete_file
from flinkish.cli.output.printer import copy_log
from flinkish.client.metrics import Metric, measure
from flinkish.client.metrics_export import prometheus_text, served, write_text
from flinkish.errors import UsageError


def _address(
    _ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[str, int] | None:
    """Return the host and the port of ``[HOST:]PORT``; raise UsageError for any other text."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 1 << 16):
        raise UsageError(
            f"--listen: {value!r} is not [HOST:]PORT", hint="give a port, such as 9249"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


@command("metrics", exit_codes=(), documents=(MetricsDocument,))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=complete_file,
    help="Write to this file atomically, instead of stdout.",
)
@click.option(
    "--listen",
    "address",
    metavar="[HOST:]PORT",
    callback=_address,
    help="Serve the metrics over HTTP until Ctrl-C, instead of printing them. HOST defaults to "
    "127.0.0.1.",
)
def metrics(call: Call, output: str | None, address: tuple[str, int] | None) -> int:
    """Print metrics of jobs, queries and savepoints in Prometheus' text format.

    Run this command from cron, with -o, for node_exporter's textfile collector. The values come
    from the registry, so they are as old as the drivers' last heartbeats. On a terminal,
    unprintable characters are escaped.
    """
    if address is not None:
        if output is not None or call.out.json:
            raise UsageError(
                "--listen cannot be combined with -o or --json", hint="use only one of them"
            )
        return _serve(call, *address)
    if output == "-":  # stdout, as for savepoint report
        output = None
    with call.session() as session:
        numbers = measure(session)
        session.warn_of_absent_registry()
        if output is not None:
            write_text(output, prometheus_text(numbers))
        if call.out.json:
            session.document(document(numbers))
    if output is None and not call.out.json:
        copy_log(prometheus_text(numbers), sys.stdout)
    return 0


def _serve(call: Call, host: str, port: int) -> int:
    def read() -> list[Metric]:
        with call.session() as session:  # each answering thread opens its own session
            session.warn_of_absent_registry()
            return measure(session)

    with served(read, host, port) as bound:
        name = f"[{host}]" if ":" in host else host  # an IPv6 address
        call.out.complain(f"Serving metrics at http://{name}:{bound}/metrics")
        threading.Event().wait()
    return 0


def document(metrics: list[Metric]) -> MetricsDocument:
    """Return metrics as JSON data. Pure."""
    return {
        "metrics": [
            {
                "name": metric.name,
                "type": metric.kind,
                "help": metric.help,
                "samples": [
                    {"labels": dict(sample.labels), "value": sample.value}
                    for sample in metric.samples
                ],
            }
            for metric in metrics
        ]
    }
