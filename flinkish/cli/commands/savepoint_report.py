"""``flinkish savepoint report DIR``: a page about the savepoints of a directory."""

from __future__ import annotations

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.parts import error_record
from flinkish.cli.documents.reports import OperatorGrowth, ReportDocument, ReportedSavepoint
from flinkish.cli.output.printer import Output
from flinkish.cli.output.text import iso_time
from flinkish.client.catalog import state_of
from flinkish.client.report import Growth, Report, Reported, report_directory
from flinkish.errors import UsageError
from flinkish.units import counted

#: The file name that means stdout.
_STDOUT = "-"


@command("savepoint report", exit_codes=(11,), documents=(ReportDocument,))
@click.argument("directory", metavar="DIR", type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="Write the page to this file, replacing an existing one; - means stdout.",
)
def report(call: Call, directory: str, output: str | None) -> int:
    """Report on the savepoints directly in a directory, as one page of HTML.

    The page shows sizes, rows and schemas of the operators, their growth over the savepoints, the
    parent of each savepoint, and whether the newest versions of Spark can resume the savepoint.
    Damaged savepoints are detected as by savepoint list. The page loads nothing from any network
    and has no script. It shows the 100 newest savepoints. With --json, -o may be omitted.
    """
    out = call.out
    if output is None and not out.json:
        raise UsageError(
            "-o FILE is missing: where to write the page", hint="-o report.html, or -o - for stdout"
        )
    if output == _STDOUT and out.json:
        raise UsageError("-o - and --json are mutually exclusive", hint="both need stdout")
    reported = report_directory(directory)
    if output is not None:
        _write_page(out, reported, output)
    if out.json:
        for text in reported.warnings:
            out.warning(text)
        out.document(document(reported, None if output is None else output))
    return 0


def _write_page(out: Output, reported: Report, output: str) -> None:
    from flinkish.cli.output.report_page import report_page
    from flinkish.storage import write_output

    page = report_page(reported)
    if output == _STDOUT:
        out.text(page)
        return
    write_output(output, page.encode())
    if not out.json:
        number = len(reported.savepoints)
        out.line(output if out.quiet else f"Report on {counted(number, 'savepoint')}: {output}")


def document(report: Report, page: str | None) -> ReportDocument:
    """Return a report as JSON data; ``page`` is the file that the page was written to. Pure."""
    return {
        "directory": report.location,
        "page": page,
        "savepoints": [_savepoint(each) for each in report.savepoints],
        "operators": [_operator(each) for each in report.growth],
        "unreadable": [
            {"path": each.path, "error": error_record(each.error)} for each in report.unreadable
        ],
        "unfinished": report.unfinished,
        "omitted": report.omitted,
    }


def _savepoint(reported: Reported) -> ReportedSavepoint:
    entry, damage = reported.entry, reported.damage
    job = entry.header.job
    return {
        "path": entry.path,
        "state": state_of(damage),
        "job_id": job.job_id,
        "job_name": job.name,
        "created": iso_time(entry.header.created),
        "trigger": entry.header.trigger,
        "spark_version": job.spark_version,
        "queries": [{"name": query.name, "batch_id": query.batch_id} for query in entry.queries],
        "files": entry.files,
        "bytes": entry.bytes,
        "parent": reported.parent,
        "parent_here": reported.parent_here,
        "sparks": [answer.versions for answer in reported.answers],
        "error": None if damage is None else error_record(damage),
    }


def _operator(growth: Growth) -> OperatorGrowth:
    operator = growth.operator
    return {
        "job_name": growth.job_name,
        "query_id": growth.query.query_id,
        "address": growth.address,
        "uid": operator.uid,
        "operator_id": operator.operator_id,
        "kind": operator.state.kind,
        "points": [
            {
                "path": point.path,
                "created": iso_time(point.created),
                "rows": point.rows,
                "bytes": point.bytes,
            }
            for point in growth.points
        ],
    }
