"""Real jobs whose checkpoints and savepoints are on S3 and HDFS."""

from __future__ import annotations

import itertools
import json
import os
import signal
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish import storage
from flinkish.errors import StorageError
from flinkish.storage.stores import forget_stores
from tests.e2e.test_killed import processes_of
from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish, Result, wait_until
from tests.support.servers.hdfs import HdfsServer
from tests.support.servers.jars import Unavailable, spark_s3_jars
from tests.support.servers.process import free_port
from tests.support.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server, delayed

pytestmark = [pytest.mark.spark, pytest.mark.servers]

ROWS = 10
#: Storages in an order in which each is followed by each other and by itself once; gone through
#: twice, each pair is once from a checkpoint to a savepoint and once from that to a checkpoint.
ROUND = ("local", "local", "s3", "s3", "hdfs", "hdfs", "local", "hdfs", "s3")
#: S3 and HDFS are each come to and left.
SHORT = ("local", "s3", "hdfs", "local")


def row_of(number: int, i: int) -> dict[str, int]:
    return {"id": number * ROWS + i, "k": (number * i) % 5, "j": i + ROWS * (number % 2)}


def write_input(directory: Path, first: int, last: int) -> None:
    directory.mkdir(exist_ok=True)
    for number in range(first, last):
        lines = [json.dumps(row_of(number, i)) for i in range(ROWS)]
        hidden = directory / f".{number:03d}"
        hidden.write_text("\n".join(lines) + "\n")
        # Spark reads files in the order of their times: no two may have the same.
        os.utime(hidden, (1.7e9 + 60 * number, 1.7e9 + 60 * number))
        hidden.rename(directory / f"{number:03d}.json")


def expected(files: int) -> dict[str, dict[int, list[list[int]]]]:
    """What an uninterrupted run puts out, batch by batch: it takes a file a batch."""
    counts: Counter[int] = Counter()
    found: dict[str, dict[int, list[list[int]]]] = {"counts": {}, "pairs": {}}
    seen: list[dict[str, int]] = []
    for number in range(files):
        new = [row_of(number, i) for i in range(ROWS)]
        counts.update(row["k"] for row in new)
        found["counts"][number] = sorted([k, counts[k]] for k in {row["k"] for row in new})
        pairs = [(a, b) for a in seen + new for b in seen + new if a["j"] == b["j"]]
        fresh = {row["id"] for row in new}
        found["pairs"][number] = sorted(
            [a["id"], b["id"]] for a, b in pairs if {a["id"], b["id"]} & fresh
        )
        seen += new
    return found


def put_out(directory: Path) -> dict[str, dict[int, list[list[int]]]]:
    return {
        query.name: {int(path.stem): json.loads(path.read_text()) for path in query.glob("*.json")}
        for query in directory.iterdir()
    }


def wait_for_output(directory: Path, batch: int) -> None:
    """Until both queries have put out this batch; looks at files, as a process costs more."""
    wanted = [directory / query / f"{batch}.json" for query in ("counts", "pairs")]
    wait_until(lambda: all(path.exists() for path in wanted))


def batch_of(record: Mapping[str, Any], query: str) -> int:
    """The newest committed batch of a query in ``status --json``, -1 before the first."""
    found = next((q["batch_id"] for q in record["queries"] if q["name"] == query), None)
    return -1 if found is None else int(found)


class World:
    """The storages of a test, and what the command and Spark need to use them."""

    def __init__(
        self, flinkish: Flinkish, root: Path, s3: S3Server | None, hdfs: HdfsServer | None
    ) -> None:
        self.flinkish = flinkish
        self.root = root
        name = uuid.uuid4().hex[:12]
        self.places = {"local": str(root / "local")}
        self.options: list[str] = []
        if s3 is not None:
            try:
                jars = spark_s3_jars()
            except Unavailable as why:
                pytest.skip(f"no jars of S3A for Spark (got by Maven): {why}")
            s3.create_bucket(f"jobs-{name}")
            self.places["s3"] = f"s3://jobs-{name}/a"
            self.options.append(f"--classpath={','.join(str(jar) for jar in jars)}")
            self.options += [f"--conf={k}={v}" for k, v in s3.spark_settings().items()]
            flinkish.environ.update(s3.environment())
        if hdfs is not None:
            self.places["hdfs"] = f"{hdfs.url}/{name}"
            flinkish.environ.update(hdfs.environment())
        self.said: list[Result] = []

    def run(self, program: str, *args: str, checkpoints: str, options: Sequence[str] = ()) -> str:
        place = f"-Dexecution.checkpointing.dir={checkpoints}"
        words = (*LIGHT, place, *self.options, *options, str(PROGRAMS / program), *args)
        return self.call("run", "-d", "-q", "-m", "local[2]", *words).out.strip()

    def call(self, *args: str, code: int = 0) -> Result:
        result = self.flinkish(*args, timeout=300)
        assert result.code == code, f"{args}: exit {result.code}\n{result.out}\n{result.err}"
        self.said.append(result)
        return result

    def check_no_secrets(self) -> None:
        """Nothing of the storages' keys is in what flinkish keeps, prints or logs."""
        text = {
            str(path): path.read_bytes()
            for path in (self.root / "state").rglob("*")
            if path.is_file()
        }
        assert any(name.endswith(".log") for name in text), sorted(text)
        assert any("registry.db" in name for name in text), sorted(text)
        said = {str(n): (r.out + r.err).encode() for n, r in enumerate(self.said)}
        for name, content in {**text, **said}.items():
            assert SECRET_KEY.encode() not in content, name
            assert ACCESS_KEY.encode() not in content, name


