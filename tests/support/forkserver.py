"""The server that forks processes for the tests: one for each worker of pytest.

It has no threads, as a worker with a session of Spark has, and its imports are done: a process
costs what its work costs.
"""

from __future__ import annotations

from multiprocessing import get_context
from multiprocessing.context import ForkServerContext

#: All of them together, because a server loads modules only at its start.
_LOADED = ("tests.support.cli.forked_command", "tests.support.savepoint.killed_processes")


def fork_context() -> ForkServerContext:
    """A context of ``multiprocessing`` whose processes come from the server."""
    context = get_context("forkserver")
    context.set_forkserver_preload(list(_LOADED))
    return context
