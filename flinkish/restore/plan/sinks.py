"""Detection of sinks that already have batches that a restored query would write.

Some sinks remember their batches, and silently skip a batch that they have:

* the file sink (parquet, orc, json, csv, text ...): ``_spark_metadata/<batch>`` below its path.
  ``FileStreamSink.addBatch`` skips a batch that is not above the newest entry, whatever the query
  id ("Skipping already committed batch");
* Delta: ``txn`` actions (``appId`` is the query id, ``version`` the batch) in ``_delta_log``, by
  which ``DeltaSink.addBatch`` skips in the same way, but only for its own query id.

A query restored at an older batch uses batch numbers again that the sink has. A skipped batch is
committed, but never *computed*: its output is dropped and, if the query has state, no state of that
batch is written. The next batch that is not skipped then fails permanently, because the state that
it continues from does not exist (proven in ``tests/driver/test_sinks.py``).

:func:`judge_sink` detects that, and finds the batch to which the query must be raised instead
(*rebase*). Rebase and accept mean:

* ``rebase``: everything after the savepoint is written as new batches. Nothing is missing. The rows
  that the sink got from the batches after the savepoint stay in it, so those rows are there twice
  (the old ones and the new ones).
* ``accept``: the sink skips as many batches as it is ahead. Nothing is there twice where the
  batches hold the same input as before, and rows are missing where they do not. Only without state.

A planned batch (written to the offset log, not committed) is replayed with exactly its input. A
sink that is ahead has it already, as the batch after the savepoint's.

* Without state, skipping it is right: a sink that has this batch and no later one is not ahead, and
  a rebase gives the planned batch the number of the sink's newest one: it is not written twice.
* With state it must be computed, so it must not be skipped: a rebase gives it the number after the
  sink's newest, and its rows are written twice like those of the other batches. (A crashed query
  that Spark restarts itself still has the state of that batch on disk. A savepoint has not: it
  holds only the state of the committed batch.)
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from flinkish.checkpoint.format.source_logs import COMPACT_SUFFIX
from flinkish.errors import StorageError
from flinkish.storage import locate

SinkMode = Literal["rebase", "accept"]
SinkVerdict = Literal["as-is", "ahead", "rebase", "accept", "unreadable"]

#: The option that permits a sink that is ahead of a query with state.
REBASE_ONLY = "--sink-ahead rebase"

FILE_LOG = "_spark_metadata"
DELTA_LOG = "_delta_log"
#: Sinks of Spark and others that keep no batch numbers, or none that flinkish can read.
_NO_LOG = frozenset(
    {"console", "foreach", "foreachbatch", "hudi", "iceberg", "kafka", "memory", "noop"}
)
_COMMIT = re.compile(r"(\d{20})\.json")
#: ``N.checkpoint.parquet``, ``N.checkpoint.<part>.<parts>.parquet``, ``N.checkpoint.<uuid>.json``.
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[\w-]+)?\.(parquet|json)")


class Storage(Protocol):
    """Read access to a file system, as :mod:`flinkish.storage` has it."""

    def list_names(self, path: str) -> list[str]:
        """Return the names in a directory without hidden ones; none when it does not exist."""

    def read_bytes(self, path: str) -> bytes:
        """Return the content of a file; FileNotFoundError when it does not exist."""


@dataclass(frozen=True)
class SinkPosition:
    """The newest batch of a sink.

    Attributes
    ----------
    newest_batch
        None if there is none yet.
    by_query_id
        Whether it counts only for the query id it was written with (Delta).
    unreadable
        Why the newest batch is not known; None if it is.
    """

    format: str
    path: str
    newest_batch: int | None = None
    by_query_id: bool = False
    unreadable: str | None = None


@dataclass(frozen=True)
class SinkPlan:
    """The consequence of a restore for a sink.

    Attributes
    ----------
    verdict
        ``ahead`` needs the user's consent; ``unreadable`` needs a warning.
    reason
        An id for programs.
    text
        A sentence.
    rebase_to
        For :attr:`~flinkish.restore.recipe.Recipe.rebase_to`; set only with the verdict ``rebase``.
    permit
        The option that permits it, with the verdict ``ahead``.
    """

    format: str
    path: str
    newest_batch: int | None
    verdict: SinkVerdict
    reason: str
    text: str
    advice: str = ""
    rebase_to: int | None = None
    permit: str = ""

    @property
    def blocks(self) -> bool:
        """Whether the restore must not continue without the user's consent."""
        return self.verdict == "ahead"


