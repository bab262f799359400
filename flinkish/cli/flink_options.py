"""Flink's options without a counterpart of the same name, and what to use in flinkish. Pure.

Sources: ``CliFrontendParser``, ``GenericCLI``, ``ProgramOptions`` and ``FlinkYarnSessionCli`` of
Flink 1.20 and 2.x.
"""

from __future__ import annotations

from dataclasses import dataclass

_JOBS = ("list", "stop", "cancel", "savepoint", "checkpoint")
_PROGRAMS = ("run", "info", "check", "rehearse", "export")
_ACTIONS = (*_PROGRAMS, *_JOBS)
_REGISTRY = "jobs are found in the registry, not by a cluster's address: set -D registry.url=URL"


@dataclass(frozen=True)
class FlinkOption:
    """An option of Flink, what to use instead, and the flinkish commands that explain this."""

    spellings: tuple[str, ...]
    instead: str
    commands: tuple[str, ...]


FLINK_OPTIONS = (
    FlinkOption(
        ("-c", "--class"),
        "jobs are PySpark programs, not Java or Scala classes; save the checkpoint of a streaming "
        "application in a jar with: flinkish savepoint --from-checkpoint URL",
        _PROGRAMS,
    ),
    FlinkOption(
        ("-a", "--arguments"),
        "write the program's arguments after its name: APP.py ARGS...",
        _PROGRAMS,
    ),
    FlinkOption(
        ("-pyreq", "--pyRequirements"),
        "pack the requirements into an archive (venv-pack, conda-pack): "
        "-pyarch env.tar.gz#env -pyexec env/bin/python",
        _PROGRAMS,
    ),
    FlinkOption(
        ("-pypath", "--pyPythonPath"),
        "set the executors' path with --conf spark.executorEnv.PYTHONPATH=PATH, or ship files "
        "with -pyfs",
        _PROGRAMS,
    ),
    FlinkOption(("-e", "--executor"), "use -t, or -m and --deploy-mode", _PROGRAMS),
    FlinkOption(
        ("-m", "--jobmanager", "-t", "--target", "-e", "--executor", "-yid", "--yarnapplicationId"),
        _REGISTRY,
        _JOBS,
    ),
    FlinkOption(
        ("-z", "--zookeeperNamespace", "-yz", "--yarnzookeeperNamespace"), _REGISTRY, _ACTIONS
    ),
    FlinkOption(
        ("-j", "--jarfile"), "disposing of a savepoint needs no program: omit it", ("savepoint",)
    ),
    FlinkOption(
        ("-full", "--full"),
        "Spark determines what each batch's checkpoint contains; for a savepoint that shares no "
        "files with earlier ones: flinkish savepoint --full JOB",
        ("checkpoint",),
    ),
    FlinkOption(
        ("-detached", "--detached"),
        "no checkpoint is triggered, as Spark checkpoints every batch: --no-wait shows the newest",
        ("checkpoint",),
    ),
    FlinkOption(
        ("-yid", "--yarnapplicationId"),
        "Spark has no session clusters: -m yarn starts an application for each job",
        _PROGRAMS,
    ),
    FlinkOption(("-yd", "--yarndetached"), "use -d (only run has it)", _PROGRAMS),
    FlinkOption(("-ynm", "--yarnname"), "use --name NAME (only run has it)", _PROGRAMS),
    FlinkOption(("-yqu", "--yarnqueue"), "use --conf spark.yarn.queue=QUEUE", _PROGRAMS),
    FlinkOption(
        ("-yjm", "--yarnjobManagerMemory"), "use --conf spark.driver.memory=SIZE", _PROGRAMS
    ),
    FlinkOption(
        ("-ytm", "--yarntaskManagerMemory"), "use --conf spark.executor.memory=SIZE", _PROGRAMS
    ),
    FlinkOption(("-ys", "--yarnslots"), "use --conf spark.executor.cores=N", _PROGRAMS),
    FlinkOption(("-yn", "--yarncontainer"), "use --conf spark.executor.instances=N", _PROGRAMS),
    FlinkOption(
        ("-ynl", "--yarnnodeLabel"),
        "use --conf spark.yarn.executor.nodeLabelExpression=LABEL",
        _PROGRAMS,
    ),
    FlinkOption(
        ("-yat", "--yarnapplicationType"), "use --conf spark.yarn.applicationType=TYPE", _PROGRAMS
    ),
    FlinkOption(
        ("-yt", "--yarnship"),
        "ship files with -pyfs, archives with -pyarch, jars with -C",
        _PROGRAMS,
    ),
    FlinkOption(
        ("-yj", "--yarnjar"),
        "choose a Spark installation, which includes its jars, with --spark-home DIR",
        _PROGRAMS,
    ),
    FlinkOption(("-yst", "--yarnstreaming"), "every job is a streaming job: omit it", _PROGRAMS),
    FlinkOption(
        ("-yq", "--yarnquery"), "show the resources of the cluster with: yarn node -list", _ACTIONS
    ),
    FlinkOption(("-yh", "--yarnhelp"), "use -h", _ACTIONS),
    FlinkOption(
        ("-yD",), "use -D KEY=VALUE for Flink's keys, --conf KEY=VALUE for Spark's", _ACTIONS
    ),
)


def instead_of(command: str | None, word: str) -> str | None:
    """Return what ``command`` has instead of Flink's option ``word``; None for other words."""
    name = "-yD" if word.startswith("-yD") else word.partition("=")[0]
    for option in FLINK_OPTIONS:
        if name in option.spellings and command in option.commands:
            return option.instead
    return None
