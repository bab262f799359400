"""A driver without Spark: it speaks the registry as a real one does, and does as its program's
first argument says. Started by the fake ``spark-submit`` of :mod:`tests.cli.conftest`."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, os.environ["FLINKISH_HOME"])

from flinkish.errors import ConsentNeeded, Locked, NotSavepointable, ProgramFailed
from flinkish.messages.queries import OperatorStatus, QueryStatus
from flinkish.messages.requests import RequestResult, SavedQuery, SavepointSummary
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import ENDED_BEFORE_QUERIES, JobState, Request, RequestKind
from flinkish.registry.liveness import process_ref

BATCH = 7
QUERY_ID = "11111111-2222-3333-4444-555555555555"
#: Seconds after which a stand-in whose test has forgotten it ends itself.
LIFETIME = 120.0


def main() -> int:
    forgotten = threading.Timer(LIFETIME, os._exit, (1,))
    forgotten.daemon = True
    forgotten.start()
    job_id = os.environ["FLINKISH_JOB_ID"]
    words = sys.argv[sys.argv.index(next(a for a in sys.argv if a.endswith("__main__.py"))) + 1 :]
    print("arguments:", *words, flush=True)
    mode = words[1] if len(words) > 1 else "serve"
    if mode == "silent":
        time.sleep(60)
    registry = Registry.open(os.environ["FLINKISH_REGISTRY"], create=False)
    registry.update_job(job_id, driver=process_ref(), spark_version="4.3.0")
    restore = registry.job(job_id).launch.restore
    held = restore is not None and restore.is_awaited
    if not held:
        registry.transition(job_id, JobState.CREATED, "driver started")
    if mode == "die":
        error = ProgramFailed("ModuleNotFoundError: No module named 'nothing'", tail=["a", "b"])
        registry.transition(job_id, JobState.FAILED, error.message, failure=error.to_record())
        return 1
    if mode == "usage":  # what argparse does
        print("usage: app.py [-h] --out OUT\napp.py: error: --out is required", file=sys.stderr)
        print("26/11/23 14:00:00 INFO SparkContext: stopped", file=sys.stderr, flush=True)
        exited = ProgramFailed("the program exited with status 2")
        registry.transition(job_id, JobState.FAILED, exited.message, failure=exited.to_record())
        return 2
    if mode == "refused":
        asked = ConsentNeeded("rows would be read again", hint="agree: --accept-repeated-rows")
        registry.transition(job_id, JobState.FAILED, asked.message, failure=asked.to_record())
        return 1
    if mode == "batch":
        registry.transition(job_id, JobState.FINISHED, "program ended")
        return 0
    if held and not hold(registry, job_id):
        return 0
    query = QueryStatus(
        name="counts",
        query_id=job_id if mode == "saving" else QUERY_ID,  # so that such jobs are unrelated
        run_id="r",
        checkpoint_dir=f"{registry.job(job_id).checkpoint_dir}/counts",
        batch_id=None if mode in ("stuck", "hasty", "brief") else BATCH,
        state_rows=3,
        waits_for_input=True,
        operators=(OperatorStatus(ordinal=0, kind="stateStoreSave", rows=3),),
    )
    registry.heartbeat(job_id, [query])
    registry.transition(job_id, JobState.RUNNING, "query 'counts' started")
    if mode == "broken":
        broken = ProgramFailed("ValueError: broken", tail=["ValueError: broken"])
        registry.transition(job_id, JobState.FAILED, broken.message, failure=broken.to_record())
        return 1
    if mode == "hasty":  # it does not wait for its queries
        registry.transition(job_id, JobState.FINISHED, ENDED_BEFORE_QUERIES)
        return 0
    if mode in ("bounded", "brief"):
        time.sleep(0.5)
        print("26/11/23 10:00:00 INFO SparkContext: SparkContext is stopping", flush=True)
        print("the last line", flush=True)
        registry.transition(job_id, JobState.FINISHED, "program ended")
        return 0
    threading.Thread(target=beat, args=(registry, job_id, query), daemon=True).start()
    while True:
        request = None if mode == "deaf" else registry.claim(job_id)
        if request is not None and serve(registry, request, mode):
            time.sleep(0.1)
            return 0
        time.sleep(0.02)


def hold(registry: Registry, job_id: str) -> bool:
    """Wait for the savepoint of a handover; False when the job is canceled meanwhile."""
    registry.transition(job_id, JobState.CREATED, "held")
    while True:
        request = registry.claim(job_id)
        if request is not None and serve(registry, request, "serve"):
            return False
        restore = registry.job(job_id).launch.restore
        if restore is not None and not restore.is_awaited:
            return True
        time.sleep(0.02)


def beat(registry: Registry, job_id: str, query: QueryStatus) -> None:
    while True:
        time.sleep(0.5)
        registry.heartbeat(job_id, [query])


def serve(registry: Registry, request: Request, mode: str) -> bool:
    """Do what is asked; True when the job has ended by it."""
    if mode == "slow":
        for files in range(1, 11):
            registry.progress(
                request.request_id, {"phase": "copying", "files": files, "files_total": 10}
            )
            time.sleep(0.1)
    target = request.arguments.target
    if mode == "refuse" and target:
        error = NotSavepointable("query 'counts' has a memory sink", hint="use another sink")
        registry.fail(request.request_id, error.to_record())
        return False
    if mode == "locked" and target:
        held = Locked(f"{target} is locked: a savepoint is being written by eva on host2")
        registry.fail(request.request_id, held.to_record())
        return False
    savepoint = None
    if target:
        path = Path(target) / f"savepoint-{request.job_id[:6]}-{request.request_id[:12]}"
        if mode == "saving":
            path = real_savepoint(Path(target), request.job_id)
        else:
            path.mkdir(parents=True)
        savepoint = SavepointSummary(
            path=str(path),
            job_id=request.job_id,
            created=time.time(),
            format=request.arguments.format,
            bytes=10,
            files=1,
            duration=0.1,
            queries=(SavedQuery("counts", BATCH, QUERY_ID),),
            trigger=request.kind.value,
            request_id=request.request_id,
        )
        registry.add_savepoint(savepoint)
    result = RequestResult(savepoint, "quiesce")
    registry.complete(request.request_id, result)
    if request.kind is RequestKind.STOP:
        registry.transition(request.job_id, JobState.FINISHED, "stopped")
    elif request.kind is RequestKind.CANCEL:
        registry.transition(request.job_id, JobState.CANCELLING, "cancel requested")
        registry.transition(request.job_id, JobState.CANCELED, "canceled")
    return request.kind is not RequestKind.SAVEPOINT


def real_savepoint(target: Path, job_id: str) -> Path:
    """One that opens, of one query with one file."""
    from tests.support.savepoint.small_savepoints import make_savepoint

    return Path(make_savepoint(str(target), time.time(), job_id=job_id, name="app"))


if __name__ == "__main__":
    sys.exit(main())