def sink_position(
    format: str | None, path: str | None, query_id: str, storage: Storage
) -> SinkPosition | None:
    """Return the newest batch of a sink; None for a sink that does not record it.

    Parameters
    ----------
    format
        The format that the program passed to ``DataStreamWriter.format``; None is a file format
        (``spark.sql.sources.default``).
    path
        The location that it writes to: a plain path or a ``file:`` URL; None for a sink without
        one.
    query_id
        Spark's id of the saved query.
    """
    kind = (format or "parquet").lower()
    if path is None or kind in _NO_LOG:
        return None
    delta = kind == "delta"
    try:
        local = locate(path)
    except StorageError:
        return SinkPosition(kind, path, None, delta, f"{path} is not readable from here")
    try:
        if not delta:
            newest = _newest_batch(storage.list_names(os.path.join(local, FILE_LOG)))
            return SinkPosition(kind, path, newest)
        newest = _DeltaLog(os.path.join(local, DELTA_LOG), storage).newest_batch(query_id)
        return SinkPosition(kind, path, newest, True)
    except StorageError as error:
        return SinkPosition(kind, path, None, delta, error.message)
    except (_Unknown, FileNotFoundError) as error:
        return SinkPosition(kind, path, None, delta, str(error))


def _newest_batch(names: Iterable[str]) -> int | None:
    """Return the newest entry of a file sink's log: ``<batch>`` or ``<batch>.compact``."""
    batches = [name.removesuffix(COMPACT_SUFFIX) for name in names]
    return max((int(b) for b in batches if b.isascii() and b.isdigit()), default=None)


class _Unknown(Exception):
    """A log does not show its newest batch; the message says why."""


class _DeltaLog:
    """Delta's log, read for the newest ``txn`` of one query.

    It reads the commits from the newest back to the last checkpoint, then the checkpoint (Delta's
    protocol: "Transaction Identifiers", "Checkpoints"; a later ``txn`` of an ``appId`` replaces the
    earlier one).
    """

    def __init__(self, path: str, storage: Storage) -> None:
        self._path = path
        self._storage = storage

    def newest_batch(self, query_id: str) -> int | None:
        """Return the newest version of the query's transactions; _Unknown if the log lacks it."""
        names = self._storage.list_names(self._path)
        commits = {int(m[1]): name for name in names if (m := _COMMIT.fullmatch(name))}
        checkpoint, parts = _last_checkpoint(names)
        version = max(commits, default=-1)
        while version > checkpoint:
            if version not in commits:
                raise _Unknown(f"{self._path} lacks commit {version}")
            found = _transaction(self._actions(commits[version]), query_id)
            if found is not None:
                return found
            version -= 1
        actions = (action for part in parts for action in self._checkpoint(part))
        return _transaction(actions, query_id)

    def _actions(self, name: str) -> list[dict[str, Any]]:
        path = os.path.join(self._path, name)
        try:
            lines = self._storage.read_bytes(path).decode("utf-8").split("\n")
            return [action for line in lines if line.strip() and (action := json.loads(line))]
        except ValueError as error:
            raise _Unknown(f"{path} is not a commit of Delta: {error}") from error

    def _checkpoint(self, name: str) -> list[dict[str, Any]]:
        if name.endswith(".json"):
            return self._actions(name)
        path = os.path.join(self._path, name)
        try:
            parquet = importlib.import_module("pyarrow.parquet")
        except ImportError as error:
            raise _Unknown(f"{path} is Parquet, and there is no pyarrow here to read it") from error
        try:
            with parquet.ParquetFile(path) as file:
                if "txn" not in file.schema_arrow.names:
                    return []
                rows = file.read(columns=["txn"]).to_pylist()
        except (OSError, ValueError) as error:  # pyarrow's errors are subclasses of these
            raise _Unknown(f"{path} cannot be read: {error}") from error
        return list(rows)


def _last_checkpoint(names: Iterable[str]) -> tuple[int, list[str]]:
    """Return the version of the newest complete checkpoint and its files; -1 if there is none."""
    whole: dict[int, str] = {}
    split: dict[tuple[int, int], list[str]] = {}
    for name in names:
        match = _CHECKPOINT.fullmatch(name)
        if match is None:
            continue
        if match[3] is None:
            whole[int(match[1])] = name
        else:
            split.setdefault((int(match[1]), int(match[3])), []).append(name)
    found = {version: sorted(parts) for (version, n), parts in split.items() if len(parts) == n}
    found.update({version: [name] for version, name in whole.items()})
    newest = max(found, default=-1)
    return newest, found.get(newest, [])


