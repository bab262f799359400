"""What is measured in a process of its own: ``child.py TASK REQUEST``, answers in JSON.

The peak of the resident memory is that of the process, so each savepoint gets one.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flinkish.savepoint.directory.dispose import dispose
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.format.reader import check_files, open_savepoint
from flinkish.savepoint.manage.verify import unexpected_files
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint

JOB = SavepointJob("0123456789abcdef0123456789abcdef", "bench", spark_version="4.3.0")


def peak_memory() -> int:
    """The peak of this process' resident memory, bytes.

    Linux' own number, where there is one: that of getrusage starts with the parent's.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except FileNotFoundError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def counted_requests() -> Iterator[dict[str, Any]]:
    """Count the requests to S3, by operation, and how many are under way at once."""
    found: dict[str, Any] = {"requests": Counter(), "in_flight": 0}
    try:
        from aiobotocore.client import AioBaseClient
    except ImportError:  # no S3 then
        yield found
        return
    call = AioBaseClient._make_api_call
    lock, running = threading.Lock(), 0

    async def counting(self: Any, operation: str, arguments: Any) -> Any:
        nonlocal running
        with lock:
            running += 1
            found["requests"][operation] += 1
            found["in_flight"] = max(found["in_flight"], running)
        try:
            return await call(self, operation, arguments)
        finally:
            with lock:
                running -= 1

    AioBaseClient._make_api_call = counting
    try:
        yield found
    finally:
        AioBaseClient._make_api_call = call


def savepoint(checkpoint: str, target: str, **_: Any) -> dict[str, Any]:
    """Take one savepoint; what it took."""
    before = peak_memory()
    with counted_requests() as requests:
        started, cpu = time.monotonic(), time.process_time()
        info = write_savepoint(
            target,
            JOB,
            [QuerySource("query", checkpoint)],
            trigger="savepoint",
            reporter=SilentSavepointReporter(),
        )
        seconds, cpu = time.monotonic() - started, time.process_time() - cpu
    return {
        "path": info.path,
        "files": info.files,
        "bytes": info.bytes,
        "moved_bytes": info.moved_bytes,
        "shared": info.shared_files,
        "seconds": seconds,
        "cpu": cpu,
        "before": before,
        "peak": peak_memory(),
        **requests,
    }


def care(savepoint: str, what: str) -> dict[str, Any]:
    """Check, look for what does not belong, or dispose of a savepoint; what it took."""
    started = time.monotonic()
    before = peak_memory()
    if what == "dispose":
        dispose(savepoint)
    elif what == "verify":
        check_files(open_savepoint(savepoint))
        assert not unexpected_files(open_savepoint(savepoint))
    else:
        raise ValueError(what)
    return {"seconds": time.monotonic() - started, "before": before, "peak": peak_memory()}


def one_at_a_time(files: list[tuple[str, str]]) -> dict[str, Any]:
    """Copy files by plain s3fs one after the other, each (from, to), from a path or within S3."""
    import s3fs

    fs = s3fs.S3FileSystem(use_listings_cache=False)
    fs.exists(
        files[0][1].rpartition("/")[0]
    )  # the connection is made, and the client's models read
    started, cpu = time.monotonic(), time.process_time()
    for source, target in files:
        if source.startswith("/"):
            fs.put_file(source, target)
        else:
            fs.cp_file(source, target)
    return {
        "files": len(files),
        "seconds": time.monotonic() - started,
        "cpu": time.process_time() - cpu,
    }


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "savepoint": savepoint,
    "care": care,
    "one_at_a_time": one_at_a_time,
}


if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](**json.loads(sys.argv[2]))))
