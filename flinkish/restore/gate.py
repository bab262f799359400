"""The gate before a driver is started: may this Spark go on with that savepoint at all?

Looks the savepoint's Spark version and the state formats it really uses up in the version matrix
(:mod:`flinkish.compat`). The format and the required features of the savepoint itself are checked
where it is opened (:mod:`flinkish.savepoint.metadata`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.checkpoint import layout
from flinkish.compat.data import load
from flinkish.compat.gate import Exit, check_versions
from flinkish.compat.lookup import Use, judge
from flinkish.compat.model import SPARK
from flinkish.compat.uses import uses_of
from flinkish.compat.versions import parse_version
from flinkish.errors import FlinkishError, Incompatible, UsageError
from flinkish.restore.donors import read_logs
from flinkish.restore.offers import Offer, Offers
from flinkish.restore.verdicts import Check, Outcome

CHECK_ID = "spark-version"


@dataclass(frozen=True)
class Gate:
    """What the matrix says of a restore. ``record`` is plain data: ``from``, ``to``, ``verdict``,
    ``limitations``; ``error`` is the refusal, or None."""

    record: dict[str, Any]
    check: Check
    error: Incompatible | None = None


def version_gate(offers: Offers, spark: str | None) -> Gate:
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
        matrix = load(SPARK)
        judgement = judge(
            matrix, parse_version(created, SPARK), parse_version(spark, SPARK), _uses(offers)
        )
    except UsageError as error:  # a version nobody can read: a build of one's own
        return _unknown(created, spark, error.message)
    found = check_versions(judgement)
    record = {
        "from": created,
        "to": spark,
        "verdict": judgement.verdict.value,
        "limitations": [{"id": one.id, "text": one.text} for one in judgement.limitations],
    }
    outcome = {Exit.FINE: Outcome.NOTE, Exit.WARNED: Outcome.WARNING, Exit.REFUSED: Outcome.REFUSED}
    text = found.message or f"Spark {spark} resumes savepoints of Spark {created}"
    check = Check(CHECK_ID, outcome[found.exit] if found.message else Outcome.OK, text, found.hint)
    return Gate(record, check, found.error())


def _unknown(created: str | None, spark: str | None, why: str) -> Gate:
    record: dict[str, Any] = {
        "from": created,
        "to": spark,
        "verdict": "unknown",
        "limitations": [],
    }
    text = f"whether this Spark can resume it was not looked up: {why}"
    return Gate(record, Check(CHECK_ID, Outcome.WARNING, text, "see flinkish compat"))


def _uses(offers: Offers) -> Sequence[Use]:
    found: dict[Use, None] = {}
    for offer in offers.by_key.values():
        for use in _uses_of(offer):
            found.setdefault(use)
    return list(found)


def _uses_of(offer: Offer) -> Sequence[Use]:
    try:
        log_version = read_logs(offer.donor).offsets.version
    except FlinkishError:
        log_version = 1  # the restore reads the log too, and says what is wrong with it
    return uses_of(
        offer.pins,
        backend=layout.backend_of(offer.pins),
        kinds=[op.kind for op in offer.query.operators],
        checkpoint_format=offer.checkpoint_format,
        offset_log_version=log_version,
        changelog=any(path.endswith(".changelog") for path in offer.donor.files),
    )