def _transaction(actions: Iterable[dict[str, Any]], query_id: str) -> int | None:
    versions = [
        int(txn["version"])
        for action in actions
        if (txn := action.get("txn")) and txn.get("appId") == query_id
    ]
    return max(versions, default=None)


def judge_sink(
    saved_batch: int,
    position: SinkPosition,
    keep_query_id: bool,
    mode: SinkMode | None = None,
    *,
    stateful: bool,
    replays_planned: bool = False,
    job_at: int | None = None,
) -> SinkPlan:
    """Compare the batches of a sink with the batch that a query continues from. Pure.

    Parameters
    ----------
    saved_batch
        The committed batch of the new checkpoint, before any rebase.
    keep_query_id
        Whether the query keeps its id. With another id, Delta's transactions of the old id do not
        count; a file sink's batches do.
    mode
        ``--sink-ahead``: what to do with a sink that is ahead.
    stateful
        Whether the query has state.
    replays_planned
        Whether the new checkpoint has a planned batch
        (:func:`~flinkish.restore.materialize.new_logs.replays_planned`).
    job_at
        The newest batch that the running job had planned when the position was known, if the sink
        is the job's own: up to there, the sink is ahead only because the job goes on.
    """
    newest = position.newest_batch

    def plan(
        verdict: SinkVerdict,
        reason: str,
        text: str,
        advice: str = "",
        rebase_to: int | None = None,
        permit: str = "",
    ) -> SinkPlan:
        sink = position.format, position.path
        return SinkPlan(*sink, newest, verdict, reason, text, advice, rebase_to, permit)

    where = f"the {position.format} sink {position.path}"
    if position.unreadable is not None:
        return plan(
            "unreadable",
            "sink-unreadable",
            f"which batches {where} has is not known: {position.unreadable}",
            f"if it has batches after {saved_batch}, use --sink-ahead or another path",
        )
    if newest is None:
        return plan("as-is", "sink-empty", f"{where} has no batch yet")
    if position.by_query_id and not keep_query_id:
        return plan(
            "as-is", "sink-other-id", f"{where} has batch {newest}, of another query id than now"
        )
    if newest <= saved_batch:
        return plan("as-is", "sink-not-ahead", f"{where} has batch {newest}")
    if job_at is not None and newest <= job_at:
        return plan(
            "as-is", "sink-of-running-job", f"{where} has batch {newest}: the job has gone on"
        )
    has_planned = replays_planned and newest == saved_batch + 1
    if has_planned and not stateful:
        return plan(
            "as-is",
            "sink-has-planned",
            f"{where} has batch {newest}, which was not committed and is replayed with the same "
            "input: the sink skips it",
        )
    skipped = f"{where} has batch {newest}, and the query goes on after batch {saved_batch}"
    if mode == "rebase":
        # The sink has the planned batch. With the number of the sink's newest batch it is skipped,
        # not written twice. But a skipped batch is not computed, and state needs it computed.
        planned_skipped = replays_planned and not stateful
        return plan(
            "rebase",
            "sink-ahead",
            f"{skipped}: it continues as batch {newest + 1}; what the sink already has of the time "
            "after the savepoint is written to it again",
            rebase_to=newest - 1 if planned_skipped else newest,
        )
    lost = f"{skipped}: it would drop the output up to batch {newest} without a word"
    if mode == "accept" and not stateful:
        return plan("accept", "sink-ahead", f"{lost}, as accepted")
    rebase = (
        "--sink-ahead rebase continues after the sink's newest batch (what the sink has of the "
        "time after the savepoint is then there twice)"
    )
    others = "write to another path" + (
        ", or give the query a new id with --fork" if position.by_query_id else ""
    )
    if stateful:
        reason = "sink-has-planned" if has_planned else "sink-ahead-state"
        why = ", and the query would fail after it: no state is written by batches that it skips"
        return plan("ahead", reason, lost + why, f"{rebase}; or {others}", permit=REBASE_ONLY)
    accept = "--sink-ahead accept lets it drop them"
    advice, permit = f"{rebase}, {accept}; or {others}", "--sink-ahead rebase|accept"
    return plan("ahead", "sink-ahead", lost, advice, permit=permit)
