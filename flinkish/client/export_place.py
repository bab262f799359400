"""Where an export puts checkpoints: in a new directory, or in place of a program's own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flinkish import storage
from flinkish.checkpoint.cut import newest_planned_batch
from flinkish.checkpoint.discovery import is_checkpoint
from flinkish.errors import SavepointNotFound, StorageError, UsageError, WrongState, quoted_path
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import ACTIVE_STATES
from flinkish.registry.liveness import reconcile
from flinkish.restore.materialize.new_checkpoint import is_taken


@dataclass(frozen=True)
class ExportPlace:
    """Where checkpoints are built, each in a directory of its own, and where they are put.

    On remote storage, where no directory is renamed, both are the same. ``replaces`` is the newest
    planned batch (-1 without one) of the checkpoint that is replaced; None for a new directory.
    """

    building: str
    final: str
    replaces: int | None = None

    @property
    def is_single(self) -> bool:
        """Whether ``final`` is that of the one checkpoint itself."""
        return self.replaces is not None

    def location_of(self, directory: str) -> str:
        """Return where the checkpoint will be that is built in a directory of that name."""
        return self.final if self.is_single else storage.join(self.final, directory)

    def publish(self, directories: list[str]) -> str | None:
        """Put the built checkpoints in place; return where a replaced one is kept.

        Raises WrongState if that has got a batch meanwhile, and StorageError if a directory cannot
        be renamed: the old one is then where it was.
        """
        if self.replaces is None:
            if self.building != self.final:
                storage.publish(self.building, self.final)
            return None
        if _newest(self.final) != self.replaces:
            raise WrongState(
                f"the checkpoint {self.final} is in use: it got a batch during the export",
                hint="stop the program that runs on it, and export again",
            )
        (directory,) = directories
        kept = f"{self.final}.replaced-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        if os.path.lexists(kept):
            raise StorageError(f"{kept} exists", hint="export again in a second")
        storage.publish(self.final, kept)
        try:
            storage.publish(storage.join(self.building, directory), self.final)
        except BaseException:
            storage.publish(kept, self.final)
            raise
        return kept


def new_directory(directory: str) -> ExportPlace:
    """Return the place for checkpoints in a new directory; StorageError if it is not empty."""
    final = storage.locate(directory)
    if is_taken(final):
        raise StorageError(
            f"cannot export to {directory}: it exists and is not an empty directory",
            hint="name a new directory, or put one checkpoint in place of another with "
            "--in-place-of",
            path=final,
        )
    if not storage.is_local(final):
        return ExportPlace(final, final)
    final = os.path.realpath(final)
    return ExportPlace(storage.temporary_name(final), final)


def in_place_of(checkpoint: str, registry: Registry) -> ExportPlace:
    """Return the place of a program's own checkpoint, which is kept beside it.

    Raises UsageError for remote storage, SavepointNotFound if there is no checkpoint, and
    WrongState if a job of the registry runs on it.
    """
    final = storage.locate(checkpoint)
    if not storage.is_local(final):
        raise UsageError(
            f"{checkpoint} is on remote storage, where a checkpoint cannot be replaced as a whole",
            hint="export into a new directory, and let the program's checkpointLocation name it",
        )
    final = os.path.realpath(final)
    if not is_checkpoint(final):
        raise SavepointNotFound(
            f"there is no checkpoint at {checkpoint} that could be replaced",
            hint=f"for a new one: flinkish export SAVEPOINT {quoted_path(checkpoint)}",
            path=final,
        )
    active = reconcile(registry, registry.jobs(states=ACTIVE_STATES))
    jobs = {job.job_id: job for job in active if not job.state.is_final}
    for job_id, queries in registry.queries_of(jobs).items():
        for query in queries:
            if storage.same_place(query.checkpoint_dir, final):
                job = jobs[job_id]
                raise WrongState(
                    f"query '{query.name}' of job {job.name} ({job_id}), which is "
                    f"{job.state.value}, runs on {checkpoint}",
                    hint=f"stop it first: flinkish stop {job_id}",
                    job_id=job_id,
                    state=job.state.value,
                )
    return ExportPlace(storage.temporary_name(final), final, _newest(final))


@contextmanager
def built(place: ExportPlace) -> Iterator[None]:
    """Make the directory in which checkpoints are built; remove what is left of it in the end.

    On remote storage the checkpoints stay, unless an error ends the block.
    """
    storage.make_directory(storage.parent(place.building))
    storage.make_new_directory(place.building)
    is_published = False
    try:
        yield
        is_published = True
    finally:
        if place.building != place.final or not is_published:
            storage.remove_tree(*storage.split(place.building))


def _newest(checkpoint: str) -> int:
    newest = newest_planned_batch(checkpoint)
    return -1 if newest is None else newest
