"""A checkpoint with a committed batch that read nothing, from which a query counts its batches.

It is for a new query over a file sink that has batches already (``--sink-ahead rebase``). Spark
continues from it as from one of its own: each source has no position (``-``), and starts as in a
new query; each operator has the empty state of that batch; the settings are those of the session,
as Spark would pin them.
"""

from __future__ import annotations

import time
from typing import Any

from flinkish import storage
from flinkish.checkpoint.format.log_rewrites import empty_commit, empty_offsets, new_metadata
from flinkish.checkpoint.format.names import COMMITS, METADATA, OFFSETS
from flinkish.checkpoint.format.pins import SETTING_CHECKPOINT_FORMAT
from flinkish.driver.plan.pinned_planning import configure, pinned_settings
from flinkish.driver.plan.plan_extraction import PlannedQuery
from flinkish.driver.plan.planned_queries import empty_states
from flinkish.errors import Incompatible
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.recipe import FreshSource, OriginCheckpoint, Recipe

_FILES = (METADATA, f"{OFFSETS}/0", f"{COMMITS}/0")
#: Settings that require a newer form of the logs than this module writes.
_NEWER = (SETTING_CHECKPOINT_FORMAT, "spark.sql.streaming.offsetLog.formatVersion")


def make_empty(planned: PlannedQuery | None, session: Any, batch_id: int, target: str) -> None:
    """Create the checkpoint ``target`` with ``batch_id`` as its newest committed batch.

    Raises
    ------
    Incompatible
        The query could not be planned, or its session requires logs of a newer form.
    StorageError
        The target exists or cannot be written.
    """
    newer = [key for key in _NEWER if str(session.conf.get(key, "1")) != "1"]
    if planned is None or newer:
        why = f"{newer[0]} is set" if newer else "the query's plan cannot be read"
        raise Incompatible(
            f"cannot create a checkpoint that begins after batch {batch_id}: {why}",
            hint="write to another path, or start from a savepoint",
        )
    final = storage.locate(target)
    base = storage.temporary_name(final)
    try:
        for name, content in zip(_FILES, _contents(session, len(planned.sources)), strict=True):
            path = storage.join(base, name)
            storage.make_directory(storage.parent(path))
            storage.write_bytes(path, content)
        recipe = Recipe(
            origins=(OriginCheckpoint(base, _FILES, 0),),
            states=empty_states(planned),
            sources=tuple(FreshSource() for _ in planned.sources),
            rebase_to=batch_id,
        )
        make_checkpoint(recipe, final)
    finally:
        storage.remove_tree(*storage.split(base))


def _contents(session: Any, sources: int) -> tuple[bytes, ...]:
    """Return ``metadata``, and the logs of a batch 0 in which nothing was read."""
    import uuid

    jvm = session._jvm
    clone = session._jsparkSession.cloneSession()
    configure(jvm, clone, {})
    now_ms = int(time.time() * 1000)
    return (
        new_metadata(str(uuid.uuid4())),
        empty_offsets(pinned_settings(jvm, clone), sources, now_ms),
        empty_commit(),
    )
