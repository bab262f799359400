"""The gate before a driver is started: may this Spark go on with that savepoint at all?

Looks the savepoint's Spark version and the state formats it really uses up in the version matrix
(:mod:`flinkish.compat`). What the engine can rewrite is no reason to refuse: :func:`fit_offers`
has the savepoint as it will be. The format and the required features of the savepoint itself are
checked where it is opened (:mod:`flinkish.savepoint.format.metadata`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from flinkish.checkpoint.format.pins import backend_of
from flinkish.compat.data import load
from flinkish.compat.gate import Exit, check_versions, rewrites_of
from flinkish.compat.lookup import Judgement, Use, judge
from flinkish.compat.model import SPARK, Rewrite
from flinkish.compat.uses import uses_of
from flinkish.compat.versions import parse_version
from flinkish.errors import FlinkishError, Incompatible, UsageError
from flinkish.restore.materialize.source_checkpoints import read_logs
from flinkish.restore.plan.verdicts import Check, RestoreOutcome
from flinkish.restore.source.restore_source import RestorableQuery, RestoreSource
from flinkish.restore.source.spark_compat import fit_query

CHECK_ID = "spark-version"


@dataclass(frozen=True)
class Gate:
    """What the matrix says of a restore. ``record`` is plain data: ``from``, ``to``, ``verdict``,
    ``limitations``; ``error`` is the refusal, or None."""

    record: dict[str, Any]
    check: Check
    error: Incompatible | None = None


def version_gate(offers: RestoreSource, spark: str | None) -> Gate:
    """Look up (the savepoint's Spark and formats) x (the Spark that will run).

    Parameters
    ----------
    spark: the version of the Spark that will run; None when its installation does not say.

    Raises Corrupt when the savepoint's logs are damaged.
    """
    created = offers.spark_version
    try:
        if created is None or spark is None:
            who = (
                "the checkpoint does not say which Spark wrote it"
                if created is None
                else ("the version of the Spark that will run is not known")
            )
            return _unknown(created, spark, who)
        judgement = _judge(offers, created, spark)
    except UsageError as error:  # a version nobody can read: a build of one's own
        return _unknown(created, spark, error.message)
    found = check_versions(judgement)
    record = {
        "from": created,
        "to": spark,
        "verdict": judgement.verdict.value,
        "limitations": [{"id": one.id, "text": one.text} for one in judgement.limitations],
    }
    outcome = {
        Exit.FINE: RestoreOutcome.NOTE,
        Exit.WARNED: RestoreOutcome.WARNING,
        Exit.REFUSED: RestoreOutcome.REFUSED,
    }
    text = found.message or f"Spark {spark} resumes savepoints of Spark {created}"
    check = Check(
        CHECK_ID, outcome[found.exit] if found.message else RestoreOutcome.OK, text, found.hint
    )
    return Gate(record, check, found.error())


def fit_offers(offers: RestoreSource, spark: str | None) -> RestoreSource:
    """The queries of a savepoint as the Spark that will run needs them; the same ones where it
    needs nothing, or where nobody knows.

    Parameters
    ----------
    spark: as in :func:`version_gate`, which has refused what cannot be.
    """
    if spark is None:
        return offers
    needed: frozenset[Rewrite] | None = frozenset()
    try:
        major, minor = parse_version(spark, SPARK).line.split(".")
        if offers.spark_version is not None:
            needed = rewrites_of(_judge(offers, offers.spark_version, spark))
    except UsageError:  # as in version_gate
        return offers
    if needed is None:
        return offers
    running = int(major), int(minor)
    fitted = {}
    for key, offer in offers.by_key.items():
        query, fit = fit_query(offer.query, offer.checkpoint_format, needed, running, spark)
        fitted[key] = replace(
            offer,
            query=query,
            pins={**offer.pins, **fit.formats},
            checkpoint_format=fit.checkpoint_format or offer.checkpoint_format,
            fit=fit,
        )
    return replace(offers, by_key=fitted)


def _judge(offers: RestoreSource, created: str, spark: str) -> Judgement:
    """UsageError for a version that nobody can read."""
    saved, running = (parse_version(version, SPARK) for version in (created, spark))
    return judge(load(SPARK), saved, running, _uses(offers))


def _unknown(created: str | None, spark: str | None, why: str) -> Gate:
    record: dict[str, Any] = {
        "from": created,
        "to": spark,
        "verdict": "unknown",
        "limitations": [],
    }
    text = f"whether this Spark can resume it was not looked up: {why}"
    return Gate(record, Check(CHECK_ID, RestoreOutcome.WARNING, text, "see flinkish compat"))


def _uses(offers: RestoreSource) -> Sequence[Use]:
    found: dict[Use, None] = {}
    for offer in offers.by_key.values():
        for use in _uses_of(offer):
            found.setdefault(use)
    return list(found)


def _uses_of(offer: RestorableQuery) -> Sequence[Use]:
    try:
        log_version = read_logs(offer.origin).offsets.version
    except FlinkishError:
        log_version = 1  # the restore reads the log too, and says what is wrong with it
    return uses_of(
        offer.pins,
        backend=backend_of(offer.pins),
        kinds=[op.kind for op in offer.query.operators],
        checkpoint_format=offer.checkpoint_format,
        offset_log_version=log_version,
        changelog=any(path.endswith(".changelog") for path in offer.origin.files),
    )
