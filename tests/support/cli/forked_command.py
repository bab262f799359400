"""``python -m flinkish`` in a process of its own that did not have to import it.

Starting Python and importing takes most of what a command takes, and the tests call hundreds.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from pkgutil import iter_modules

import flinkish.cli.commands
from flinkish.cli.entry import main
from tests.support.forkserver import fork_context

for _module in iter_modules(flinkish.cli.commands.__path__, "flinkish.cli.commands."):
    import_module(_module.name)

#: Beginnings of variables that Python reads at its start, and fsspec when it is imported.
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "FSSPEC_")


def can_fork(environ: Mapping[str, str]) -> bool:
    """Whether a command in ``environ`` is the same when it is forked."""
    return not any(
        environ.get(name) != os.environ.get(name)
        for name in {*environ, *os.environ}
        if name.startswith(_READ_AT_START)
    )


def run_forked(
    args: Sequence[str], *, environ: Mapping[str, str], directory: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """What ``subprocess.run`` does with ``python -m flinkish`` and text captured.

    As there, what the command leaves running must not hold its output open.
    """
    context = fork_context()
    ends = [context.Pipe(duplex=False) for _ in range(2)]
    process = context.Process(
        target=_command, args=(args, environ, directory, *(theirs for _, theirs in ends))
    )
    process.start()
    for _, theirs in ends:
        theirs.close()
    deadline = time.monotonic() + timeout
    try:
        out, err = _read_all([ours for ours, _ in ends], deadline)
        process.join(max(deadline - time.monotonic(), 0))
        if process.exitcode is None:
            raise TimeoutError
    except TimeoutError:
        raise subprocess.TimeoutExpired(["flinkish", *args], timeout) from None
    else:
        return subprocess.CompletedProcess(["flinkish", *args], process.exitcode, out, err)
    finally:
        process.kill()
        process.join()
        process.close()


def _read_all(pipes: Sequence[Connection], deadline: float) -> list[str]:
    blocks: dict[Connection, list[bytes]] = {pipe: [] for pipe in pipes}
    left = list(pipes)
    try:
        while left:
            ready = wait(left, max(deadline - time.monotonic(), 0))
            if not ready:
                raise TimeoutError
            for pipe in left:
                if pipe in ready:
                    blocks[pipe].append(os.read(pipe.fileno(), 1 << 16))
            left = [pipe for pipe in left if not blocks[pipe] or blocks[pipe][-1]]
    finally:
        for pipe in pipes:
            pipe.close()
    return [b"".join(blocks[pipe]).decode() for pipe in pipes]


def _command(
    args: Sequence[str],
    environ: Mapping[str, str],
    directory: Path,
    out: Connection,
    err: Connection,
) -> None:
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(directory)
    for pipe, number in ((out, 1), (err, 2)):
        os.dup2(pipe.fileno(), number)
        pipe.close()
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.argv = ["flinkish", *args]
    try:
        sys.exit(main())
    finally:
        atexit._run_exitfuncs()
