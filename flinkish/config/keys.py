"""The configuration keys: their names, Flink's older names, defaults and meanings.

The keys are those of Flink 2.x. Every layer also accepts the names of Flink 1.x (Flink:
``ConfigOption.withDeprecatedKeys``).
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
        Flink 1.x's names of the key.
    kind
        One of ``string``, ``duration``, ``boolean``, ``int``, ``choice``, ``path``, ``url``.
    choices
        The allowed values of the kind ``choice``.
    """

    name: str
    default: str | None
    meaning: str
    old_names: tuple[str, ...] = ()
    kind: str = "string"
    choices: tuple[str, ...] = ()


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
        "where savepoints go; none and no TARGET: the trigger fails, exit 2, naming this key",
        ("state.savepoints.dir",),
        "path",
    ),
    Key(
        "execution.checkpointing.dir",
        "$XDG_STATE_HOME/flinkish/checkpoints",
        "where jobs' Spark checkpoints live",
        ("state.checkpoints.dir",),
        "path",
    ),
    Key(
        "execution.state-recovery.path",
        None,
        "the savepoint to start from, as `run -s`",
        ("execution.savepoint.path",),
        "path",
    ),
    Key(
        "execution.state-recovery.ignore-unclaimed-state",
        "false",
        "skip savepoint state that no operator of the program takes, as `run -n`",
        ("execution.savepoint.ignore-unclaimed-state",),
        "boolean",
    ),
    Key(
        "execution.state-recovery.claim-mode",
        "no_claim",
        "who owns the savepoint after a restore, as `run -cm`",
        ("execution.savepoint-restore-mode",),
        "choice",
        ("no_claim", "claim"),
    ),
    Key(
        "execution.stream-graph-hasher.version",
        "v3",
        "operator ids of operators without a uid",
        (),
        "choice",
        ("v2", "v3"),
    ),
    Key(
        "pipeline.auto-generate-uids",
        "true",
        "false: submission fails if any operator lacks a uid",
        (),
        "boolean",
    ),
    Key(
        "state.migration",
        "eager",
        "when values of typed state are written again by a changed serializer: eager, in the "
        "restore; lazy, when the program updates them",
        (),
        "choice",
        ("eager", "lazy"),
    ),
    Key(
        "engine.snapshot-modules",
        None,
        "modules whose classes the snapshots of typed state may name, separated by commas (none: "
        "the program's own)",
    ),
    Key("parallelism.default", None, "state partitions (none: Spark's own setting)", (), "int"),
    Key("client.timeout", "60 s", "how long the client waits before exit 14", (), "duration"),
    Key(
        "execution.savepoint.transfers",
        "64",
        "how many files are on their way to or from remote storage at once",
        (),
        "int",
    ),
    Key(
        "execution.savepoint.distributed",
        "auto",
        "who copies a savepoint's files: true, the job's executors; false, its driver; auto, the "
        "executors from 1 GiB on, between remote storages, on a cluster",
        (),
        "choice",
        ("auto", "true", "false"),
    ),
    Key(
        "execution.checkpointing.timeout",
        "10 min",
        "how long a driver waits for what a savepoint needs (that the program starts its queries, "
        "their first batches) before it gives the request up; how long a client waits is "
        "client.timeout",
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
        "how long the program may go on after its job was stopped",
        (),
        "duration",
    ),
    Key(
        "execution.start.queries",
        None,
        "how many streaming queries the program starts, as `run --queries`",
        (),
        "int",
    ),
    Key(
        "restart-strategy.type",
        "none",
        "whether a job whose driver fails is started again: none, fixed-delay, "
        "exponential-delay or failure-rate, as `run --restart-strategy`",
        ("restart-strategy",),
    ),
    Key("restart-strategy.fixed-delay.attempts", "1", "how often it is started again", (), "int"),
    Key("restart-strategy.fixed-delay.delay", "1 s", "the time before each start", (), "duration"),
    Key(
        "restart-strategy.exponential-delay.initial-backoff",
        "1 s",
        "the time before the first start",
        (),
        "duration",
    ),
    Key(
        "restart-strategy.exponential-delay.max-backoff",
        "1 min",
        "the longest time before a start",
        (),
        "duration",
    ),
    Key(
        "restart-strategy.exponential-delay.backoff-multiplier",
        "1.5",
        "by how much the time grows with every failure",
    ),
    Key(
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        "1 h",
        "how long the job must run without a failure for the time to be the first one again",
        (),
        "duration",
    ),
    Key(
        "restart-strategy.exponential-delay.jitter-factor",
        "0.1",
        "the part of the time that is added or subtracted at random",
    ),
    Key(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        "infinite",
        "how many failures without such a time end the job",
    ),
    Key(
        "restart-strategy.failure-rate.max-failures-per-interval",
        "1",
        "how many failures in the interval do not end the job",
        (),
        "int",
    ),
    Key(
        "restart-strategy.failure-rate.failure-rate-interval",
        "1 min",
        "the interval in which failures are counted",
        (),
        "duration",
    ),
    Key("restart-strategy.failure-rate.delay", "1 s", "the time before each start", (), "duration"),
    Key(
        "execution.heartbeat.interval",
        "2 s",
        "how often a driver reports to the registry",
        (),
        "duration",
    ),
)

#: The keys by name.
BY_NAME: dict[str, Key] = {key.name: key for key in KEYS}
#: Every name of a key, including those of Flink 1.x -> its name in Flink 2.x.
CANONICAL: dict[str, str] = {old: key.name for key in KEYS for old in (key.name, *key.old_names)}


def canonical(key: str) -> str:
    """Return the Flink 2.x name of a key given by any of its names; keep unknown keys."""
    return CANONICAL.get(key, key)


def environment_name(key: str) -> str:
    """Return a key's environment variable: ``FLINKISH_CLIENT_TIMEOUT`` for ``client.timeout``."""
    return "FLINKISH_" + key.upper().replace(".", "_").replace("-", "_")
