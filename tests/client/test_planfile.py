"""Saved plans: written whole, read strictly, bound to what they were made of."""

from __future__ import annotations

import json
import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish import Client
from flinkish.client.planfile import (
    PlanFile,
    bound_file,
    check_unchanged,
    load,
    program_digest,
    save,
)
from flinkish.client.submission import RunRequest, planned, prepare
from flinkish.config.secrets import MASK
from flinkish.errors import ConsentNeeded, Incompatible, SavepointNotFound, StorageError, UsageError
from flinkish.messages.launch import Launch, Program, RestoreSpec
from flinkish.messages.plan import QueryRow, RestorePlan
from flinkish.messages.restore_options import RestoreOptions
from tests.cli.conftest import Command
from tests.support.savepoint.small_savepoints import make_savepoint

PLAN = RestorePlan(savepoint="/sp", queries=(QueryRow("q", origin="q"),), complete=True)


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    app = tmp_path / "app.py"
    app.write_text("print()")
    return Launch(str(app), arguments=("a", "b"))


@pytest.fixture
def plan(tmp_path: Path, launch: Launch) -> PlanFile:
    """Of a savepoint whose metadata nobody opens here: only its digest counts."""
    (tmp_path / "sp").mkdir()
    (tmp_path / "sp" / "_metadata").write_bytes(b"sealed")
    spec = RestoreSpec(
        str(tmp_path / "sp"),
        RestoreOptions(
            allow_non_restored=True,
            uid_map=(("a", "b"),),
            reset_sources=("s",),
            set_offsets=(("in", "earliest"),),
        ),
        parallelism=3,
    )
    return bound_file(spec, launch, "4.3.0")(PLAN)


