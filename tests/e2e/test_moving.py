"""A job that moves to another store, with its savepoint and its input.

The way of ``docs/moving-to-another-cluster.md``.
"""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path

import pytest

from flinkish import storage
from tests.e2e.test_lifecycle import expected_counts, final_counts, write_files
from tests.support.cli.command import PATIENCE, Flinkish
from tests.support.savepoint.places import place, put_tree
from tests.support.servers.jars import Unavailable, spark_s3_jars
from tests.support.servers.s3 import S3Server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.servers,
    pytest.mark.deep,
    pytest.mark.timeout(1200),
]


def test_from_one_s3_to_another(
    flinkish: Flinkish, tmp_path: Path, moto_s3: S3Server, second_s3: S3Server
) -> None:
    try:
        jars = spark_s3_jars()
    except Unavailable as why:
        pytest.skip(f"needs the jars of S3A for Spark: {why}")
    name = uuid.uuid4().hex[:12]
    old, new = f"old-{name}", f"new-{name}"
    files, out = tmp_path / "files", str(tmp_path / "out")
    write_files(files, 0, 4)
    with moto_s3.configured(), second_s3.configured_for(new) as there:
        here = moto_s3.create_bucket(old)
        put_tree(files, f"{here}/in")
        options = (
            f"--classpath={','.join(str(jar) for jar in jars)}",
            *(f"--conf={k}={v}" for k, v in moto_s3.spark_settings().items()),
            *(f"--conf={k}={v}" for k, v in second_s3.spark_settings(new).items()),
        )
        bucket = {
            "endpoint_url": second_s3.endpoint,
            "key": second_s3.access_key,
            "secret": second_s3.secret_key,
        }
        flinkish.environ.update(moto_s3.environment())
        flinkish.environ["FSSPEC_FLINKISH"] = json.dumps({there: bucket})

        checkpoints = ("-D", f"execution.checkpointing.dir={here}/checkpoints")
        job = flinkish.run("counts.py", f"s3a://{old}/in", out, options=(*options, *checkpoints))
        flinkish.wait_for_batch(job, 3, PATIENCE)
        stopped = flinkish.ok("stop", job, "-p", f"{here}/savepoints", "--json").json()
        path = stopped["savepoint"]["path"]
        copied = flinkish.ok("savepoint", "copy", path, f"{there}/savepoints", "--json").json()
        assert copied["copy"]["sent_files"] == copied["copy"]["files"] > 10
        assert flinkish.ok("savepoint", "verify", copied["copy"]["path"]).code == 0

        # The old store is left: nothing of it is needed any more.
        put_tree(files, f"{there}/in")
        for directory in ("in", "savepoints", "checkpoints"):
            storage.remove_tree(here, directory)
        write_files(files, 4, 6)
        put_tree(files, f"{there}/in")
        program = (str(Path(__file__).parent / "programs/counts.py"), f"s3a://{new}/in", out)
        restore = ("-s", copied["copy"]["path"], *options)
        refused = flinkish("check", *restore, "-m", "local[2]", *program, "--now")
        assert refused.code == 5
        assert "--set-offsets" in refused.out + refused.err
        mapped = (*restore, "--map-path", f"s3a://{old}/in=s3a://{new}/in")
        flinkish.ok("check", *mapped, "-m", "local[2]", *program)
        checkpoints = ("-D", f"execution.checkpointing.dir={there}/checkpoints")
        moved = flinkish.run("counts.py", *program[1:], "--now", options=(*mapped, *checkpoints))
        flinkish.ok("wait", moved, "--for", "ended", "--timeout", str(PATIENCE))
        assert final_counts(tmp_path / "out") == expected_counts(6)
        assert storage.list_names(here) == []


@pytest.mark.parametrize("server", ["gcs_server", "azure_server"])
def test_through_a_cloud_to_another_machine(
    flinkish: Flinkish, tmp_path: Path, server: str, request: pytest.FixtureRequest
) -> None:
    """The savepoint goes by the cloud's store; nothing stays where the job ran before."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    write_files(old / "in", 0, 4)
    with place(server, request, tmp_path) as there:
        flinkish.environ.update(request.getfixturevalue(server).environment())
        checkpoints = ("-D", f"execution.checkpointing.dir={old}/checkpoints")
        job = flinkish.run("counts.py", str(old / "in"), str(old / "out"), options=checkpoints)
        flinkish.wait_for_batch(job, 3, PATIENCE)
        stopped = flinkish.ok("stop", job, "-p", str(old / "savepoints"), "--json").json()
        copied = flinkish.ok("savepoint", "copy", stopped["savepoint"]["path"], there, "--json")
        copy = copied.json()["copy"]
        assert copy["sent_files"] == copy["files"] > 10
        again = flinkish.ok("savepoint", "copy", stopped["savepoint"]["path"], there, "--json")
        assert again.json()["copy"]["sent_files"] == 0
        assert flinkish.ok("savepoint", "verify", copy["path"]).code == 0

        shutil.move(old / "in", new / "in")
        shutil.move(old / "out", new / "out")
        shutil.rmtree(old)
        write_files(new / "in", 4, 6)
        mapped = ("-s", copy["path"], "--map-path", f"{old}/in={new}/in")
        program = (str(new / "in"), str(new / "out"))
        checkpoints = ("-D", f"execution.checkpointing.dir={new}/checkpoints")
        moved = flinkish.run("counts.py", *program, "--now", options=(*mapped, *checkpoints))
        flinkish.ok("wait", moved, "--for", "ended", "--timeout", str(PATIENCE))
        assert final_counts(new / "out") == expected_counts(6)
        # What the job saves from now on goes to the cloud by itself.
        later = flinkish.run(
            "counts.py",
            *program,
            options=("-s", copy["path"], "--map-path", f"{old}/in={new}/in", *checkpoints),
        )
        flinkish.wait_for_batch(later, 4, PATIENCE)
        saved = flinkish.ok("cancel", "-s", there, later, "--json").json()["savepoint"]
        assert saved["path"].startswith(there.split(":")[0])
        assert flinkish.ok("savepoint", "verify", saved["path"]).code == 0
