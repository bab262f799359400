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
    "airflow/sensors": "airflow/test_operators",
    "airflow/triggers": "airflow/test_operators",
    "annotations": "test_compatibility",
    "checkpoint/discovery": "restore/origin/test_plain_checkpoints",
    "checkpoint/errors": "checkpoint/test_cut",
    "checkpoint/fileset": "checkpoint/test_cut",
    "checkpoint/format/errors": "checkpoint/format/test_archives",
    "checkpoint/format/file_ends": "checkpoint/test_wholeness",
    "checkpoint/operators": "checkpoint/test_cut",
    "cli/app": "cli/test_usage",
    "cli/base": "cli/test_usage",
    "cli/command_index": "cli/test_usage",
    "cli/commands/bundle": "e2e/test_attached",
    "cli/commands/cancel": "cli/test_lifecycle",
    "cli/commands/config": "cli/test_usage",
    "cli/commands/recover": "cli/commands/test_restart",
    "cli/commands/rehearse": "e2e/test_rehearse",
    "cli/commands/request": "cli/test_lifecycle",
    "cli/commands/request_result": "cli/test_usage",
    "cli/commands/run": "cli/options/test_program",
    "cli/commands/savepoint": "cli/test_lifecycle",
    "cli/commands/savepoint_copy": "cli/test_savepoint_files",
    "cli/commands/savepoint_diff": "cli/test_savepoint_care",
    "cli/commands/savepoint_dispose": "cli/test_savepoint_care",
    "cli/commands/savepoint_import": "cli/test_savepoint_files",
    "cli/commands/savepoint_list": "cli/test_savepoint_care",
    "cli/commands/savepoint_prune": "cli/test_savepoint_care",
    "cli/commands/savepoint_show": "cli/test_savepoint_care",
    "cli/commands/savepoint_unlock": "cli/test_savepoint_care",
    "cli/commands/savepoint_verify": "cli/test_savepoint_care",
    "cli/commands/status": "cli/test_lifecycle",
    "cli/commands/stop": "cli/commands/test_stop_all",
    "cli/docs": "test_docs",
    "cli/documents/installation": "cli/commands/test_schema",
    "cli/documents/jobs": "cli/commands/test_schema",
    "cli/documents/parts": "cli/commands/test_schema",
    "cli/documents/programs": "cli/commands/test_schema",
    "cli/documents/reports": "cli/commands/test_schema",
    "cli/documents/requests": "cli/commands/test_schema",
    "cli/documents/savepoints": "cli/commands/test_schema",
    "cli/documents/upgrades": "cli/commands/test_schema",
    "cli/documents/versions": "cli/commands/test_schema",
    "cli/entry": "cli/commands/test_list",
    "cli/options/arguments": "cli/test_usage",
    "cli/options/new_version": "e2e/test_upgrade",
    "cli/options/restore": "cli/options/test_program",
    "cli/options/retention": "cli/commands/test_savepoint_all",
    "cli/output/connectors_text": "cli/commands/test_compat",
    "cli/output/jobs_text": "cli/commands/test_list",
    "cli/output/printer": "cli/test_usage",
    "cli/output/progress": "cli/test_lifecycle",
    "cli/output/report_style": "cli/output/test_report_page",
    "cli/output/versions_text": "cli/commands/test_compat",
    "cli/session": "cli/test_usage",
    "client/all_jobs": "cli/commands/test_savepoint_all",
    "client/catalog": "cli/test_savepoint_care",
    "client/checking": "e2e/test_client",
    "client/committed": "cli/commands/test_checkpoint",
    "client/dryrun": "e2e/test_check",
    "client/export_checkpoints": "cli/commands/test_export",
    "client/exporting": "cli/commands/test_export",
    "client/lifecycle": "cli/test_lifecycle",
    "client/locks": "cli/test_savepoint_care",
    "client/logs": "cli/commands/test_logs",
    "client/metrics_export": "cli/commands/test_metrics",
    "client/offline": "cli/test_offline",
    "client/program": "cli/options/test_program",
    "client/purge": "cli/commands/test_purge",
    "client/purge_files": "cli/commands/test_purge",
    "client/recovery": "cli/commands/test_restart",
    "client/rehearsal": "e2e/test_rehearse",
    "client/reporter": "cli/test_terminal_escapes",
    "client/requests": "cli/test_lifecycle",
    "client/restart_plan": "cli/commands/test_restart",
    "client/restarts": "cli/commands/test_restart",
    "client/runner": "client/test_client",
    "client/state": "cli/commands/test_state",
    "client/submission": "cli/test_lifecycle",
    "client/together": "cli/commands/test_stop_all",
    "config/keys": "config/test_loader",
    "config/secrets": "launch/test_secrecy",
    "config/values": "config/test_loader",
    "connectors/base": "restore/plan/test_source_plans",
    "connectors/files/connector": "connectors/files/test_offset_checks",
    "connectors/files/reading": "connectors/files/test_offset_checks",
    "connectors/kafka/connector": "restore/plan/test_source_plans",
    "connectors/kafka/new_offsets": "connectors/test_offsets",
    "connectors/registry": "restore/plan/test_repeated_batches",
    "connectors/source_plan": "restore/plan/test_source_plans",
    "connectors/sources": "restore/plan/test_source_plans",
    "driver/attached/attachment": "driver/attached/test_adoption",
    "driver/carried": "launch/test_carried_job",
    "driver/connectors/files": "driver/test_sources",
    "driver/connectors/question": "driver/connectors/test_sources",
    "driver/connectors/table": "driver/connectors/test_sinks",
    "driver/job": "e2e/test_lifecycle",
    "driver/log": "driver/test_bare_python",
    "driver/migration/savepoint_migration": "driver/test_state_pairs",
    "driver/plan/analyzed_settings": "driver/plan/test_setting_dependences",
    "driver/plan/initial_buffers": "driver/test_state_pairs",
    "driver/plan/plan_classes": "driver/plan/test_plan_extraction",
    "driver/plan/plan_nodes": "driver/plan/test_plan_extraction",
    "driver/plan/planned_queries": "driver/test_gate",
    "driver/plan/planned_schemas": "driver/plan/test_plan_extraction",
    "driver/plan/uid_rules": "driver/test_identity",
    "driver/requests/actions": "driver/test_gate",
    "driver/requests/agent": "driver/test_gate",
    "driver/restore/checkpoint_runs": "driver/test_starts",
    "driver/restore/empty_checkpoint": "driver/test_starts",
    "driver/restore/first_batch": "driver/test_identity",
    "driver/restore/history": "driver/test_history",
    "driver/restore/restorer": "driver/test_restore",
    "driver/restore/start_judge": "driver/test_starts",
    "driver/restore/typed_formats": "driver/test_typed_restore",
    "driver/runtime/flow_starts": "e2e/test_pipelines",
    "driver/runtime/hook": "driver/test_gate",
    "driver/runtime/job_runtime": "driver/test_gate",
    "driver/runtime/job_session": "driver/test_gate",
    "driver/runtime/pipeline_run": "e2e/test_pipelines",
    "driver/runtime/program_gate": "driver/test_gate",
    "driver/runtime/query_starts": "driver/test_starts",
    "driver/runtime/quiesce": "driver/test_gate",
    "driver/runtime/rehearsal": "driver/test_rehearsal",
    "driver/runtime/restore_gate": "driver/test_identity",
    "driver/tasks/answering": "driver/requests/test_canonical_savepoints",
    "driver/tasks/describe": "e2e/test_info",
    "driver/tasks/export_task": "driver/test_export",
    "driver/tasks/migration_task": "driver/requests/test_canonical_savepoints",
    "driver/tasks/rehearsal_task": "driver/test_rehearsal",
    "driver/tasks/state_export": "e2e/test_state",
    "engine/avro/encoder": "engine/avro/test_state_avro",
    "engine/avro/record_columns": "engine/avro/test_state_avro",
    "engine/bounds": "engine/test_hostile_state",
    "engine/errors": "engine/test_avro_damage",
    "engine/migration/attempts": "engine/migration/test_direct_tasks",
    "engine/migration/evolution_steps": "engine/migration/test_evolution",
    "engine/migration/join_regrouping": "engine/migration/test_join_formats",
    "engine/migration/migration_plan": "engine/migration/test_join_formats",
    "engine/migration/pipeline": "engine/migration/test_checkpoint_migration",
    "engine/migration/row_blocks": "engine/tables/test_frames",
    "engine/migration/row_transforms": "engine/migration/test_checkpoint_migration",
    "engine/migration/spark_jobs": "engine/migration/test_checkpoint_migration",
    "engine/migration/state_files": "engine/tables/test_frames",
    "engine/migration/store_tasks": "engine/migration/test_checkpoint_migration",
    "engine/rows/arrow_parts": "engine/avro/test_state_avro",
    "engine/rows/columns": "engine/migration/test_evolution",
    "engine/rows/encodings": "engine/test_golden",
    "engine/rows/row_bytes": "engine/rows/test_row_codec",
    "engine/rows/types": "engine/avro/test_state_avro",
    "engine/rows/unsafe_rows": "engine/rows/test_row_codec",
    "engine/stores/canonical_families": "engine/stores/test_canonical",
    "engine/stores/checkpoints": "engine/migration/test_checkpoint_migration",
    "engine/stores/codecs": "engine/stores/test_records",
    "engine/stores/partitioning": "engine/migration/test_checkpoint_migration",
    "engine/stores/rocksdb": "engine/stores/test_hdfs_store",
    "engine/stores/rocksdb_writer": "engine/stores/test_writers",
    "engine/stores/sst_files": "engine/stores/test_writers",
    "engine/tables/bootstrap_rows": "engine/tables/test_frames",
    "engine/tables/bootstrap_state": "engine/tables/test_frames",
    "engine/tables/spark_frames": "engine/tables/test_frames",
    "errors": "cli/test_usage",
    "examples/airflow_dag": "airflow/test_operators",
    "examples/flights/aircraft_v1": "e2e/test_typed_state",
    "examples/flights/aircraft_v2": "e2e/test_typed_state",
    "examples/flights/check": "examples/test_check",
    "examples/flights/data": "examples/test_data",
    "examples/flights/delays_v1": "examples/test_programs",
    "examples/flights/delays_v2": "examples/test_programs",
    "examples/flights/demo": "e2e/test_guides",
    "history": "driver/test_history",
    "launch/driver_call": "launch/test_secret_settings",
    "launch/driver_process": "launch/test_launcher",
    "launch/job_logs": "launch/test_launcher",
    "launch/job_origin": "client/test_context",
    "launch/known_jobs": "client/test_known_runs",
    "launch/offline": "cli/test_offline",
    "launch/spark_submit": "launch/test_launcher",
    "launch/termination": "launch/test_launcher",
    "messages/migration": "messages/test_calls",
    "messages/rehearsals": "driver/test_rehearsal",
    "messages/restore_options": "messages/test_launch",
    "messages/results": "savepoint/write/test_copying",
    "messages/upgrades": "upgrade/test_steps",
    "operators/render": "operators/test_identity",
    "operators/tagging": "driver/test_uid",
    "registry/database": "registry/test_sqlite",
    "registry/fast_list": "cli/commands/test_list",
    "registry/in_use": "client/test_resuming",
    "registry/job_table": "registry/test_job_registry",
    "registry/requests": "registry/test_job_registry",
    "registry/resumed_runs": "client/test_resuming",
    "registry/rows": "registry/test_job_registry",
    "registry/schema": "registry/test_sqlite",
    "restore/materialize/origin_checkpoints": "restore/origin/test_plain_checkpoints",
    "restore/materialize/source_logs": "restore/materialize/test_state_files",
    "restore/origin/restore_inputs": "restore/plan/test_decisions",
    "restore/plan/document": "restore/plan/test_restore_planner",
    "restore/plan/plan_text": "restore/plan/test_restore_planner",
    "restore/plan/query_restore": "restore/plan/test_restore_planner",
    "restore/plan/schema_messages": "restore/plan/test_schema_compatibility",
    "restore/plan/state_evolution": "restore/plan/test_judging",
    "restore/recipe": "restore/origin/test_plain_checkpoints",
    "savepoint/directory/lease_files": "savepoint/test_hostile_leases",
    "savepoint/directory/orphans": "savepoint/manage/test_prune",
    "savepoint/directory/places": "savepoint/directory/test_catalog",
    "savepoint/format/contents": "savepoint/format/test_metadata",
    "savepoint/format/limits": "savepoint/test_hostile_metadata",
    "savepoint/format/operator_lookup": "cli/test_savepoint_care",
    "savepoint/format/records": "savepoint/test_hostile_metadata",
    "savepoint/manage/deep_check": "savepoint/manage/test_verify",
    "savepoint/manage/generations": "savepoint/manage/test_retention",
    "savepoint/reporter": "savepoint/write/test_writer",
    "savepoint/state/engine_errors": "driver/migration/test_query_migration",
    "savepoint/state/migration_targets": "driver/migration/test_query_migration",
    "savepoint/state/state_rows": "cli/commands/test_state",
    "savepoint/write/copied_files": "savepoint/write/test_copying",
    "savepoint/write/ledger": "savepoint/write/test_writer",
    "savepoint/write/query_files": "savepoint/write/test_writer",
    "savepoint/write/query_records": "cli/test_offline",
    "savepoint/write/transfer": "savepoint/write/test_writer",
    "state/declared": "driver/test_typed_state",
    "state/group_state": "driver/test_typed_state",
    "state/processors": "driver/test_typed_state",
    "state/shipping": "driver/migration/test_file_transfer",
    "storage/below": "storage/test_deletion",
    "storage/concurrency": "storage/test_placing",
    "storage/directory": "engine/test_api",
    "storage/hashing": "storage/test_placing",
    "storage/listing": "storage/test_backends",
    "storage/remote": "storage/test_backends",
    "storage/s3": "storage/test_backends",
    "storage/stores": "storage/test_backends",
    "upgrade/execution": "upgrade/test_takeover",
    "upgrade/preparation": "upgrade/test_takeover",
}
_IMPORT = re.compile(
    r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|[^\n]+)|import ([\w.]+))", re.MULTILINE
)
#: Modules that are named in strings: commands that are loaded when they are called, ``python -m``.
_NAMED = re.compile(r'"((?:flinkish|tests|tools)(?:\.\w+)*)(["{])')


@functools.cache
def sources() -> dict[str, Path]:
    """Every module of the package, of the tests and of the tools, by its full name."""
    paths = [
        path for room in ("flinkish", "tests", "tools") for path in ROOT.glob(f"{room}/**/*.py")
    ]
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
    nowhere = [m for m in modules() if not (has_its_own(m) or m in COVERED_BY)]
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