def test_a_plan_comes_back_as_it_was_saved(
    plan: PlanFile, launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(plan, "plan.json")
    found = load(str(tmp_path / "plan.json"))
    check_unchanged(found, launch, "4.3.0")
    spec = found.restore_spec("claim")
    assert spec == RestoreSpec(
        plan.savepoint,
        RestoreOptions(
            allow_non_restored=True,
            claim_mode="claim",
            uid_map=(("a", "b"),),
            reset_sources=("s",),
            set_offsets=(("in", "earliest"),),
        ),
        parallelism=3,
        expected=PLAN,
    )
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_pipe_is_written_to_and_not_replaced(plan: PlanFile, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        save(plan, str(pipe))
        assert json.loads(read.result(10))["savepoint"] == plan.savepoint
    assert pipe.is_fifo()


def test_a_place_that_takes_no_file_is_a_storage_error(plan: PlanFile, tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "plan.json", tmp_path, Path("/dev/full")):
        with pytest.raises(StorageError) as caught:
            save(plan, str(path))
        assert caught.value.code == 16
    assert not Path("/dev/full").is_file()
    with pytest.raises(UsageError, match="not a file of this host"):  # nor could load read it
        save(plan, "s3://bucket/plan.json")


def test_what_has_changed_is_named(plan: PlanFile, launch: Launch, tmp_path: Path) -> None:
    with pytest.raises(Incompatible, match=r"Spark has changed .*4\.3\.0, now 4\.2\.1"):
        check_unchanged(plan, launch, "4.2.1")
    with pytest.raises(Incompatible, match="program has changed"):
        check_unchanged(plan, Launch(launch.application, arguments=("a",)), "4.3.0")
    Path(str(launch.application)).write_text("print(1)")
    with pytest.raises(Incompatible, match="program has changed"):
        check_unchanged(plan, launch, "4.3.0")
    (tmp_path / "sp" / "_metadata").write_bytes(b"other")
    with pytest.raises(Incompatible, match="savepoint has changed"):
        check_unchanged(plan, launch, "4.3.0")
    (tmp_path / "sp" / "_metadata").unlink()
    with pytest.raises(SavepointNotFound):
        check_unchanged(plan, launch, "4.3.0")


@pytest.mark.parametrize("changes", ["app.py", "sp/_metadata"])
def test_what_changes_after_the_check_has_begun_is_noticed(
    cli: Command, client: Client, monkeypatch: pytest.MonkeyPatch, changes: str
) -> None:
    """The plan of :func:`check` need not be saved for that; here its inputs change meanwhile."""
    metadata = cli.directory / "sp" / "_metadata"
    metadata.parent.mkdir()
    metadata.write_bytes(b"sealed")

    def planning(*_args: object, **_named: object) -> RestorePlan:
        (cli.directory / changes).write_text("other")
        return PLAN

    monkeypatch.setattr("flinkish.client.dryrun.check_restore", planning)
    program = Program(str(cli.program), spark_home=str(cli.spark_home))
    plan = client.check("sp", program)
    with pytest.raises(Incompatible, match="has changed since the plan was made"):
        client.run(plan=plan, program=program)


def test_arguments_that_the_defaults_of_spark_hide_are_masked(
    cli: Command, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cli.spark_home / "conf").mkdir()
    (cli.spark_home / "conf" / "spark-defaults.conf").write_text("spark.redaction.regex (?i)pin\n")
    saved = make_savepoint(str(cli.directory), 1.0)
    monkeypatch.setattr("flinkish.client.dryrun.check_restore", lambda *_args, **_named: PLAN)
    program = Program(str(cli.program), ("--pin", "1234"), spark_home=str(cli.spark_home))
    client.check(saved, program).save("plan.json")
    assert load("plan.json").arguments == ("--pin", MASK)
    other = replace(program, arguments=("--pin", "5678"))
    request = planned(RunRequest(program=other), "plan.json")
    assert prepare(client._context, request).launch.arguments == ("--pin", "5678")


def test_a_named_archive_is_a_part_of_the_program(launch: Launch, tmp_path: Path) -> None:
    archive = tmp_path / "env.tgz"
    archive.write_bytes(b"one")
    before = program_digest(replace(launch, archives=(f"{archive}#env",)))
    archive.write_bytes(b"two")
    assert program_digest(replace(launch, archives=(f"{archive}#env",))) != before


def test_the_digest_of_a_large_archive_takes_little_memory(launch: Launch, tmp_path: Path) -> None:
    archive = tmp_path / "env.zip"
    archive.touch()
    os.truncate(archive, 32 << 20)
    packed = replace(launch, archives=(str(archive),))
    tracemalloc.start()
    try:
        before = program_digest(packed)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
    with archive.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    assert program_digest(packed) != before


def test_a_plan_that_says_no_is_not_carried_out(plan: PlanFile, launch: Launch) -> None:
    refused = PlanFile(**{**vars(plan), "plan": RestorePlan("incompatible", 4)})
    with pytest.raises(Incompatible, match="the plan cannot be carried out"):
        check_unchanged(refused, launch, "4.3.0")
    asking = PlanFile(**{**vars(plan), "plan": RestorePlan("consent-needed", 5)})
    with pytest.raises(ConsentNeeded, match="the plan needs your consent"):
        check_unchanged(asking, launch, "4.3.0")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind": "other"}', '{"kind": "flinkish restore plan"}', "\xff"]
)
def test_what_is_no_plan_is_a_usage_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError):
        load(str(path))


def test_a_plan_of_another_form_or_with_holes_is_a_usage_error(
    plan: PlanFile, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    save(plan, str(path))
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "schema_version": 2}))
    with pytest.raises(UsageError, match="version 2"):
        load(str(path))
    damaged = {**record["plan"], "queries": ["q"]}
    path.write_text(json.dumps({**record, "plan": damaged}))
    with pytest.raises(UsageError, match=r"damaged: PlanFile\.plan\.queries\[0\]"):
        load(str(path))
    del record["program_digest"]
    path.write_text(json.dumps(record))
    with pytest.raises(UsageError, match="program_digest"):
        load(str(path))
    with pytest.raises(UsageError, match="no plan at"):
        load(str(tmp_path / "nowhere"))
