"""Processes that write, dispose of and prune savepoints, and are killed by SIGKILL on the way.

They are forked from a server process that has all imports done, so that one costs what its work
costs. A death has its place: the process kills itself right before or after a certain change of the
storage, or is killed from outside when it says that it sends a certain request to S3, with others
under way. Neither depends on how fast the machine is.
"""

from __future__ import annotations

import importlib
import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from fsspec.core import url_to_fs

from flinkish import storage
from flinkish.messages.requests import SavepointSummary
from flinkish.savepoint.directory.dispose import dispose
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.format.reader import open_savepoint
from flinkish.savepoint.manage.prune import collect_garbage, prune
from flinkish.savepoint.manage.retention import Policy
from flinkish.savepoint.manage.verify import verify
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.support.forkserver import fork_context
from tests.support.savepoint.small_savepoints import JOB_ID

for _library in ("s3fs", "hdfs_native.fsspec"):
    importlib.import_module(_library)

#: Functions of ``flinkish.storage`` that change something, and which argument says where; those
#: that remove are told where by two.
_CHANGES = {
    "make_directory": 0,
    "make_new_directory": 0,
    "place": 1,
    "publish_file": 1,
    "write_atomically": 0,
    "write_bytes": 0,
}
#: Those that are told of many places; each place counts as a change.
_REMOVING = ("remove_file", "remove_tree")
_MANY = ("remove_files", "remove_empty_directories")
PATIENCE = 120.0
_NEVER = 1 << 60
#: What a process says before it begins, and where it is to be killed.
_BEGUN, _HERE = -1, -2


@dataclass(frozen=True)
class Point:
    """Where a process kills itself: at the ``number``-th change (from 0) of a location with
    ``part`` in it, right before or right after."""

    number: int = 0
    part: str = ""
    after: bool = False


@dataclass(frozen=True)
class Work:
    """What a process is to do: ``write``, ``dispose``, ``prune`` or ``garbage``."""

    what: str
    place: str
    environment: Mapping[str, str]
    checkpoint: str = ""
    full: bool = False
    path: str = ""
    now: float | None = None
    die: Point | None = None
    request: int | None = None


def take(place: str, checkpoint: str, *, full: bool = False) -> SavepointSummary:
    """A savepoint of the one job there is here."""
    return write_savepoint(
        place,
        SavepointJob(JOB_ID, "job", spark_version="4.3.0"),
        [QuerySource("q", checkpoint)],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
        full=full,
    )


def needed_by(path: str) -> set[str]:
    """What must lie in the directory of the savepoint at ``path`` for it, relative to that: its own
    files, those that others hold for it, and what it says there of that."""
    savepoint, name = open_savepoint(path), storage.base_name(path)
    needed = {f"{holder}/_refs/{name}" for holder in savepoint.holders} | {f"{name}/_metadata"}
    for record in savepoint.iter_files():
        own = f"{name}/{savepoint.queries[record.query].directory}/{record.path}"
        needed.add(record.held or own)
    return needed


def all_objects(place: str) -> set[str]:
    """Whatever lies below a location, hidden names too, relative to it."""
    files, path = url_to_fs(place)
    files.invalidate_cache()
    return {found.removeprefix(path).lstrip("/") for found in files.find(path)}


def verify_whole(path: str) -> None:
    """A savepoint is complete, to the last bit, and there is nothing else in its directory."""
    found = verify(open_savepoint(path), "full", SilentSavepointReporter())
    assert (found.bad, found.unexpected) == ((), ())


_DO: Mapping[str, Callable[[Work], object]] = {
    "write": lambda work: take(work.place, work.checkpoint, full=work.full),
    "dispose": lambda work: dispose(work.path),
    "prune": lambda work: prune(work.place, Policy(keep_last=1), {}),
    "garbage": lambda work: collect_garbage(work.place, (), now=work.now),
}


def kill_at_request(work: Work, number: int) -> bool:
    """Kill a process when it sends its ``number``-th request (from 0) to S3; False when it never
    did, or was done before the signal came."""
    return _run(replace(work, request=number))[0] == -signal.SIGKILL


