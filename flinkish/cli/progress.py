"""A savepoint's progress on a terminal; silence anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flinkish.cli.output import Output, is_terminal
from flinkish.cli.text import size_text, visible
from flinkish.jobs.model import Request, RequestState


@contextmanager
def progress(out: Output) -> Iterator[Callable[[Request], None]]:
    """A function that shows a request's progress on stderr while the block runs."""
    if out.json or out.quiet or not is_terminal(sys.stderr):
        yield lambda _request: None
        return
    from rich.console import Console  # only on a terminal: it costs more than the whole command
    from rich.text import Text  # what is no Text is read for rich's own markup

    with Console(stderr=True).status("Waiting for response...") as status:
        yield lambda request: status.update(Text(visible(describe(request))))


def describe(request: Request) -> str:
    """A request's progress in a few words. Pure."""
    facts = dict(request.progress or {})
    words = [str(facts.get("phase") or _WAITING[request.state])]
    for key, text in (("files", str), ("bytes", size_text)):
        if facts.get(key) is not None:
            total = facts.get(f"{key}_total")
            of = f" of {text(total)}" if total else ""
            words.append(f"{text(facts[key])}{of}" + (" files" if key == "files" else ""))
    if facts.get("rows") is not None:
        words.append(f"{facts['rows']:,} rows")
    if facts.get("rate"):
        words.append(f"{size_text(int(facts['rate']))}/s")
    if facts.get("remaining"):
        words.append(f"{_span(float(facts['remaining']))} left")
    return ", ".join(words)


def _span(seconds: float) -> str:
    """``45 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


_WAITING = {
    RequestState.PENDING: "Waiting for the driver",
    RequestState.IN_PROGRESS: "Waiting for response",
    RequestState.COMPLETED: "Done",
    RequestState.FAILED: "Failed",
}
