"""``flinkish request show|wait ID``: follow a detached request."""

from __future__ import annotations

import click

from flinkish.cli.base import HELP_NAMES, Call, command
from flinkish.cli.commands import request_result
from flinkish.cli.commands.status import request_document
from flinkish.cli.options.arguments import timeout_option
from flinkish.cli.output.progress import describe
from flinkish.cli.output.text import local_time
from flinkish.client import requests
from flinkish.registry.jobs import RequestKind


@click.group("request", context_settings={"help_option_names": HELP_NAMES}, no_args_is_help=False)
def request() -> None:
    """Follow a savepoint, stop or cancel triggered with -detached."""


@command("show", exit_codes=(10,))
@click.argument("request_id", metavar="ID")
def show(call: Call, request_id: str) -> int:
    """Show a request's progress or result."""
    with call.session() as session:
        found = session.registry.request(request_id)
        out = session.out
        if out.json:
            out.document({"request": request_document(found)})
        elif out.quiet:
            out.line(found.state.value)
        else:
            out.line(f"{found.kind.value}  {found.request_id}  {found.state.value}")
            out.line(f"job        {found.job_id}")
            out.line(f"requested  {local_time(found.created)} by {found.requester or '-'}")
            if not found.state.is_final:
                out.line(f"progress   {describe(requests.progress_of(found))}")
            if found.finished is not None:
                out.line(f"finished   {local_time(found.finished)}")
            savepoint = requests.shown_result(found).get("savepoint")
            if savepoint:
                out.line(f"savepoint  {savepoint['path']}")
            for each in requests.left_out(found):
                out.line(f"left out   query '{each['query']}': {each['reason']}")
            if found.result is not None and not found.result.complete:
                out.line(f"incomplete {requests.INCOMPLETE}")
            if found.error:
                out.line(f"error      {found.error.get('message')}")
    return 0


@command("wait", exit_codes=(4, 10, 12, 13, 14, 15))
@click.argument("request_id", metavar="ID")
@timeout_option
def wait(call: Call, request_id: str, timeout: float | None) -> int:
    """Wait for a request's result, with the exit code of the command that triggered it."""
    with call.session() as session:
        found = session.registry.request(request_id)
        seconds = session.timeout(timeout)
        done = request_result.wait_for(session, found, seconds)
        if done.kind is RequestKind.SAVEPOINT:
            job = session.registry.job(done.job_id)
        else:
            job = request_result.wait_for_end(session, done, seconds)
        return request_result.show_result(session, done, job)


request.add_command(show)
request.add_command(wait)