def journey(
    world: World,
    stations: Sequence[str],
    spellings: Mapping[str, str] = {},
    *,
    stop: Sequence[str] = (),
    again: Sequence[str] = (),
) -> None:
    """A job whose checkpoint is at the first station is stopped with a savepoint at the second,
    goes on from that with its checkpoint at the third, and so on; each checkpoint is removed.

    ``stop`` and ``again`` are more words for stopping it and running it again.
    """
    source, out = world.root / "in", world.root / "out"
    program = (str(source), str(out))
    restore: tuple[str, ...] = ()
    files = 0
    for leg, (checkpoint, savepoint) in enumerate(zip(stations[::2], stations[1::2], strict=False)):
        write_input(source, files, files + 2)
        files += 2
        place = f"{world.places[checkpoint]}/checkpoints-{leg}"
        scheme, colon, rest = place.partition("://")
        job = world.run(
            "stored.py",
            *program,
            checkpoints=f"{spellings.get(scheme, scheme)}{colon}{rest}" if colon else place,
            options=restore,
        )
        wait_for_output(out, files - 1)
        record = world.flinkish.wait_for_batch(job, files - 1)
        assert record["checkpoint_dir"] == f"{place}/{job}"
        for query in record["queries"]:
            assert query["checkpoint_dir"] == f"{place}/{job}/{query['name']}", query
        target = f"{world.places[savepoint]}/savepoints"
        stopped = world.call("stop", "-p", target, job, *stop, "--json").json()
        path = stopped["savepoint"]["path"]
        shown = "file:" if savepoint == "local" else ""
        assert path.removeprefix(shown).startswith(target), path
        world.said.append(Result(0, json.dumps(world.flinkish.job(job)), ""))
        verified = world.call("savepoint", "verify", "--level", "full", path, "--json")
        assert verified.code == 0
        metadata = storage.read_bytes(storage.join(storage.locate(path), "_metadata"))
        assert SECRET_KEY.encode() not in metadata
        assert storage.exists(place)
        assert storage.remove_tree(*storage.split(place)), (
            "the savepoint does without the checkpoint"
        )
        restore = ("-s", path, *again)
    if len(stations) % 2:
        write_input(source, files, files + 1)
        files += 1
        done = world.call(
            *("run", "-m", "local[2]", *LIGHT, *restore, *world.options),
            f"-Dexecution.checkpointing.dir={world.places[stations[-1]]}/last",
            *(str(PROGRAMS / "stored.py"), *program, "--now"),
        )
        assert "Job has been submitted with JobID " in done.out
    assert put_out(out) == expected(files)
    world.check_no_secrets()


