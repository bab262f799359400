"""The tests of a module are found by its name: a test module of that name, or the table below.

``flinkish/a/b.py`` is tested by ``tests/a/test_b.py``. What another test module proves stands in
``COVERED_BY``; that one has to import the module, itself or by what it imports.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Module -> the test module that proves it, where none has its name.
COVERED_BY = {
    "checkpoint/fileset": "checkpoint/test_cut",
    "checkpoint/format/errors": "checkpoint/format/test_archives",
    "checkpoint/found": "restore/test_adopt",
    "checkpoint/operators": "checkpoint/test_cut",
    "checkpoint/trouble": "checkpoint/test_cut",
    "cli/app": "cli/test_usage",
    "cli/arguments": "cli/test_usage",
    "cli/base": "cli/test_usage",
    "cli/cancel": "cli/test_lifecycle",
    "cli/check": "e2e/test_check",
    "cli/checkpoint": "cli/test_lifecycle",
    "cli/commands": "cli/test_usage",
    "cli/completion_files": "cli/test_completion",
    "cli/config": "cli/test_usage",
    "cli/dispose": "cli/test_savepoint_care",
    "cli/docs": "test_docs",
    "cli/driver_output": "cli/test_program_options",
    "cli/entry": "cli/test_list",
    "cli/follow": "cli/test_lifecycle",
    "cli/jobs_table": "cli/test_list",
    "cli/jobs_text": "cli/test_list",
    "cli/logs": "cli/test_lifecycle",
    "cli/output": "cli/test_usage",
    "cli/progress": "cli/test_lifecycle",
    "cli/request": "cli/test_lifecycle",
    "cli/restore_options": "cli/test_program_options",
    "cli/run": "cli/test_program_options",
    "cli/savepoint": "cli/test_lifecycle",
    "cli/savepoint_diff": "cli/test_savepoint_care",
    "cli/savepoint_import": "cli/test_savepoint_files",
    "cli/savepoint_keep": "cli/test_savepoint_all",
    "cli/savepoint_list": "cli/test_savepoint_care",
    "cli/savepoint_prune": "cli/test_savepoint_care",
    "cli/savepoint_show": "cli/test_savepoint_care",
    "cli/savepoint_unlock": "cli/test_savepoint_care",
    "cli/savepoint_verify": "cli/test_savepoint_care",
    "cli/session": "cli/test_usage",
    "cli/spark_options": "cli/test_offline",
    "cli/state_export": "cli/test_state",
    "cli/state_options": "cli/test_state",
    "cli/state_show": "cli/test_state",
    "cli/status": "cli/test_lifecycle",
    "cli/stop": "cli/test_usage",
    "cli/submission": "cli/test_lifecycle",
    "cli/text": "cli/test_usage",
    "cli/trigger": "cli/test_usage",
    "client/all_jobs": "cli/test_savepoint_all",
    "client/catalog": "cli/test_savepoint_care",
    "client/checking": "e2e/test_client",
    "client/context": "cli/test_usage",
    "client/describing": "cli/test_info",
    "client/dryrun": "e2e/test_check",
    "client/locks": "cli/test_savepoint_care",
    "client/offline": "cli/test_offline",
    "client/program": "cli/test_program_options",
    "client/reporter": "cli/test_terminal_escapes",
    "client/requests": "cli/test_lifecycle",
    "client/restoring": "cli/test_uid_map",
    "client/runner": "client/test_client",
    "client/state": "cli/test_state",
    "client/submission": "cli/test_lifecycle",
    "client/waiting": "cli/test_lifecycle",
    "compat/model": "compat/test_lookup",
    "driver/actions": "driver/test_gate",
    "driver/agent": "driver/test_gate",
    "driver/answering": "driver/test_canonical",
    "driver/bootstrap": "e2e/test_lifecycle",
    "driver/describe": "e2e/test_info",
    "driver/firstbatch": "driver/test_identity",
    "driver/hook": "driver/test_gate",
    "driver/job": "e2e/test_lifecycle",
    "driver/jvm": "driver/test_planner",
    "driver/log": "driver/test_bare_python",
    "driver/managed": "driver/test_gate",
    "driver/migrating": "driver/test_canonical",
    "driver/planjvm": "driver/test_planner",
    "driver/planned": "driver/test_gate",
    "driver/planning": "driver/test_identity",
    "driver/plannodes": "driver/test_planner",
    "driver/planschemas": "driver/test_planner",
    "driver/plansteps": "driver/test_planner",
    "driver/preparing": "driver/test_identity",
    "driver/quiesce": "driver/test_gate",
    "driver/restoregate": "driver/test_identity",
    "driver/restorer": "driver/test_state_pairs",
    "driver/restoreworld": "driver/test_state_pairs",
    "driver/runtime": "driver/test_gate",
    "driver/script": "driver/test_gate",
    "driver/settings": "driver/test_canonical",
    "driver/starts": "driver/test_identity",
    "driver/stateexport": "e2e/test_state",
    "engine/arrow_parts": "engine/test_avro_files",
    "engine/avro_container": "engine/test_avro_files",
    "engine/avro_encode": "engine/test_avro_files",
    "engine/avro_nulls": "engine/test_hostile_state",
    "engine/avro_records": "engine/test_avro_files",
    "engine/binding": "engine/test_spilled",
    "engine/blocks": "engine/test_frames",
    "engine/bootstrap_rows": "engine/test_frames",
    "engine/bootstrap_state": "engine/test_frames",
    "engine/bounds": "engine/test_hostile_state",
    "engine/canonical_counts": "engine/test_canonical",
    "engine/checkpoints": "engine/test_rewrite",
    "engine/codecs": "engine/test_records",
    "engine/collecting": "engine/test_rewrite",
    "engine/columns": "engine/test_evolution",
    "engine/compressors": "engine/test_golden",
    "engine/digests": "engine/test_rewrite",
    "engine/directories": "engine/test_canonical",
    "engine/encodings": "engine/test_golden",
    "engine/errors": "engine/test_avro_damage",
    "engine/evolution_steps": "engine/test_evolution",
    "engine/files": "engine/test_recorded",
    "engine/frame_types": "engine/test_frames",
    "engine/hdfs_store": "engine/test_records",
    "engine/join_rows": "engine/test_join_formats",
    "engine/keycodec": "engine/test_rowcodec",
    "engine/layout": "engine/test_rewrite",
    "engine/moves": "engine/test_join_formats",
    "engine/pieces": "engine/test_rows",
    "engine/pins": "engine/test_planning",
    "engine/pipeline": "engine/test_rewrite",
    "engine/plain_rows": "engine/test_frames",
    "engine/regular": "engine/test_hostile_state",
    "engine/rocksdb_writer": "engine/test_writers",
    "engine/row_bytes": "engine/test_rowcodec",
    "engine/scratch": "savepoint/test_hostile_deletes",
    "engine/sidecars": "engine/test_canonical",
    "engine/snapshots": "engine/test_writers",
    "engine/spark_frames": "engine/test_frames",
    "engine/state_files": "engine/test_frames",
    "engine/store_tasks": "engine/test_rewrite",
    "engine/table_files": "engine/test_frames",
    "engine/transform": "engine/test_rewrite",
    "engine/type_json": "engine/test_avro_schemas",
    "engine/types": "engine/test_avro_files",
    "engine/unsafe_rows": "engine/test_rowcodec",
    "errors": "cli/test_usage",
    "examples/flights/check": "examples/test_check",
    "examples/flights/data": "examples/test_data",
    "examples/flights/delays_v1": "examples/test_programs",
    "examples/flights/delays_v2": "examples/test_programs",
    "jobs/database": "jobs/test_sqlite",
    "jobs/describer": "e2e/test_info",
    "jobs/drivercall": "jobs/test_secretconf",
    "jobs/glance": "cli/test_list",
    "jobs/inuse": "e2e/test_check",
    "jobs/logs": "jobs/test_launcher",
    "jobs/mailbox": "jobs/test_registry",
    "jobs/migrator": "cli/test_migrate",
    "jobs/offline": "cli/test_offline",
    "jobs/program": "jobs/test_launcher",
    "jobs/rows": "jobs/test_registry",
    "jobs/schema": "jobs/test_sqlite",
    "jobs/stateexporter": "cli/test_state",
    "jobs/statements": "jobs/test_registry",
    "jobs/supervisor": "jobs/test_launcher",
    "jobs/termination": "jobs/test_launcher",
    "masking": "jobs/test_secrets",
    "operators/render": "operators/test_identity",
    "operators/tagging": "driver/test_uid",
    "restore/document": "restore/test_planner",
    "restore/donors": "restore/test_adopt",
    "restore/emptystate": "restore/test_statefiles",
    "restore/migration": "restore/test_planner",
    "restore/model": "restore/test_plan",
    "restore/newlogs": "restore/test_combined",
    "restore/offers": "restore/test_gate",
    "restore/plantext": "restore/test_planner",
    "restore/queryrestore": "restore/test_planner",
    "restore/recipe": "restore/test_adopt",
    "restore/recipes": "restore/test_plan",
    "restore/sourcelogs": "restore/test_statefiles",
    "restore/statewords": "restore/test_states",
    "restore/untaken": "restore/test_plan",
    "restore/verdicts": "restore/test_judging",
    "savepoint/container": "savepoint/test_hostile_metadata",
    "savepoint/deep": "savepoint/test_verify",
    "savepoint/earlier": "savepoint/test_writer",
    "savepoint/enginewords": "driver/test_rewriting",
    "savepoint/finding": "cli/test_savepoint_care",
    "savepoint/leasefile": "savepoint/test_hostile_leases",
    "savepoint/ledger": "savepoint/test_writer",
    "savepoint/leftovers": "savepoint/test_prune",
    "savepoint/limits": "savepoint/test_hostile_metadata",
    "savepoint/metarecords": "savepoint/test_hostile_metadata",
    "savepoint/metaschema": "savepoint/test_hostile_metadata",
    "savepoint/model": "savepoint/test_metadata",
    "savepoint/reporter": "savepoint/test_writer",
    "savepoint/rewriteplan": "driver/test_rewriting",
    "savepoint/space": "savepoint/test_verify",
    "savepoint/statedir": "driver/test_rewriting",
    "savepoint/staterows": "cli/test_state",
    "savepoint/transfer": "savepoint/test_writer",
    "spec/migration": "spec/test_calls",
    "spec/savepoints": "spec/test_requests",
    "storage/below": "storage/test_deletion",
    "storage/bounded": "storage/test_placing",
    "storage/limits": "storage/test_backends",
    "storage/listing": "storage/test_backends",
    "storage/remote": "storage/test_backends",
    "storage/s3": "storage/test_backends",
    "units": "restore/test_fitting",
}
#: Programs that no test runs, and who does.
RUN_BY_HAND = {"examples/flights/demo": "make demo"}
_IMPORT = re.compile(
    r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|[^\n]+)|import ([\w.]+))", re.MULTILINE
)
#: Modules that are named in strings: commands that are loaded when they are called, ``python -m``.
_NAMED = re.compile(r'"((?:flinkish|tests)(?:\.\w+)*)(["{])')


@functools.cache
def sources() -> dict[str, Path]:
    """Every module of the package and of the tests, by its full name."""
    paths = [*ROOT.glob("flinkish/**/*.py"), *ROOT.glob("tests/**/*.py")]
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)
    return dict(zip((name.removesuffix(".__init__") for name in names), paths, strict=True))


@functools.cache
def used(name: str) -> frozenset[str]:
    """The modules that one imports or names; of a test module its ``conftest`` too."""
    text = sources()[name].read_text(encoding="utf-8")
    found = {f"{name.rpartition('.')[0]}.conftest"} if name.startswith("tests.") else set()
    for package, names, module in _IMPORT.findall(text):
        found |= {module or package, *(f"{package}.{n}" for n in re.findall(r"\w+", names))}
    for beginning, end in _NAMED.findall(text):
        found |= {
            n for n in sources() if n == beginning or (end == "{" and n.startswith(beginning))
        }
    if '"driver", "__main__.py"' in text:  # the script that a launcher gives to spark-submit
        found.add("flinkish.driver")
    found |= {f"{n}.__main__" for n in found}
    return frozenset(found & sources().keys())


def reached(start: str) -> set[str]:
    """All modules that come with one."""
    seen, left = {start}, [start]
    while left:
        new = used(left.pop()) - seen
        seen |= new
        left += new
    return seen


def modules() -> Iterator[str]:
    """The modules of the package, as paths below it without suffix."""
    for path in sorted((ROOT / "flinkish").rglob("*.py")):
        if path.stem not in ("__init__", "__main__"):
            yield path.relative_to(ROOT / "flinkish").with_suffix("").as_posix()


def has_its_own(module: str) -> bool:
    room, _, name = module.rpartition("/")
    return (ROOT / "tests" / room / f"test_{name}.py").exists()


def test_every_module_has_a_test_module() -> None:
    nowhere = [m for m in modules() if not (has_its_own(m) or m in COVERED_BY or m in RUN_BY_HAND)]
    assert nowhere == [], "write tests/<room>/test_<module>.py, or name who proves it in COVERED_BY"


def test_the_table_names_what_is_there() -> None:
    assert [m for m in COVERED_BY if not (ROOT / "flinkish" / f"{m}.py").exists()] == []
    assert list(COVERED_BY) == sorted(COVERED_BY)


@pytest.mark.parametrize("test", sorted(set(COVERED_BY.values())))
def test_who_proves_a_module_imports_it(test: str) -> None:
    assert (ROOT / "tests" / f"{test}.py").exists()
    proved = {m for m, by in COVERED_BY.items() if by == test}
    found = reached("tests." + test.replace("/", "."))
    assert {m for m in proved if "flinkish." + m.replace("/", ".") not in found} == set()
