"""Takes the savepoints, restores them, and keeps what came of it in a work directory.

``<work>/<version>/<case>/`` has the case's ``input``, its first ``checkpoint``, the ``savepoint``
made of it and ``begun.json``; for each version that it was resumed on ``to-<version>.json`` and the
checkpoint made for that. What has a result is not measured again, so a measurement that was
interrupted goes on, and one case can be measured again alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flinkish.checkpoint.format.pins import SETTING_CHECKPOINT_FORMAT
from flinkish.errors import FlinkishError
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.origin.restore_origin import RestorableQuery, open_path
from flinkish.restore.recipe import Recipe
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.support import venvs
from tools.compatmatrix.cases import STATELESS, Case, cases, unused
from tools.compatmatrix.data import expected, in_order, write_half

CHECKOUT = venvs.CHECKOUT
#: Seconds that one query may take; a failing transformWithState of Spark 4.0 may never end.
TIMEOUT = 60
#: Queries at a time in a process, and processes at a time.
QUERIES_AT_ONCE = 3
PROCESSES = 2
#: Queries that one process runs: a Spark takes seconds to start, and keeps state stores in memory.
_CHUNK = 60
#: Errors of a machine that is too busy, and how often to try because of them.
_CHANCE = ("Timed out while waiting for the Python worker to connect back",)
_PASSES = 2
_JOB_ID = "c0" * 16


class BadMeasurement(Exception):
    """What was measured is not what was meant to be."""


@dataclass(frozen=True)
class Begun:
    """A case begun on one version of Spark."""

    version: str
    case: Case
    directory: Path

    def result(self, target: str | None = None) -> Path:
        """The file with the result: of beginning it, or of resuming it on a target."""
        return self.directory / ("begun.json" if target is None else f"to-{target}.json")


@dataclass(frozen=True)
class Measurement:
    """One measurement in a work directory.

    Parameters
    ----------
    versions: exact versions of Spark, from which and to which is measured.
    chosen: says which cases are measured.
    say: called with a line of progress.
    """

    work: Path
    versions: Sequence[str]
    chosen: Callable[[Case], bool]
    say: Callable[[str], None]

    def begun(self, version: str) -> list[Begun]:
        """The cases of one version, whether already measured or not."""
        return [
            Begun(version, case, self.work / version / case.id)
            for case in cases(version)
            if self.chosen(case)
        ]

    def run(self, *, again: bool) -> None:
        """Measure what has no result yet, with ``again`` everything.

        Raises venvs.Unavailable when an environment cannot be made, BadMeasurement when a process
        does not even run.
        """
        pythons = {version: venvs.interpreter(version) for version in self.versions}
        everything = [one for version in self.versions for one in self.begun(version)]
        # What most people have comes first, for measurements that are not done in one go.
        everything.sort(key=lambda one: len(one.case.formats))
        if again:
            for one in everything:
                shutil.rmtree(one.directory, ignore_errors=True)
        for _ in range(_PASSES):
            new = [one for one in everything if _is_missing(one.result())]
            self._in_chunks(pythons, [(one.version, one, _to_begin(one)) for one in new])
        for _ in range(_PASSES):
            pairs = [
                (target, one, spec)
                for target in self.versions
                for one in everything
                if _is_missing(one.result(target))
                if (spec := _to_resume(one, target)) is not None
            ]
            self._in_chunks(pythons, pairs)

    def _in_chunks(
        self, pythons: dict[str, str], runs: Sequence[tuple[str, Begun, dict[str, Any]]]
    ) -> None:
        # A process of Spark 4.0 has one version of RocksDB archives, that of its first query (the
        # value RocksDBCheckpointMetadata.VERSION): checkpoint formats do not mix in a process.
        alike: dict[tuple[str, str | None], list[tuple[Begun, dict[str, Any]]]] = {}
        for version, one, spec in runs:
            key = version, spec["settings"].get(SETTING_CHECKPOINT_FORMAT)
            alike.setdefault(key, []).append((one, spec))
        parts = [
            (at, version, some[at : at + _CHUNK])
            for (version, _), some in alike.items()
            for at in range(0, len(some), _CHUNK)
        ]
        chunks = [(version, some) for _, version, some in sorted(parts, key=lambda part: part[0])]

        def run_chunk(number: int) -> None:
            version, some = chunks[number]
            folder = self.work / "processes"
            folder.mkdir(parents=True, exist_ok=True)
            name = f"{version}-{os.getpid()}-{number}"
            _Process(pythons[version], folder / name, [spec for _, spec in some]).run()
            for one, spec in some:
                if Path(spec["result"]) == one.result():
                    _finish_begin(one, self.say)
            self.say(f"{version}: {len(some)} queries done ({number + 1} of {len(chunks)} parts)")

        with ThreadPoolExecutor(PROCESSES) as pool:
            list(pool.map(run_chunk, range(len(chunks))))


def read_result(path: Path) -> dict[str, Any] | None:
    """A result as it was written; None when there is none."""
    try:
        result: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return result


def is_chance(errors: Sequence[str]) -> bool:
    """Whether errors come from a busy machine, and say nothing of Spark."""
    return any(words in error for error in errors for words in _CHANCE)


def _is_missing(path: Path) -> bool:
    result = read_result(path)
    return result is None or is_chance(result["errors"])


def _write_result(path: Path, result: dict[str, Any]) -> None:
    building = path.with_suffix(".new")
    building.write_text(json.dumps(result))
    building.rename(path)


def wrong_rows(rows: list[list[Any]], query: str, half: int) -> str | None:
    """How rows of output differ from those expected, in a few words; None when they do not."""
    wanted = expected(query, half)
    got = in_order([tuple(row) for row in rows])
    if got == wanted:
        return None
    lost = [row for row in wanted if row not in got]
    more = [row for row in got if row not in wanted]
    return (
        f"wrong result: {len(got)} rows for {len(wanted)}"
        + (f", without {lost[0]}" if lost else "")
        + (f", with {more[0]}" if more else "")
    )


def _to_begin(one: Begun) -> dict[str, Any]:
    shutil.rmtree(one.directory, ignore_errors=True)
    write_half(one.directory / "input", 0)
    return {
        "query": one.case.query.name,
        "input": str(one.directory / "input"),
        "checkpoint": str(one.directory / "checkpoint"),
        "settings": one.case.settings,
        "result": str(one.result()),
    }


def _finish_begin(one: Begun, say: Callable[[str], None]) -> None:
    """Take the savepoint of what has begun well, and put the rest of the input in place."""
    result = read_result(one.result())
    assert result is not None
    problem = result["errors"][-1] if result["errors"] else None
    problem = problem or wrong_rows(result["rows"], one.case.query.name, 0)
    try:
        savepoint = None if problem else _save(one)
    except (FlinkishError, BadMeasurement) as error:
        problem, savepoint = str(error), None
    if problem:
        say(f"{one.version} {one.case.id} cannot be begun: {problem.splitlines()[0][:300]}")
    else:
        write_half(one.directory / "input", 1)
    _write_result(one.result(), {**result, "problem": problem, "savepoint": savepoint})


def _save(one: Begun) -> str:
    job = SavepointJob(_JOB_ID, "compat-matrix", spark_version=one.version)
    query = QuerySource(one.case.id, str(one.directory / "checkpoint"))
    info = write_savepoint(
        str(one.directory / "savepoint"),
        job,
        [query],
        trigger="stop",
        reporter=SilentSavepointReporter(),
    )
    offer = _only_offer(info.path)
    offsets = Path(offer.origin.root, "offsets", str(offer.query.batch_id))
    head = offsets.read_text().splitlines()[0]
    absent = unused(one.case, offer.pins, offer.origin.files, head, offer.checkpoint_format)
    if absent:
        raise BadMeasurement(f"the savepoint does not have: {', '.join(absent)}")
    kinds = [op.state.kind for op in offer.query.operators]
    wanted = sorted(name for name in one.case.query.operators if name != STATELESS)
    if len(kinds) != len(wanted) or (None not in kinds and sorted(map(str, kinds)) != wanted):
        raise BadMeasurement(f"the savepoint has the operators {kinds}, not {wanted}")
    return info.path


def _only_offer(path: str) -> RestorableQuery:
    [offer] = open_path(path).by_key.values()
    return offer


def _to_resume(one: Begun, target: str) -> dict[str, Any] | None:
    """What a process of the target runs; None when the case could not be begun.

    The session gets the settings that a restore sets, and those without which Spark refuses a
    format. All else that the new Spark knows of the formats comes from the checkpoint.
    """
    begun = read_result(one.result())
    if begun is None or not begun["savepoint"]:
        return None
    one.result(target).unlink(missing_ok=True)
    checkpoint = one.directory / f"to-{target}"
    shutil.rmtree(checkpoint, ignore_errors=True)
    offer = _only_offer(begun["savepoint"])
    make_checkpoint(Recipe((offer.origin,)), str(checkpoint))
    settings = one.case.kept_settings
    if offer.checkpoint_format > 1:
        settings[SETTING_CHECKPOINT_FORMAT] = str(offer.checkpoint_format)
    return {
        "query": one.case.query.name,
        "input": str(one.directory / "input"),
        "checkpoint": str(checkpoint),
        "settings": settings,
        "result": str(one.result(target)),
    }


class _Process:
    """Runs queries in processes of one Spark, as many as it takes."""

    def __init__(self, python: str, name: Path, runs: list[dict[str, Any]]) -> None:
        self._python = python
        self._name = name
        self._runs = runs

    def run(self) -> None:
        """Until every run has a result: its own, or that the process died of it."""
        size = len(self._runs)
        for attempt in range(2 * size + 2):
            left = [run for run in self._runs if not Path(run["result"]).is_file()]
            if not left:
                return
            self._once(left[:size], attempt)
            still = [run for run in left if not Path(run["result"]).is_file()]
            if len(still) < len(left):
                continue
            if size == 1:
                error = "the process of Spark died"
                _write_result(Path(left[0]["result"]), {"rows": [], "errors": [error]})
            size = 1  # one of those that ran together: find it by running each alone
        raise BadMeasurement(f"{self._name}: not done after as many processes as queries")

    def _once(self, runs: list[dict[str, Any]], attempt: int) -> None:
        file = self._name.with_name(f"{self._name.name}-{attempt}.json")
        spec = {"parallel": QUERIES_AT_ONCE, "timeout": TIMEOUT, "runs": runs}
        file.write_text(json.dumps(spec))
        # What has no result is tried again.
        run_worker(self._python, "tools.compatmatrix.worker", file, TIMEOUT * (2 + len(runs)))


def run_worker(python: str, module: str, file: Path, timeout: float) -> None:
    """Run a module of measurements on ``file`` in a process of its own, and end all that it began.

    Its output goes beside the file. It is ended after ``timeout`` seconds; the file's results say
    how far it came.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
    environment |= {"PYTHONPATH": str(CHECKOUT), "PYSPARK_PYTHON": python}
    with open(file.with_suffix(".log"), "wb") as log:
        process = subprocess.Popen(
            [python, "-m", module, str(file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=file.parent,
            env=environment,
            start_new_session=True,  # so that its Java and Python workers end with it
        )
        try:
            process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            pass
        finally:
            end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
