"""Faults in the registry, the command line and the configuration."""

from __future__ import annotations

from tools.mutants.model import Mutant
from tools.mutants.operators import Choose, Drop, Entry, Replace, Return, Swap, Text

_USAGE = ("tests/cli/test_usage.py",)

MUTANTS = (
    Mutant(
        "final-state-left",
        "a failed job may run again under its id",
        "TRANSITIONS",
        Entry("_S.FAILED", "frozenset({_S.RUNNING})"),
        ("tests/registry/test_jobs.py", "tests/registry/test_history.py"),
    ),
    Mutant(
        "heartbeat-never-stale",
        "a driver on another host that is silent counts as lost after ten minutes, not 30 s",
        "silence_limit",
        Replace("max(STALE, 3 * _interval(job))", "STALE_START"),
        ("tests/registry/test_liveness.py",),
    ),
    Mutant(
        "zombies-alive",
        "a driver that has ended and was not waited for counts as alive",
        "is_alive",
        Drop("status not in 'ZX'"),
        ("tests/registry/test_liveness.py",),
    ),
    Mutant(
        "reused-pid-alive",
        "another process with the driver's pid is taken for the driver",
        "is_alive",
        Drop("ref.start_ticks in (None, ticks)"),
        ("tests/registry/test_liveness.py",),
    ),
    Mutant(
        "request-claimed-twice",
        "a request that was claimed can be claimed again",
        "Mailbox.claim.work",
        Text("state = 'IN_PROGRESS', ", ""),
        ("tests/registry/test_job_registry.py",),
    ),
    Mutant(
        "result-given-twice",
        "a request that has its result gets another one",
        "Mailbox.complete",
        Replace("f'state IN {_UNFINISHED}'", "'1 = 1'"),
        ("tests/registry/test_job_registry.py",),
    ),
    Mutant(
        "second-stop-accepted",
        "a job that is being stopped can be stopped a second time",
        "Mailbox.submit.work",
        Replace("kind in jobs.ENDS", "kind not in RequestKind"),
        ("tests/registry/test_job_registry.py",),
    ),
    Mutant(
        "newer-schema-accepted",
        "a registry that a newer flinkish has written is opened",
        "check_version",
        Replace("version > VERSION", "version > 2 * VERSION"),
        ("tests/registry/test_sqlite.py",),
    ),
    Mutant(
        "migrations-from-the-start",
        "a registry of an older schema gets all migrations, not those it lacks",
        "registry.database:migrate",
        Replace(
            "enumerate(MIGRATIONS[version:], start=version + 1)", "enumerate(MIGRATIONS, start=1)"
        ),
        ("tests/registry/test_sqlite.py",),
    ),
    Mutant(
        "disposed-savepoint-newest",
        "a disposed savepoint is shown as the last one of its job",
        "SavepointTable.last_savepoints",
        Text(r" AND (n\.)?disposed IS NULL", ""),
        ("tests/registry/test_job_registry.py", "tests/cli/commands/test_list.py"),
    ),
    Mutant(
        "secrets-in-the-registry",
        "secret Spark settings are kept in the registry in clear",
        "without_secrets",
        Swap("launch.conf", "hidden"),
        ("tests/launch/test_secret_settings.py",),
    ),
    Mutant(
        "passwords-shown",
        "passwords in URLs are shown",
        "mask_secrets",
        Replace(r"_URL_PASSWORD.sub(f'\\1:{MASK}@', text)", r"_URL_PASSWORD.sub('\\g<0>', text)"),
        ("tests/config/test_loader.py",),
    ),
    Mutant(
        "user-file-before-project",
        "the user's configuration wins over ./flinkish.toml",
        "config_files",
        Swap("os.path.join(cwd, 'flinkish.toml')", "user"),
        ("tests/config/test_loader.py",),
    ),
    Mutant(
        "bare-number-milliseconds",
        "a duration without a unit is in milliseconds",
        "config.values:_UNITS",
        Entry("''", "1e-3"),
        ("tests/config/test_loader.py",),
    ),
    Mutant(
        "consent-needed-as-success",
        "where consent is needed the command ends with 0 instead of 5",
        "cli.output.printer:report",
        Return("0 if error.code == 5 else error.code", was="error.code"),
        ("tests/cli/test_savepoint_care.py", *_USAGE),
    ),
    Mutant(
        "error-id-missing",
        "errors in JSON do not tell which error it is",
        "FlinkishError.to_record",
        Entry("'id'", "FlinkishError.id"),
        _USAGE,
    ),
    Mutant(
        "usage-error-as-failure",
        "a wrong command line ends with 1 instead of 2",
        "cli.app:run",
        Replace(
            "report(_usage_error(error), outputs[-1])",
            "min(1, report(_usage_error(error), outputs[-1]))",
        ),
        _USAGE,
    ),
    Mutant(
        "timeout-as-failure",
        "a client that has waited too long ends with 1 instead of 14",
        "WaitTimeout",
        Replace("14", "1"),
        ("tests/registry/test_waiting.py", "tests/cli/test_lifecycle.py"),
    ),
    Mutant(
        "no-patience",
        "a client that waits for a result gives up at once, whatever --timeout says",
        "wait_request",
        Drop("now >= deadline"),
        ("tests/registry/test_waiting.py",),
    ),
    Mutant(
        "quiet-says-more",
        "savepoint -q prints more than the path",
        "show_result",
        Choose("out.quiet", always=False),
        ("tests/cli/test_lifecycle.py",),
    ),
    Mutant(
        "list-believes-the-registry",
        "list shows a job as running whose pid another process has now",
        "_certainly_alive",
        Drop("int(fields[19]) == ticks"),
        ("tests/cli/commands/test_list.py",),
    ),
)
