"""Restoring a changed program from the command line: refused, agreed to, renamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_lifecycle import write_files
from tests.support.cli.command import LIGHT, Flinkish

pytestmark = [pytest.mark.spark, pytest.mark.deep]


def test_state_that_nobody_takes(flinkish: Flinkish, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "savepoints"
    write_files(source, 0, 2)
    job = flinkish.run("seen.py", str(source))
    flinkish.wait_for_batch(job, 0)
    path = flinkish.ok("stop", job, "-p", str(target), "-q").out.strip()
    shown = flinkish.ok("savepoint", "show", path, "--json").json()["savepoint"]
    operators = {op["uid"]: op for op in shown["queries"][0]["operators"]}
    assert operators["seen"]["operator_id_v2"] == operators["seen"]["operator_id_v3"]

    program = str(Path(__file__).parent / "programs" / "seen.py")
    options = ("-m", "local[2]", *LIGHT, "-s", path)
    refused = flinkish("run", "-d", "--json", *options, program, str(source), "--no-dedup")
    assert refused.code == 5
    error = refused.error()
    assert error["id"] == "non-restored-state"
    for fact in ("uid 'seen'", "dedupe", "200 rows", "KiB", "-n"):
        assert fact in error["message"] + error["hint"]

    agreed = flinkish.ok("run", "-d", "-n", *options, program, str(source), "--no-dedup")
    assert "state dropped (-n): uid 'seen' (dedupe, 200 rows" in agreed.err
    first = agreed.out.split()[-1]
    flinkish.ok("cancel", first)

    renamed = (program, str(source), "--uid", "users")
    unknown = flinkish("run", "-d", *options, "--uid-map", "sen=users", *renamed)
    assert unknown.code == 2
    assert "seen" in unknown.err
    mapped = flinkish.ok("run", "-d", "--json", *options, "--uid-map", "seen=users", *renamed)
    second = mapped.json()["job_id"]
    status = flinkish.wait_for_batch(second, 0)
    uids = {op["kind"]: op["uid"] for op in status["queries"][0]["operators"]}
    assert uids == {"stateStoreSave": "counts", "dedupe": "users"}
    flinkish.ok("cancel", second)
