"""The file that brings a job to a driver in cluster mode: what is in it, and that it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import pytest

from flinkish.driver import carried
from flinkish.errors import LaunchFailed, StorageError, UsageError
from flinkish.launch.carried_job import JAR, PARAMETERS, archive, carried_job
from flinkish.launch.launcher import new_job
from flinkish.messages.launch import Launch, Secrets
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState

PROGRAM = """\
import json, os, sys
import beside, flinkish, fsspec
print(json.dumps([sys.argv[1:], flinkish.__file__, beside.NAME, os.environ.get("FLINKISH_X")]))
"""
CLUSTER = {"spark.submit.deployMode": "cluster"}


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    (tmp_path / "app.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("NAME = 'imported'\n")
    return Launch(
        str(tmp_path / "app.py"),
        master="spark://h:7077",
        arguments=("a", "b c"),
        py_files=(str(tmp_path / "beside.py"),),
        conf=CLUSTER,
    )


def job_of(launch: Launch, tmp_path: Path) -> JobRecord:
    return new_job("n", launch, checkpoints=str(tmp_path / "cp"), environ={}, now=0.0)


def test_a_standalone_cluster_gets_a_jar_beside_the_checkpoints(
    launch: Launch, tmp_path: Path
) -> None:
    job = job_of(launch, tmp_path)
    secret = Secrets({"spark.x.password": "hush"}, ("a", "--password=hush"))
    with carried_job(job, launch, "postgresql://me:pw@h/d", secret, None) as url:
        assert url.startswith((f"file:{tmp_path}/cp/.launch-", f"file://{tmp_path}/cp/.launch-"))
        path = Path(url.removeprefix("file:").replace("//", "/"))
        assert path.name == JAR
        assert path.stat().st_mode & 0o007 == 0
        assert path.parent.stat().st_mode & 0o007 == 0
        with zipfile.ZipFile(path) as source:
            document = json.loads(source.read(PARAMETERS))
            names = source.namelist()
    assert not path.parent.exists()
    assert document["arguments"] == ["a", "--password=hush"]
    assert document["conf"] == {"spark.x.password": "hush"}
    assert document["environment"]["FLINKISH_REGISTRY"] == "postgresql://me:pw@h/d"
    assert "home/flinkish/driver/bootstrap.py" in names
    assert "packages/fastavro/__init__.py" in names
    assert not [name for name in names if "__pycache__" in name]


def packages(launch: Launch, checkpoints: str) -> set[str]:
    job = new_job("n", launch, checkpoints=checkpoints, environ={}, now=0.0)
    with zipfile.ZipFile(BytesIO(archive(job, launch, "u", Secrets(), None))) as source:
        names = [name.split("/") for name in source.namelist()]
    return {name[1] for name in names if name[0] == "packages"}


def test_storages_come_with_what_they_need(launch: Launch, tmp_path: Path) -> None:
    """Packages of packages too: for S3 those of s3fs."""
    plain = packages(launch, str(tmp_path))
    assert {"fsspec", "fastavro", "psycopg", "psycopg_binary"} <= plain
    assert "botocore" not in plain
    s3 = packages(launch, "s3://bucket/checkpoints")
    assert {"s3fs", "aiobotocore", "botocore", "urllib3"} <= s3
    assert "hdfs_native" in packages(launch, "hdfs://host/checkpoints")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("place", "extra", "needed"),
    [
        ("gs://bucket/checkpoints", "gcs", {"gcsfs", "google", "aiohttp"}),
        ("abfss://c@a.dfs.core.windows.net/checkpoints", "azure", {"adlfs", "azure", "aiohttp"}),
    ],
)
def test_those_of_google_and_azure_too(
    launch: Launch, place: str, extra: str, needed: set[str]
) -> None:
    if find_spec(min(needed - {"aiohttp", "google", "azure"})) is None:
        pytest.skip(f"needs the extra {extra} (pip install 'flinkish[{extra}]')")
    assert needed <= packages(launch, place)


def test_yarn_gets_a_program_of_this_user_alone(launch: Launch, tmp_path: Path) -> None:
    launch = replace(launch, master="yarn")
    with carried_job(job_of(launch, tmp_path), launch, "u", Secrets(), str(tmp_path)) as where:
        assert where.endswith(".py")
        assert os.stat(where).st_mode & 0o077 == 0
    assert not os.path.exists(where)


def test_it_runs_where_nothing_else_is(launch: Launch, tmp_path: Path) -> None:
    """The cluster manager's part: put it into a directory, run it there with Python."""
    url = f"sqlite:///{tmp_path}/registry.db"
    node = tmp_path / "node"
    node.mkdir()
    with Registry.open(url) as registry:
        job = job_of(launch, tmp_path)
        registry.add_job(job)
        with carried_job(job, launch, url, Secrets(), None) as where:
            jar = Path(where.removeprefix("file:").replace("//", "/"))
            (node / JAR).write_bytes(jar.read_bytes())
            # Without a JVM the settings cannot be set: a program that needs no Spark needs none.
            environ = {"PATH": os.environ["PATH"], "HOME": str(node)}
            document = _without_settings(node / JAR)
            done = subprocess.run(
                [sys.executable, JAR], cwd=node, env=environ, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
            assert not jar.exists()  # the driver has removed it
        arguments, package, imported, _ = json.loads(done.stdout.strip().splitlines()[-1])
        assert arguments == ["a", "b c"]
        assert package.startswith(f"{node}/flinkish-")
        assert imported == "imported"
        assert not (node / JAR).exists()
        assert [path.stat().st_mode & 0o077 for path in node.iterdir()] == [0]
        assert document["environment"]["FLINKISH_JOB_ID"] == job.job_id
        assert registry.job(job.job_id).state is JobState.FINISHED


def _without_settings(path: Path) -> dict[str, dict[str, str]]:
    """Leave out Spark's settings, and return the parameters."""
    with zipfile.ZipFile(path) as source:
        files = {name: source.read(name) for name in source.namelist()}
    document: dict[str, dict[str, str]] = json.loads(files[PARAMETERS])
    del document["conf"]
    files[PARAMETERS] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as target:
        for name, data in files.items():
            target.writestr(name, data)
    return document


def test_files_of_a_reproducible_image_are_brought(launch: Launch, tmp_path: Path) -> None:
    """They are dated 1970."""
    for path in (str(launch.application), *launch.py_files):
        os.utime(path, (0, 0))
    data = archive(job_of(launch, tmp_path), launch, "u", Secrets(), None)
    with zipfile.ZipFile(BytesIO(data)) as source:
        assert {"program/app.py", "files/beside.py"} <= set(source.namelist())


def test_a_store_that_is_down_at_the_end_hides_no_other_error(
    launch: Launch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It would also end the supervisor, which could not record how the driver ended."""

    def down(_location: str) -> None:
        raise StorageError("the bucket is not reachable")

    monkeypatch.setattr("flinkish.launch.carried_job.remove", down)
    with carried_job(job_of(launch, tmp_path), launch, "u", Secrets(), None):
        pass
    assert "could not be removed: the bucket is not reachable" in capsys.readouterr().err
    missing = replace(launch, py_files=(str(tmp_path / "missing.py"),))
    with (
        pytest.raises(UsageError, match="missing"),
        carried_job(job_of(launch, tmp_path), missing, "u", Secrets(), None),
    ):
        pass


def test_both_ends_agree() -> None:
    assert carried.PARAMETERS == PARAMETERS


def test_a_file_for_imports_that_is_not_here(launch: Launch, tmp_path: Path) -> None:
    launch = replace(launch, py_files=("s3://b/lib.zip",))
    with (
        pytest.raises(UsageError, match=r"s3://b/lib.zip"),
        carried_job(job_of(launch, tmp_path), launch, "u", Secrets(), None),
    ):
        pass


def test_a_program_that_was_deleted(launch: Launch, tmp_path: Path) -> None:
    """The place for the file is not to blame."""
    os.unlink(str(launch.application))
    with (
        pytest.raises(LaunchFailed, match=r"could not be made: .*app\.py") as failed,
        carried_job(job_of(launch, tmp_path), launch, "u", Secrets(), None),
    ):
        pass
    assert "written" not in failed.value.hint


def test_a_place_that_cannot_be_written(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "cp").write_text("a file")
    with (
        pytest.raises(LaunchFailed, match="could not be written"),
        carried_job(job_of(launch, tmp_path), launch, "u", Secrets(), None),
    ):
        pass
