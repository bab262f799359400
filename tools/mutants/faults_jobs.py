"""Faults in the registry, the command line and the configuration."""

from __future__ import annotations

from tools.mutants.model import Mutant

_USAGE = ("tests/cli/test_usage.py",)

MUTANTS = (
    Mutant(
        "final-state-left",
        "a failed job may run again under its id",
        "flinkish/registry/jobs.py",
        "_S.FAILED: frozenset(),",
        "_S.FAILED: frozenset({_S.RUNNING}),",
        ("tests/registry/test_jobs.py", "tests/registry/test_history.py"),
    ),
    Mutant(
        "heartbeat-never-stale",
        "a driver on another host that is silent counts as lost after ten minutes, not 30 s",
        "flinkish/registry/liveness.py",
        "limit = STALE if job.heartbeat is not None else STALE_START",
        "limit = STALE_START",
        ("tests/registry/test_liveness.py",),
    ),
    Mutant(
        "zombies-alive",
        "a driver that has ended and was not waited for counts as alive",
        "flinkish/registry/liveness.py",
        'return status not in "ZX" and ref.start_ticks in (None, ticks)',
        "return ref.start_ticks in (None, ticks)",
        ("tests/registry/test_liveness.py",),
    ),
    Mutant(
        "reused-pid-alive",
        "another process with the driver's pid is taken for the driver",
        "flinkish/registry/liveness.py",
        'return status not in "ZX" and ref.start_ticks in (None, ticks)',
        'return status not in "ZX"',
        ("tests/registry/test_liveness.py",),
    ),
    Mutant(
        "request-claimed-twice",
        "a request that was claimed can be claimed again",
        "flinkish/registry/requests.py",
        "\"UPDATE flinkish_requests SET state = 'IN_PROGRESS', started = :now \"",
        '"UPDATE flinkish_requests SET started = :now "',
        ("tests/registry/test_job_registry.py",),
    ),
    Mutant(
        "result-given-twice",
        "a request that has its result gets another one",
        "flinkish/registry/requests.py",
        '        values = {"result": result, "state": RequestState.COMPLETED}\n'
        '        return self._settle(request_id, f"state IN {_UNFINISHED}", values)',
        '        values = {"result": result, "state": RequestState.COMPLETED}\n'
        '        return self._settle(request_id, "1 = 1", values)',
        ("tests/registry/test_job_registry.py",),
    ),
    Mutant(
        "second-stop-accepted",
        "a job that is being stopped can be stopped a second time",
        "flinkish/registry/requests.py",
        "if kind in _ENDING:",
        "if kind not in RequestKind:",
        ("tests/registry/test_job_registry.py",),
    ),
    Mutant(
        "newer-schema-accepted",
        "a registry that a newer flinkish has written is opened",
        "flinkish/registry/database.py",
        "if version > VERSION:",
        "if version > 2 * VERSION:",
        ("tests/registry/test_sqlite.py",),
    ),
    Mutant(
        "migrations-from-the-start",
        "a registry of an older schema gets all migrations, not those it lacks",
        "flinkish/registry/database.py",
        "for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):",
        "for number, statements in enumerate(MIGRATIONS, start=1):",
        ("tests/registry/test_sqlite.py",),
    ),
    Mutant(
        "disposed-savepoint-newest",
        "a disposed savepoint is shown as the last one of its job",
        "flinkish/registry/savepoint_table.py",
        'f"WHERE job_id IN ({marks}) AND disposed IS NULL AND created = ("\n'
        '                "SELECT MAX(created) FROM flinkish_savepoints n "\n'
        '                "WHERE n.job_id = s.job_id AND n.disposed IS NULL) ORDER BY path",',
        'f"WHERE job_id IN ({marks}) AND created = ("\n'
        '                "SELECT MAX(created) FROM flinkish_savepoints n "\n'
        '                "WHERE n.job_id = s.job_id) ORDER BY path",',
        ("tests/registry/test_job_registry.py", "tests/cli/commands/test_list.py"),
    ),
    Mutant(
        "secrets-in-the-registry",
        "secret Spark settings are kept in the registry in clear",
        "flinkish/launch/secret_settings.py",
        "conf={**launch.conf, **hidden}",
        "conf={**hidden, **launch.conf}",
        ("tests/launch/test_secret_settings.py",),
    ),
    Mutant(
        "passwords-shown",
        "passwords in URLs are shown",
        "flinkish/config/secrets.py",
        'text = _URL_PASSWORD.sub(rf"\\1:{MASK}@", text)',
        'text = _URL_PASSWORD.sub(r"\\g<0>", text)',
        ("tests/config/test_loader.py",),
    ),
    Mutant(
        "file-before-environment",
        "./flinkish.toml wins over the environment",
        "flinkish/config/loader.py",
        "            (_environment(env), here),\n"
        '            (_file(os.path.join(here, "flinkish.toml")), here),\n',
        '            (_file(os.path.join(here, "flinkish.toml")), here),\n'
        "            (_environment(env), here),\n",
        ("tests/config/test_loader.py",),
    ),
    Mutant(
        "bare-number-milliseconds",
        "a duration without a unit is in milliseconds",
        "flinkish/config/values.py",
        '    "": 1.0,\n',
        '    "": 1e-3,\n',
        ("tests/config/test_loader.py",),
    ),
    Mutant(
        "consent-needed-as-success",
        "where consent is needed the command ends with 0 instead of 5",
        "flinkish/cli/output/printer.py",
        "    out.error(error)\n    return error.code\n",
        "    out.error(error)\n    return 0 if error.code == 5 else error.code\n",
        ("tests/cli/test_savepoint_care.py", *_USAGE),
    ),
    Mutant(
        "error-id-missing",
        "errors in JSON do not tell which error it is",
        "flinkish/errors.py",
        '            "id": self.id,\n',
        '            "id": FlinkishError.id,\n',
        _USAGE,
    ),
    Mutant(
        "usage-error-as-failure",
        "a wrong command line ends with 1 instead of 2",
        "flinkish/cli/app.py",
        "return report(_usage_error(error), out)",
        "return min(1, report(_usage_error(error), out))",
        _USAGE,
    ),
    Mutant(
        "timeout-as-failure",
        "a client that has waited too long ends with 1 instead of 14",
        "flinkish/errors.py",
        'code, id = 14, "timeout"',
        'code, id = 1, "timeout"',
        ("tests/registry/test_waiting.py", "tests/cli/test_lifecycle.py"),
    ),
    Mutant(
        "no-patience",
        "a client that waits for a result gives up at once, whatever --timeout says",
        "flinkish/registry/waiting.py",
        "        if deadline is not None and now >= deadline:\n"
        "            raise WaitTimeout(\n"
        '                f"no result',
        "        if deadline is not None:\n"
        "            raise WaitTimeout(\n"
        '                f"no result',
        ("tests/registry/test_waiting.py",),
    ),
    Mutant(
        "quiet-says-more",
        "savepoint -q prints more than the path",
        "flinkish/cli/commands/request_result.py",
        'out.line(savepoint["path"] if out.quiet else completed(savepoint))',
        "out.line(completed(savepoint))",
        ("tests/cli/test_lifecycle.py",),
    ),
    Mutant(
        "list-believes-the-registry",
        "list shows a job as running whose pid another process has now",
        "flinkish/registry/fast_list.py",
        'return fields[0] not in (b"Z", b"X") and int(fields[19]) == ticks',
        'return fields[0] not in (b"Z", b"X")',
        ("tests/cli/commands/test_list.py",),
    ),
)
