"""``flinkish metrics``: the registry in numbers, for Prometheus."""

from __future__ import annotations

import sys

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.jobs import MetricsDocument
from flinkish.cli.options.arguments import complete_file
from flinkish.cli.output.printer import copy_log
from flinkish.client.metrics import Metric, measure, prometheus_text, write_text


@command("metrics", exit_codes=(), documents=(MetricsDocument,))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=complete_file,
    help="Write to this file atomically, instead of stdout.",
)
def metrics(call: Call, output: str | None) -> int:
    """Print metrics of jobs, queries and savepoints in Prometheus' text format.

    Meant for node_exporter's textfile collector, run from cron. The values come from the
    registry: they are as old as the drivers' last heartbeats. On a terminal, unprintable
    characters are escaped.
    """
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
