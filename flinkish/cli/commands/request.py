"""``flinkish request show|wait ID``: follow a detached request."""

from __future__ import annotations

import click

from flinkish.cli.base import HELP_NAMES, Call, command
from flinkish.cli.commands import request_result
from flinkish.cli.commands.status import request_document
from flinkish.cli.documents.requests import OutcomeDocument, RequestDocument
from flinkish.cli.options.arguments import timeout_option
from flinkish.cli.output.progress import describe
from flinkish.cli.output.text import local_time
from flinkish.client.lifecycle import wait_for_request
from flinkish.client.requests import INCOMPLETE, Outcome, progress_of


@click.group("request", context_settings={"help_option_names": HELP_NAMES}, no_args_is_help=False)
def request() -> None:
    """Follow a savepoint, stop or cancel triggered with -detached."""


@command("show", exit_codes=(10,), documents=(RequestDocument,))
@click.argument("request_id", metavar="ID")
def show(call: Call, request_id: str) -> int:
    """Show a request's progress or result."""
    with call.session() as session:
        record = session.registry.request(request_id)
        out = session.out
        if out.json:
            document: RequestDocument = {"request": request_document(record)}
            out.document(document)
        elif out.quiet:
            out.line(record.state.value)
        else:
            out.line(f"{record.kind.value}  {record.request_id}  {record.state.value}")
            out.line(f"job        {record.job_id}")
            out.line(f"requested  {local_time(record.created)} by {record.requester or '-'}")
            if not record.state.is_final:
                out.line(f"progress   {describe(progress_of(record))}")
            if record.finished is not None:
                out.line(f"finished   {local_time(record.finished)}")
            outcome = Outcome.of(record)
            if outcome.savepoint is not None:
                out.line(f"savepoint  {outcome.savepoint.path}")
            for each in outcome.left_out:
                out.line(f"left out   query '{each.query}': {each.reason}")
            if record.result is not None and not record.result.complete:
                out.line(f"incomplete {INCOMPLETE}")
            if record.error:
                out.line(f"error      {record.error.get('message')}")
    return 0


@command("wait", exit_codes=(4, 10, 12, 13, 14, 15), documents=(OutcomeDocument,))
@click.argument("request_id", metavar="ID")
@timeout_option
def wait(call: Call, request_id: str, timeout: float | None) -> int:
    """Wait for a request's result; exit with the code of the command that triggered the request."""
    with call.session() as session:
        record = session.registry.request(request_id)
        with session.reporter.live():
            outcome = wait_for_request(session, record, timeout)
        return request_result.show_result(session.out, outcome)


request.add_command(show)
request.add_command(wait)
