"""The configuration keys: their names, Flink's older names, defaults and meanings.

A key that Flink has too is named as in Flink 2.x; the other keys are flinkish's own. Every layer
also accepts the names of Flink 1.x, as Flink does (``ConfigOption.withDeprecatedKeys``).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    """One configuration key.

    Attributes
    ----------
    default
        The default as the documentation shows it. ``$XDG_STATE_HOME`` in it is resolved when the
        configuration is loaded.
    meaning
        One line for the documentation.
    old_names
        Other accepted names of the key: those of Flink 1.x, and short names of flinkish's own.
    kind
        One of ``string``, ``duration``, ``boolean``, ``int``, ``choice``, ``path``, ``url``.
    choices
        The allowed values of the kind ``choice``.
    least
        The shortest duration that is allowed, in seconds.
    """

    name: str
    default: str | None
    meaning: str
    old_names: tuple[str, ...] = ()
    kind: str = "string"
    choices: tuple[str, ...] = ()
    least: float = 0.0


KEYS: tuple[Key, ...] = (
    Key(
        "registry.url",
        "sqlite:///$XDG_STATE_HOME/flinkish/registry.db",
        "the job registry: sqlite:///PATH, a bare path, or postgresql://USER@HOST/DATABASE "
        "(in the environment also FLINKISH_REGISTRY)",
        ("registry",),
        "url",
    ),
    Key(
        "execution.checkpointing.savepoint-dir",
        None,
        "default directory for savepoints; without it, a command without TARGET fails "
        "with exit 2 and names this key",
        ("state.savepoints.dir",),
        "path",
    ),
    Key(
        "execution.checkpointing.dir",
        "$XDG_STATE_HOME/flinkish/checkpoints",
        "directory of the jobs' Spark checkpoints",
        ("state.checkpoints.dir",),
        "path",
    ),
    Key(
        "execution.state-recovery.path",
        None,
        "the savepoint to start from, as `run -s` (in the environment also "
        "FLINKISH_FROM_SAVEPOINT)",
        ("execution.savepoint.path", "from-savepoint"),
        "path",
    ),
    Key(
        "execution.state-recovery.ignore-unclaimed-state",
        "false",
        "skip savepoint state that no operator of the program takes, as `run -n`; ignored by "
        "`restart` and `upgrade`",
        ("execution.savepoint.ignore-unclaimed-state",),
        "boolean",
    ),
    Key(
        "execution.state-recovery.claim-mode",
        "no_claim",
        "who owns the savepoint after a restore, as `run -cm`; ignored by `restart` and `upgrade`",
        ("execution.savepoint-restore-mode",),
        "choice",
        ("no_claim", "claim"),
    ),
    Key(
        "execution.stream-graph-hasher.version",
        "v3",
        "hasher for the ids of operators without a uid",
        (),
        "choice",
        ("v2", "v3"),
    ),
    Key(
        "pipeline.auto-generate-uids",
        "true",
        "if false, a program is refused if an operator lacks a uid, whether it has state or not; "
        "the name of a query is the uid of its sink",
        (),
        "boolean",
    ),
    Key(
        "state.migration",
        "eager",
        "when a changed serializer rewrites values of typed state: eager, during the "
        "restore; lazy, when the program updates them",
        (),
        "choice",
        ("eager", "lazy"),
    ),
    Key(
        "engine.snapshot-modules",
        None,
        "comma-separated modules whose classes the snapshots of typed state may name, in place of "
        "the program's own",
    ),
    Key("parallelism.default", None, "state partitions (none: Spark's own setting)", (), "int"),
    Key(
        "client.timeout",
        "60 s",
        "how long the client waits before exit 14; for the start of a job, only if it is set",
        (),
        "duration",
    ),
    Key(
        "execution.savepoint.transfers",
        "64",
        "maximum number of files transferred to or from remote storage at the same time",
        (),
        "int",
    ),
    Key(
        "execution.savepoint.distributed",
        "auto",
        "whether a savepoint's files are copied by the job's executors (true) or by its "
        "driver (false); auto: by executors for 1 GiB or more between remote storages on a "
        "cluster",
        (),
        "choice",
        ("auto", "true", "false"),
    ),
    Key(
        "execution.checkpointing.timeout",
        "10 min",
        "how long a driver waits for the preconditions of a savepoint (the program's "
        "queries are started and have committed a batch) before it gives up the request; "
        "client.timeout limits the client's wait",
        (),
        "duration",
    ),
    Key(
        "execution.quiesce.timeout",
        "10 min",
        "how long stop and cancel -s wait for the running batch to end",
        (),
        "duration",
    ),
    Key(
        "execution.cancel.grace",
        "10 s",
        "how long a plain cancel waits for the running batch before interrupting it",
        (),
        "duration",
    ),
    Key(
        "execution.shutdown.grace",
        "30 s",
        "how long the program may run after its job was stopped",
        (),
        "duration",
    ),
    Key(
        "execution.savepoint-on-terminate",
        "false",
        "whether SIGTERM ends a job that another launcher started (`flinkish.attach()`) with a "
        "savepoint in execution.checkpointing.savepoint-dir",
        (),
        "boolean",
    ),
    Key(
        "execution.start.queries",
        None,
        "number of streaming queries that the program starts, as `run --queries`",
        (),
        "int",
    ),
    Key(
        "restart-strategy.type",
        "none",
        "whether a failed driver is restarted: none, fixed-delay, exponential-delay or "
        "failure-rate, as `run --restart-strategy`",
        ("restart-strategy",),
    ),
    Key("restart-strategy.fixed-delay.attempts", "1", "maximum number of restarts", (), "int"),
    Key("restart-strategy.fixed-delay.delay", "1 s", "delay before each restart", (), "duration"),
    Key(
        "restart-strategy.exponential-delay.initial-backoff",
        "1 s",
        "delay before the first restart",
        (),
        "duration",
    ),
    Key(
        "restart-strategy.exponential-delay.max-backoff",
        "1 min",
        "longest delay before a restart",
        (),
        "duration",
    ),
    Key(
        "restart-strategy.exponential-delay.backoff-multiplier",
        "1.5",
        "factor by which the delay grows with every failure",
    ),
    Key(
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        "1 h",
        "how long the job must run without a failure for the delay to be reset",
        (),
        "duration",
    ),
    Key(
        "restart-strategy.exponential-delay.jitter-factor",
        "0.1",
        "greatest fraction of the delay that is randomly added or subtracted",
    ),
    Key(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        "infinite",
        "number of restarts, without a reset of the delay, after which the next failure fails the "
        "job",
    ),
    Key(
        "restart-strategy.failure-rate.max-failures-per-interval",
        "1",
        "greatest number of failures per interval after which the job restarts; one more fails it",
        (),
        "int",
    ),
    Key(
        "restart-strategy.failure-rate.failure-rate-interval",
        "1 min",
        "interval in which failures are counted",
        (),
        "duration",
    ),
    Key("restart-strategy.failure-rate.delay", "1 s", "delay before each restart", (), "duration"),
    Key(
        "execution.stuck.timeout",
        "15 min",
        "how long a query that has input may commit nothing before `list --stuck` shows its job",
        (),
        "duration",
    ),
    Key(
        "notify.command",
        None,
        "shell command that a job's supervisor runs when the job has failed or runs again, or a "
        "savepoint failed or is overdue; it gets JSON on its standard input",
    ),
    Key(
        "notify.url",
        None,
        "URL to which the supervisor posts the same JSON; the registry records neither it nor the "
        "command",
    ),
    Key(
        "notify.timeout",
        "10 s",
        "how long each call of the command or URL may take",
        (),
        "duration",
    ),
    Key(
        "notify.savepoint-max-age",
        None,
        "age of the newest savepoint of a running job after which the next one is overdue",
        (),
        "duration",
    ),
    Key(
        "execution.heartbeat.interval",
        "2 s",
        "how often a driver reports to the registry, at least 1 s; a driver on another host "
        "counts as lost after 30 s without a report, or after three intervals if they are longer",
        (),
        "duration",
        least=1.0,
    ),
)

#: The keys by name.
BY_NAME: dict[str, Key] = {key.name: key for key in KEYS}
#: The keys that only a supervisor uses; the values of the URL and the command may hold a token.
NOTICES = tuple(key for key in KEYS if key.name.startswith("notify."))
#: Every name of a key, including those in ``old_names`` -> the key's ``name``.
CANONICAL: dict[str, str] = {old: key.name for key in KEYS for old in (key.name, *key.old_names)}


def canonical(key: str) -> str:
    """Return the ``name`` of the key that has ``key`` as any of its names; keep unknown keys."""
    return CANONICAL.get(key, key)


def environment_name(key: str) -> str:
    """Return a key's environment variable: ``FLINKISH_CLIENT_TIMEOUT`` for ``client.timeout``."""
    return "FLINKISH_" + key.upper().replace(".", "_").replace("-", "_")