def kill_at(work: Work) -> bool:
    """Let a process kill itself at ``work.die``; False when it never came there."""
    assert work.die is not None
    return _run(work)[0] == -signal.SIGKILL


def count_requests(work: Work) -> int:
    """How many requests to S3 the work sends: it is done."""
    code, told = _run(replace(work, request=_NEVER))
    assert code == 0, f"{work.what} failed"
    return told


def count_changes(work: Work) -> int:
    """How many changes of the storage the work makes: it is done."""
    code, told = _run(replace(work, die=Point(_NEVER)))
    assert code == 0, f"{work.what} failed"
    return told


def _run(work: Work) -> tuple[int, int]:
    """The exit code of a process that has done the work, or was killed; and what it told at its
    end: how many changes it made, or requests it sent, where it was to die at one."""
    context = fork_context()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(work, theirs))
    process.start()
    theirs.close()
    with ours:
        try:
            assert ours.poll(PATIENCE), "the process did not begin"
            assert ours.recv() == _BEGUN
            told = 0
            assert ours.poll(PATIENCE), "the process neither ended nor came where it was to die"
            with suppress(EOFError):  # it has killed itself, or failed
                told = ours.recv()
                if told == _HERE:
                    process.kill()
            process.join(PATIENCE)
            assert process.exitcode is not None, "the process did not end"
            assert process.exitcode in (0, -signal.SIGKILL), f"{work} failed: see its traceback"
            return process.exitcode, told
        finally:
            process.kill()
            process.join()
            process.close()


def _child(work: Work, pipe: Connection) -> None:
    os.environ.update(work.environment)
    storage.exists(work.place)  # the client of the storage is there when the clock begins to run
    seen = None if work.die is None else _arm(work.die)
    if work.request is not None:
        seen = _announce(work.request, pipe)
    pipe.send(_BEGUN)
    _DO[work.what](work)
    pipe.send(0 if seen is None else seen())


def _announce(number: int, pipe: Connection) -> Callable[[], int]:
    """Let this process say when it sends a request to S3; returns what counts them."""
    from aiobotocore.client import AioBaseClient

    lock = threading.Lock()
    send = AioBaseClient._make_request
    seen = 0

    async def announced(*args: Any, **named: Any) -> Any:
        nonlocal seen
        with lock:
            seen += 1
            if seen == number + 1:
                pipe.send(_HERE)
        return await send(*args, **named)

    AioBaseClient._make_request = announced

    def count() -> int:
        return seen

    return count


def _arm(point: Point) -> Callable[[], int]:
    """Let this process kill itself at a change of the storage; returns what counts them."""
    lock = threading.Lock()
    seen = 0

    def change(location: str, carry_out: Callable[[], Any]) -> Any:
        nonlocal seen
        if point.part not in location:
            return carry_out()
        with lock:
            mine, seen = seen, seen + 1
        if mine < point.number:
            return carry_out()
        if point.after and mine == point.number:
            carry_out()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("not reached")

    def of_one(function: Callable[..., Any], index: int) -> Callable[..., Any]:
        return lambda *args, **named: change(args[index], lambda: function(*args, **named))

    def of_many(function: Callable[..., Any]) -> Callable[..., Any]:
        def one_by_one(root: str, names: Any, *more: Any) -> None:
            # Deepest first, as the functions themselves do where it matters.
            for name in sorted(set(names), key=lambda each: -each.count("/")):
                change(storage.join(root, name), partial(function, root, [name], *more))

        return one_by_one

    def of_two(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda root, name, *more: change(
            storage.join(root, name), partial(function, root, name, *more)
        )

    for name in _REMOVING:
        setattr(storage, name, of_two(getattr(storage, name)))
    for name, index in _CHANGES.items():
        setattr(storage, name, of_one(getattr(storage, name), index))
    for name in _MANY:
        setattr(storage, name, of_many(getattr(storage, name)))

    def count() -> int:
        return seen

    return count
