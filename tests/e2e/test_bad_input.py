"""Bad input: its exit code, a message that says what to do, and nothing lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish
from tests.support.disks import tmpfs

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flinkish]:
    command = Flinkish(tmp_path_factory.mktemp("shared"))
    yield command
    command.clean_up()


@pytest.fixture(scope="module")
def job(shared: Flinkish) -> str:
    """One live job for all tests of this module: none of them may hurt it."""
    started = shared.run("rate.py", options=("--name", "alive"))
    shared.wait_for_batch(started, 0)
    return started


@pytest.fixture(scope="module")
def savepoint(shared: Flinkish, job: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("savepoints")
    path = shared.ok("savepoint", "-q", job, str(target)).out.strip()
    return Path(path.removeprefix("file:"))


def assert_alive(shared: Flinkish, job: str) -> None:
    """Still RUNNING, and batches go on."""
    record = shared.job(job)
    assert record["state"] == "RUNNING"
    shared.wait_for_batch(job, record["queries"][0]["batch_id"] + 1)


def expect(shared: Flinkish, code: int, id_: str, words: list[str], *args: str) -> None:
    """The call fails with this exit code, as text and as JSON, and says what to do."""
    plain = shared(*args)
    assert plain.code == code, plain.err
    for word in words:
        assert word in plain.err
    assert "Traceback" not in plain.err
    assert plain.out == ""
    error = shared(*args, "--json").error() if "run" not in args else None
    if error is not None:
        assert (error["id"], error["code"]) == (id_, code)
        assert error["hint"]


@pytest.mark.deep
def test_unknown_job(shared: Flinkish, job: str) -> None:
    for command in (["savepoint", "-q"], ["stop"], ["cancel"], ["status"], ["logs"]):
        expect(shared, 10, "job-not-found", ["flinkish list"], *command, "no-such-job")


@pytest.mark.deep
def test_target_not_writable(shared: Flinkish, job: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    target = str(tmp_path / "file" / "savepoints")
    expect(shared, 16, "storage", [target], "savepoint", job, target)
    expect(shared, 16, "storage", [target], "stop", job, "-p", target)
    expect(shared, 16, "storage", [target], "cancel", "-s", target, job)
    assert_alive(shared, job)


@pytest.mark.deep
def test_no_target_and_no_default(shared: Flinkish, job: str) -> None:
    key = "execution.checkpointing.savepoint-dir"
    expect(shared, 2, "no-savepoint-directory", [key], "savepoint", job)
    expect(shared, 2, "no-savepoint-directory", [key], "stop", job)
    expect(shared, 2, "no-savepoint-directory", [key], "cancel", "-s", job)
    assert_alive(shared, job)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a few files."""
    with tmpfs(tmp_path / "small", "16k") as mount:
        yield mount


@pytest.mark.deep
def test_disk_full(shared: Flinkish, job: str, small_disk: Path) -> None:
    expect(shared, 16, "storage", ["disk full"], "savepoint", job, str(small_disk))
    expect(shared, 16, "storage", ["disk full"], "stop", job, "-p", str(small_disk))
    assert list(small_disk.iterdir()) == [], "nothing half-written stays"
    assert_alive(shared, job)


def test_path_that_is_no_savepoint(shared: Flinkish, tmp_path: Path) -> None:
    program = str(PROGRAMS / "rate.py")
    for path in (str(tmp_path), str(tmp_path / "missing")):
        for command in (
            ["run", "-d", "-s", path, program],
            ["savepoint", "show", path],
            ["savepoint", "-d", path, "--yes"],
        ):
            expect(shared, 11, "savepoint-not-found", [path], *command)
    assert tmp_path.is_dir()


@pytest.mark.deep
def test_truncated_metadata_and_missing_data(
    shared: Flinkish, savepoint: Path, tmp_path: Path
) -> None:
    program = str(PROGRAMS / "rate.py")
    copy = tmp_path / "copy"
    shutil.copytree(savepoint, copy)
    victim = next(p for p in copy.rglob("*.delta"))
    victim.unlink()
    expect(shared, 15, "corrupt", [victim.name], "run", "-d", "-s", str(copy), program)
    data = (savepoint / "_metadata").read_bytes()
    (copy / "_metadata").write_bytes(data[: len(data) // 2])
    for command in (["run", "-d", "-s", str(copy), program], ["savepoint", "show", str(copy)]):
        expect(shared, 15, "corrupt", ["_metadata"], *command)


def test_program_file_missing(shared: Flinkish, tmp_path: Path) -> None:
    path = str(tmp_path / "nothing.py")
    expect(shared, 2, "usage", [path], "run", "-d", path)


def test_dash_n_without_dash_s(shared: Flinkish) -> None:
    expect(shared, 2, "usage", ["-s"], "run", "-n", str(PROGRAMS / "rate.py"))


@pytest.mark.deep
def test_finished_and_ambiguous_jobs(shared: Flinkish, job: str, tmp_path: Path) -> None:
    # Names that programs get from their files may be those of other jobs.
    namesake = shutil.copy(PROGRAMS / "rate.py", tmp_path / "alive.py")
    other = shared.run(str(namesake))
    expect(shared, 2, "ambiguous-job", [job, other], "stop", "alive", "-p", str(tmp_path))
    shared.ok("cancel", other)
    # Its savepoint can still be had (test_dead_jobs); it cannot be stopped once more.
    expect(shared, 13, "wrong-state", ["CANCELED"], "stop", other, "-p", str(tmp_path))
    expect(shared, 13, "wrong-state", ["CANCELED"], "cancel", other)


def test_no_java(shared: Flinkish, tmp_path: Path) -> None:
    result = shared(
        "run",
        "-d",
        *LIGHT,
        str(PROGRAMS / "rate.py"),
        JAVA_HOME=str(tmp_path),
        PATH=str(tmp_path),
    )
    assert result.code == 1
    assert "Java 17" in result.err
