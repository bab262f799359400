"""What the help and the man pages say about commands beyond their declarations.

This module has the sections of commands and of options, and two examples of each command. Commands
import it for their help only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import click

#: The commands in the overview, by task.
COMMANDS: Mapping[str, Sequence[str]] = {
    "Run jobs": ("run", "list", "status", "logs", "wait", "cancel"),
    "Savepoints": ("savepoint", "stop", "check", "rehearse", "export", "migrate", "state"),
    "Upgrades and failures": ("upgrade", "restart", "recover", "ack", "purge"),
    "Programs and versions": ("info", "bundle", "compat"),
    "Scripts and monitoring": ("checkpoint", "request", "metrics", "schema"),
    "Setup": ("config", "completion"),
}

#: The section of a command's own options.
OWN = "Options"
_SPARK = "Program and Spark options"
_RESTORE = "Restore options"
_RETENTION = "Retention options"
_OUTPUT = "Output and configuration"
#: The sections of options that several commands share, by the parameter's name.
_SECTION_BY_OPTION = {
    name: section
    for section, names in {
        _RESTORE: "allow_non_restored fork uid_map path_map reset_sources set_offsets sink_ahead "
        "accept_lost_rows accept_repeated_rows accept_partial offline verify claim_mode",
        _RETENTION: "keep_last keep_within keep_hourly keep_daily keep_weekly",
        _SPARK: "application parallelism master deploy_mode program module py_files archives "
        "python client_python jars packages spark_home conf secret_arguments",
        _OUTPUT: "verbose dynamic json_output quiet debug",
    }.items()
    for name in names.split()
}
#: The spellings of Flink's deployment target; any other parameter ``target`` is a directory.
_FLINKS_TARGET = ["-t", "--target"]

#: Two examples of each command: what each example is for, and its words.
EXAMPLES: Mapping[str, Sequence[tuple[str, str]]] = {
    "run": (
        ("start a job, and return when it runs", "run -d --name orders orders.py /data/in"),
        ("go on from a savepoint", "run -d -s /savepoints/savepoint-6f1a2b-0c3d orders.py"),
    ),
    "list": (
        ("all jobs, including those that have ended", "list -a"),
        ("jobs that commit nothing though they have input", "list --stuck"),
    ),
    "info": (
        ("the operators of a program, and their uids", "info orders.py /data/in"),
        ("refuse a program with an operator without a uid", "info --require-uids all orders.py"),
    ),
    "status": (
        ("one job with its queries and operators", "status orders"),
        ("until Ctrl-C", "status --watch orders"),
    ),
    "savepoint": (
        ("save a running job", "savepoint orders s3://bucket/savepoints"),
        (
            "every hour, from a crontab",
            "savepoint --all -q --keep-last 3 --keep-daily 7 s3://bucket/savepoints",
        ),
    ),
    "savepoint list": (
        ("the savepoints of a directory", "savepoint list s3://bucket/savepoints"),
        ("those that the registry knows", "savepoint list --registry"),
    ),
    "savepoint show": (
        ("what is inside", "savepoint show /savepoints/savepoint-6f1a2b-0c3d"),
        (
            "how far Kafka is ahead",
            "savepoint show --lag --bootstrap-server kafka:9092 /savepoints/savepoint-6f1a2b-0c3d",
        ),
    ),
    "savepoint diff": (
        ("what has changed between two", "savepoint diff savepoint-a savepoint-b"),
        ("for scripts: 1 if they differ", "savepoint diff --exit-code savepoint-a savepoint-b"),
    ),
    "savepoint report": (
        (
            "a page about the savepoints of a directory",
            "savepoint report -o report.html s3://bucket/savepoints",
        ),
        ("its data", "savepoint report --json s3://bucket/savepoints"),
    ),
    "savepoint copy": (
        (
            "copy a savepoint to another storage",
            "savepoint copy /savepoints/savepoint-6f1a2b-0c3d s3://bucket/savepoints",
        ),
        ("what would be sent", "savepoint copy --dry-run savepoint-a gs://bucket/savepoints"),
    ),
    "savepoint verify": (
        ("compare every digest", "savepoint verify /savepoints/savepoint-6f1a2b-0c3d"),
        ("compare sizes only", "savepoint verify --level quick /savepoints/*"),
    ),
    "savepoint prune": (
        (
            "what a policy would remove",
            "savepoint prune --keep-daily 7 --dry-run s3://bucket/savepoints",
        ),
        ("remove it", "savepoint prune --keep-daily 7 --yes s3://bucket/savepoints"),
    ),
    "savepoint import": (
        ("savepoints of another registry", "savepoint import s3://bucket/savepoints"),
        ("one savepoint", "savepoint import /savepoints/savepoint-6f1a2b-0c3d"),
    ),
    "savepoint unlock": (
        ("what is locked, and by whom", "savepoint unlock --dry-run s3://bucket/savepoints"),
        ("remove the locks of dead processes", "savepoint unlock s3://bucket/savepoints"),
    ),
    "stop": (
        ("stop a job with a savepoint", "stop orders -p s3://bucket/savepoints"),
        ("stop all jobs, before the cluster changes", "stop --all -p s3://bucket/savepoints"),
    ),
    "cancel": (
        ("end a job without a savepoint", "cancel orders"),
        ("with one", "cancel -s s3://bucket/savepoints orders"),
    ),
    "wait": (
        ("until a job has nothing left to read", "wait orders --for idle"),
        ("until it has ended, at most an hour", "wait orders --for ended --timeout 1h"),
    ),
    "check": (
        (
            "would a new version go on from a savepoint?",
            "check -s /savepoints/savepoint-6f1a2b-0c3d orders_v2.py",
        ),
        ("would it take a running job over?", "check orders orders_v2.py"),
    ),
    "rehearse": (
        (
            "run a new version for three batches on a copy",
            "rehearse -s /savepoints/savepoint-6f1a2b-0c3d orders_v2.py",
        ),
        ("with the state of a running job", "rehearse orders --batches 10 orders_v2.py"),
    ),
    "export": (
        (
            "checkpoints that plain Spark continues",
            "export /savepoints/savepoint-6f1a2b-0c3d /checkpoints/orders",
        ),
        (
            "with the state of a new version",
            "export /savepoints/savepoint-6f1a2b-0c3d /checkpoints/orders orders_v2.py",
        ),
    ),
    "bundle": (
        ("a program with the agent, for spark-submit", "bundle -o orders_job.py orders.py"),
        ("the agent alone", "bundle -o flinkish-agent.zip"),
    ),
    "ack": (
        ("a failed job that needs no more attention", "ack orders"),
        ("all of them", "ack --all"),
    ),
    "restart": (
        ("resume a job where it ended", "restart orders"),
        (
            "as a new job, on another cluster",
            "restart orders --master spark://new-cluster:7077",
        ),
    ),
    "recover": (
        ("restart the jobs that a reboot has ended", "recover"),
        ("show which those are", "recover --dry-run"),
    ),
    "purge": (
        ("what could be removed", "purge --ended-before 30d --dry-run"),
        ("remove it", "purge --ended-before 30d --yes"),
    ),
    "upgrade in-place": (
        (
            "stop, start the new version, go back if it fails",
            "upgrade in-place orders --to orders_v2.py",
        ),
        ("start the new version before the old one stops", "upgrade in-place orders --handover"),
    ),
    "upgrade shadow": (
        ("run a new version beside the old one", "upgrade shadow orders --to orders_v2.py"),
        ("let it take over", "upgrade shadow orders --promote"),
    ),
    "upgrade fleet": (
        ("what would be upgraded", "upgrade fleet fleet.toml --dry-run"),
        ("two jobs at a time", "upgrade fleet fleet.toml --jobs 2"),
    ),
    "upgrade resume": (
        ("continue an upgrade that was cut off", "upgrade resume 4f2a"),
        ("continue the upgrade of a host that is gone", "upgrade resume --force 4f2a"),
    ),
    "upgrade rollback": (
        ("undo an upgrade", "upgrade rollback 4f2a"),
        (
            "undo it, and roll the job's table back to the savepoint",
            "upgrade rollback --sink-ahead rollback 4f2a",
        ),
    ),
    "migrate": (
        ("to 64 state partitions", "migrate -p 64 savepoint-a /savepoints"),
        ("to another state backend", "migrate --backend rocksdb savepoint-a /savepoints"),
    ),
    "state show": (
        ("some rows of an operator's state", "state show savepoint-a totals --limit 20"),
        ("one key", "state show savepoint-a totals --where \"key.customer = 'c1'\""),
    ),
    "state export": (
        ("the state as Parquet", "state export savepoint-a totals /tmp/totals"),
        ("as JSON lines", "state export savepoint-a totals /tmp/totals --format json"),
    ),
    "compat": (
        ("which Spark resumes what", "compat"),
        ("from one version to another", "compat 3.5.9 4.3.0"),
    ),
    "checkpoint": (
        ("wait for the next batch of each query", "checkpoint orders"),
        ("show the newest batches", "checkpoint --no-wait orders"),
    ),
    "request show": (
        ("what became of a detached savepoint", "request show 0c3d"),
        ("as JSON", "request show --json 0c3d"),
    ),
    "request wait": (
        ("until it is complete", "request wait 0c3d"),
        ("at most ten minutes", "request wait --timeout 10min 0c3d"),
    ),
    "logs": (
        ("the driver's log, as it grows", "logs -f orders"),
        ("its errors of the last hour", "logs --level error --since 1h orders"),
    ),
    "metrics": (
        ("for the textfile collector", "metrics -o /var/lib/node_exporter/flinkish.prom"),
        ("for Prometheus to scrape", "metrics --listen 127.0.0.1:9464"),
    ),
    "config show": (
        ("every key", "config show"),
        ("and where each value comes from", "config show --origin"),
    ),
    "schema": (
        ("the JSON Schema of list --json", "schema list"),
        ("that of savepoint show --json", "schema savepoint show"),
    ),
    "completion": (
        ("for bash", "completion bash"),
        ("for fish", "completion fish"),
    ),
}


def options_by_section(parameters: Iterable[click.Parameter]) -> dict[str, list[click.Option]]:
    """Return the options among the parameters by section title, the command's own first."""
    sections: dict[str, list[click.Option]] = {
        title: [] for title in (OWN, _RESTORE, _RETENTION, _SPARK, _OUTPUT)
    }
    for parameter in parameters:
        if isinstance(parameter, click.Option):
            sections[_section(parameter)].append(parameter)
    return {title: options for title, options in sections.items() if options}


def _section(option: click.Option) -> str:
    if option.opts == _FLINKS_TARGET:
        return _SPARK
    if "--help" in option.opts:
        return _OUTPUT
    return _SECTION_BY_OPTION.get(option.name or "", OWN)


def examples_of(name: str) -> Sequence[tuple[str, str]]:
    """Return the examples of a command: what each is for, and the command line to paste."""
    return [(purpose, f"flinkish {words}") for purpose, words in EXAMPLES.get(name, ())]