@pytest.fixture
def world(
    flinkish: Flinkish, tmp_path: Path, moto_s3: S3Server, hdfs: HdfsServer, clients: Any
) -> World:
    clients(moto_s3, hdfs)
    return World(flinkish, tmp_path, moto_s3, hdfs)


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make the tests' own storage calls reach these servers."""
    contexts = []

    def point(s3: S3Server | None, hdfs: HdfsServer | None) -> None:
        if s3 is not None:
            context = s3.configured()
            context.__enter__()
            contexts.append(context)
        for name, value in (hdfs.environment() if hdfs is not None else {}).items():
            monkeypatch.setenv(name, value)
        forget_stores()

    yield point
    for context in reversed(contexts):
        context.__exit__(None, None, None)
    forget_stores()


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_a_job_goes_from_storage_to_storage(world: World) -> None:
    journey(world, SHORT, {"s3": "s3a"})


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_canonical_savepoints_go_from_storage_to_storage(world: World) -> None:
    words = ("-type", "canonical", "--timeout", "290s")
    journey(world, SHORT, stop=words, again=("-p", "3"))
    for place in ("s3", "local"):
        left = storage.list_names(f"{world.places[place]}/savepoints")
        assert [name.startswith("savepoint-") for name in left] in ([], [True])


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("server", ["moto_s3", "second_s3"])
def test_a_job_goes_from_each_storage_to_each_other(
    server: str,
    flinkish: Flinkish,
    tmp_path: Path,
    hdfs: HdfsServer,
    clients: Any,
    request: pytest.FixtureRequest,
) -> None:
    s3 = request.getfixturevalue(server)
    clients(s3, hdfs)
    stations = [*ROUND, *ROUND, ROUND[0]]
    pairs = list(itertools.pairwise(stations))
    kinds = list(itertools.product(sorted(set(ROUND)), repeat=2))
    assert sorted(pairs[::2]) == sorted(pairs[1::2]) == kinds, "each pair once in each role"
    journey(World(flinkish, tmp_path, s3, hdfs), stations)


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_a_storage_that_refuses_leaves_the_job_alone(
    flinkish: Flinkish, tmp_path: Path, moto_s3: S3Server, hdfs: HdfsServer
) -> None:
    """A server that is gone, a bucket that is none, a directory of somebody else."""
    with delayed(moto_s3, 0.0, tmp_path) as server:
        flinkish.environ.update(server.environment())
        flinkish.environ["HADOOP_USER_NAME"] = "somebody-else"
        job = flinkish.run("rate.py")
        flinkish.wait_for_batch(job, 0)

        def refused(command: str, target: str) -> str:
            options = ("-p", target, job) if command == "stop" else (job, target)
            result = flinkish(command, *options, "--json")
            assert result.code == 16, (result.out, result.err)
            said = result.error()
            assert said["id"] == StorageError.id
            assert target in said["message"], said
            assert len(said["message"]) < 400
            assert "\n" not in said["message"]
            assert SECRET_KEY not in result.err + result.out
            assert flinkish.job(job)["state"] == "RUNNING"
            return str(said["message"])

        for command in ("savepoint", "stop"):
            refused(command, f"s3://none-{uuid.uuid4().hex}/savepoints")
            assert "ermission" in refused(command, f"{hdfs.url}/denied")
        refused("savepoint", f"hdfs://127.0.0.1:{free_port()}/savepoints")
    for command in ("savepoint", "stop"):
        refused(command, "s3://gone/savepoints")
    batch = flinkish.job(job)["queries"][0]["batch_id"]
    flinkish.wait_for_batch(job, batch + 1)
    log = (tmp_path / "state/flinkish/logs" / f"{job}.log").read_text()
    assert SECRET_KEY not in log
    assert "Traceback" not in log, "a storage's refusal is no accident of ours"
    flinkish.ok("stop", "-p", str(tmp_path / "savepoints"), job)


def test_a_wrong_key_is_refused_in_one_line(flinkish: Flinkish, second_s3: S3Server) -> None:
    wrong = replace(second_s3, secret_key="flinkish-wrong-key-for-tests")
    flinkish.environ.update(wrong.environment())
    result = flinkish("savepoint", "list", "s3://any/savepoints", "--json")
    assert result.code == 16, (result.out, result.err)
    assert "s3://any/savepoints" in result.error()["message"]
    assert wrong.secret_key not in result.err


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_a_claimed_savepoint_outlives_a_killed_driver(
    flinkish: Flinkish, tmp_path: Path, moto_s3: S3Server, clients: Any
) -> None:
    """Killed when one of its queries has committed and the other has not: nothing may be gone."""
    clients(moto_s3, None)
    flinkish.environ.update(moto_s3.environment())
    bucket = moto_s3.create_bucket(f"claimed-{uuid.uuid4().hex[:8]}")
    source, out = tmp_path / "in", tmp_path / "out"
    program = ("stored.py", str(source), str(out))
    write_input(source, 0, 1)
    job = flinkish.run(*program)
    wait_for_output(out, 0)
    savepoint = flinkish.ok("stop", "-q", "-p", f"{bucket}/s", job).out.strip()
    before = dict(storage.walk_files(savepoint))

    write_input(source, 1, 2)
    (out / "pairs" / "hold").touch()
    claim = ("-s", savepoint, "-cm", "claim")
    job = flinkish.run(*program, options=claim)
    begun = flinkish.wait(job, lambda r: batch_of(r, "counts") > 0)["heartbeat"]
    # The driver decides on the claim with its heartbeats: two more, one of them whole.
    later = flinkish.wait(job, lambda r: r["heartbeat"] > begun)["heartbeat"]
    flinkish.wait(job, lambda r: r["heartbeat"] > later)
    for pid in processes_of(job).values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    flinkish.wait(job, lambda record: record["state"] == "FAILED")
    assert dict(storage.walk_files(savepoint)) == before
    flinkish.ok("savepoint", "verify", savepoint)

    (out / "pairs" / "hold").unlink()
    job = flinkish.run(*program, options=claim)
    wait_for_output(out, 1)
    wait_until(lambda: not storage.exists(savepoint))
    flinkish.ok("cancel", job)
    assert put_out(out) == expected(2)
