"""Commands on savepoints that lie on disk: show, dispose, and what ``run -s`` checks first."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.requests import SavepointSummary
from flinkish.messages.restore_options import RestoreOptions
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.cli.conftest import ROOT, Command
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.terminal import answer


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    CheckpointLikeness(tmp_path / "checkpoint", backend="rocksdb").run_to(4)
    return tmp_path / "checkpoint"


@pytest.fixture
def saved(tmp_path: Path, checkpoint: Path) -> SavepointSummary:
    source = QuerySource(
        "counts", str(checkpoint), run_id="r", source=[], sink={"format": "parquet"}, operators=()
    )
    return write_savepoint(
        str(tmp_path / "savepoints"),
        SavepointJob("0123456789abcdef" * 2, "flights", spark_version="4.3.0"),
        [source],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    )


def test_show(cli: Command, saved: SavepointSummary) -> None:
    document = cli.ok("savepoint", "show", saved.path, "--json").json()["savepoint"]
    assert document["path"] == saved.path
    assert document["queries"][0]["name"] == "counts"
    assert document["queries"][0]["batch_id"] == saved.queries[0].batch_id
    text = cli.ok("savepoint", "show", os.path.relpath(saved.path) + "/_metadata").out
    for words in ("flights", "counts", "Spark 4.3.0", "ORDINAL", "OPERATOR ID"):
        assert words in text
    assert cli.ok("savepoint", "show", "file:" + saved.path, "-q").out == saved.path + "\n"


def test_copy(cli: Command, saved: SavepointSummary, tmp_path: Path) -> None:
    target = str(tmp_path / "backup")
    command = ("savepoint", "copy", saved.path, target)
    place = f"{target}/{Path(saved.path).name}"
    planned = cli.ok(*command, "--dry-run", "--json").json()
    assert planned["dry_run"] is True
    assert planned["copy"]["sent_files"] == saved.files
    assert not os.path.exists(target)
    copied = cli.ok(*command, "--json").json()["copy"]
    assert copied.pop("duration") >= 0
    assert copied == {
        "path": place,
        "source": saved.path,
        "files": saved.files,
        "bytes": saved.bytes,
        "sent_files": saved.files,
        "sent_bytes": saved.bytes,
        "present_files": 0,
        "reused_files": 0,
    }
    assert cli.ok("savepoint", "list", "-q").out == f"{place}\n", "the registry knows the copy"
    assert cli.ok(*command).out == f"'{place}' is a complete copy already.\n"
    assert cli.ok("savepoint", "verify", place).out.startswith(f"Savepoint '{place}' is intact")
    assert cli.ok(*command, "-q").out == f"{place}\n"
    assert "name another TARGET" in cli(*command[:3], str(tmp_path / "savepoints")).err
    assert "Not checked" not in (again := cli.ok(*command, "--dry-run")).out + again.err
    try:
        cli.ok(*command[:3], "memory://copies")
        again = cli.ok(*command[:3], "memory://copies", "--dry-run")
    finally:
        storage.remove_tree("memory://copies", Path(saved.path).name)
    assert "Not checked: whether TARGET is the source's own directory" in again.out + again.err


def test_dispose_needs_consent(cli: Command, saved: SavepointSummary) -> None:
    refused = cli("savepoint", "-d", saved.path, "--json")
    assert refused.code == 5
    assert refused.error()["id"] == "consent-needed"
    planned = cli.ok("savepoint", "-d", saved.path, "--dry-run", "--json").json()
    assert planned["disposed"] is False
    assert planned["files"] > 1
    assert Path(saved.path, "_metadata").exists()


def test_dispose_keeps_foreign_files_and_tells_the_registry(
    cli: Command, saved: SavepointSummary
) -> None:
    from flinkish.messages.requests import SavepointSummary

    cli.ok("list")
    with cli.registry() as registry:
        registry.add_savepoint(
            SavepointSummary(saved.path, saved.job_id, saved.created, "native", 1, 1, 0.1)
        )
    Path(saved.path, "mine.txt").write_text("keep")
    result = cli.ok("savepoint", "--dispose", f"{saved.path}/_metadata/", "--yes")
    assert result.out == f"Savepoint '{saved.path}/_metadata/' disposed.\n"
    assert "mine.txt" in result.err
    assert os.listdir(saved.path) == ["mine.txt"]
    with cli.registry() as registry:
        assert registry.savepoints() == []
        assert registry.savepoints(include_disposed=True)[0].disposed is not None
    assert cli("savepoint", "-d", saved.path, "--yes").code == 11


def test_dispose_asks_on_a_terminal(cli: Command, saved: SavepointSummary) -> None:
    command = [sys.executable, "-m", "flinkish", "savepoint", "-d", saved.path]
    question = r"Delete the savepoint .*\[y/N\] "
    for reply, code in (("n", 5), ("y", 0)):
        assert os.path.exists(saved.path)
        assert answer(command, {"PYTHONPATH": str(ROOT)}, question, reply) == code
    assert not os.path.exists(saved.path)


def restored(cli: Command, *options: str) -> RestoreSpec:
    """The restore of the launch that ``run OPTIONS`` registers."""
    words = cli.run_words("silent", "-d", "--no-wait", "-q", *options)
    job_id = cli.ok(*words).out.strip()
    with cli.registry() as registry:
        restore = registry.job(job_id).launch.restore
    assert restore is not None
    return restore


def test_run_restores_from_any_spelling_of_the_path(
    cli: Command, saved: SavepointSummary, checkpoint: Path
) -> None:
    plain = RestoreSpec(saved.path, RestoreOptions(claim_mode="no_claim"))
    assert restored(cli, "-s", os.path.relpath(saved.path)) == plain
    assert restored(cli, "--fromSavepoint", f"file://{saved.path}") == plain
    assert restored(cli, f"-Dexecution.savepoint.path={saved.path}") == plain
    claimed = RestoreOptions(allow_non_restored=True, claim_mode="claim", fork=True)
    assert restored(cli, "-s", saved.path, "-n", "-cm", "CLAIM", "--fork") == RestoreSpec(
        saved.path, claimed
    )
    words = ("-p", "7", "--reset-source", "a", "--sink-ahead", "rebase")
    options = replace(plain.options, reset_sources=("a",), sink_ahead="rebase")
    assert restored(cli, "-s", saved.path, *words) == RestoreSpec(saved.path, options, 7)
    assert restored(cli, "-s", str(checkpoint)).path == str(checkpoint)


def test_run_checks_the_savepoint_before_it_launches(
    cli: Command, saved: SavepointSummary, tmp_path: Path
) -> None:
    victim = next(
        path for path in sorted(Path(saved.path).rglob("*")) if path.name.endswith(".zip")
    )
    victim.unlink()
    error = cli("run", "--json", "--spark-home", "spark", "-s", saved.path, "app.py").error()
    assert (error["id"], error["code"]) == ("corrupt", 15)
    assert victim.name in error["message"]
    metadata = Path(saved.path, "_metadata")
    metadata.write_bytes(metadata.read_bytes()[:100])
    assert cli("run", "--spark-home", "spark", "-s", saved.path, "app.py").code == 15
    shutil.rmtree(saved.path)
    assert cli("run", "--spark-home", "spark", "-s", saved.path, "app.py").code == 11
    assert cli.ok("list", "-a", "-q").out == ""
    assert not (tmp_path / "state/flinkish/logs").exists()


def test_run_options_become_a_launch(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "lib.py").touch()
    (tmp_path / "flinkish.toml").write_text('"spark.from.file" = "1"\n')
    words = [
        *("-m", "local[2]", "-p", "3", "--name", "n", "--conf", "spark.a=b=c"),
        *("-Dspark.b=d", "-D", "spark.a=loses", "-pyfs", "lib.py,s3://x/y.zip"),
        *("-pyarch", "env.zip#env", "-C", "file:///x.jar", "--packages", "o:n:1,o:m:2"),
    ]
    job_id = cli.ok(*cli.run_words("silent", "-d", "--no-wait", "-q", *words)).out.strip()
    with cli.registry() as registry:
        job = registry.job(job_id)
    launch = job.launch
    assert job.name == "n"
    assert job.checkpoint_dir == str(tmp_path / "state/flinkish/checkpoints" / job_id)
    assert launch.application == str(tmp_path / "app.py")
    assert launch.arguments == ("silent",)
    assert launch.master == "local[2]"
    assert launch.conf == {
        "spark.a": "b=c",
        "spark.b": "d",
        "spark.from.file": "1",
        "spark.sql.shuffle.partitions": "3",
    }
    assert launch.py_files == (str(tmp_path / "lib.py"), "s3://x/y.zip")
    assert launch.archives == ("env.zip#env",)
    assert launch.jars == ("file:///x.jar",)
    assert launch.packages == ("o:n:1", "o:m:2")
    assert launch.working_directory == str(tmp_path)
    assert launch.options["parallelism.default"] == "3"
    assert "registry.url" not in launch.options


def test_modules_and_py(cli: Command) -> None:
    spark = ["--spark-home", str(cli.spark_home)]
    module = cli.ok("run", *spark, "-d", "-q", "-pym", "jobs.flights", "serve", "-x").out.strip()
    assert cli.status(module)["name"] == "flights"
    assert "arguments: --module jobs.flights serve -x" in cli.ok("logs", module).out
    file = cli.ok("run", *spark, "-dq", "-py", str(cli.program), "serve", "-x").out.strip()
    assert f"arguments: {cli.program} serve -x" in cli.ok("logs", file).out
