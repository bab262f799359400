"""The version check before a driver is started: whether this Spark can resume the savepoint.

It looks up the savepoint's Spark version and the state formats that it really uses in the version
matrix (:mod:`flinkish.compat`). State that the engine can rewrite is no reason to refuse, and
:func:`fit_offers` returns the savepoint as it will be after the rewrite. The format and the
required features of the savepoint itself are checked when it is opened
(:mod:`flinkish.savepoint.format.metadata`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flinkish.checkpoint.format.pins import backend_of
from flinkish.compat.data import load
from flinkish.compat.decision import Exit, check_versions, rewrites_of
from flinkish.compat.lookup import Judgement, Use, judge, uses_of
from flinkish.compat.model import SPARK, Rewrite, parse_version
from flinkish.errors import FlinkishError, Incompatible, UsageError
from flinkish.messages.plan import Check, RestoreOutcome, SparkLimitation, SparkVersions
from flinkish.restore.materialize.origin_checkpoints import read_logs
from flinkish.restore.origin.restore_origin import RestorableQuery, RestoreOrigin
from flinkish.restore.origin.spark_compat import fit_query

CHECK_ID = "spark-version"


@dataclass(frozen=True)
class VersionCheck:
    """The version matrix's answer for a restore.

    Attributes
    ----------
    error
        The refusal, or None.
    """

    versions: SparkVersions
    check: Check
    error: Incompatible | None = None


def check_spark_version(offers: RestoreOrigin, spark: str | None) -> VersionCheck:
    """Look up in the version matrix whether the Spark that will run can resume the savepoint.

    A damaged log is not reported here, because the restore reads the log too, and reports it.

    ``spark`` is the version of the Spark that will run, None if its installation does not say.
    """
    created = offers.spark_version
    try:
        if created is None or spark is None:
            why = (
                "the checkpoint does not record which Spark wrote it"
                if created is None
                else "the version of the Spark to be run is unknown"
            )
            return _unknown(created, spark, why)
        judgement = _judge(offers, created, spark)
    except UsageError as error:  # a version that cannot be parsed: a private build
        return _unknown(created, spark, error.message)
    result = check_versions(judgement)
    limitations = (SparkLimitation(one.id, one.text) for one in judgement.limitations)
    versions = SparkVersions(created, spark, judgement.verdict.value, tuple(limitations))
    outcome = {
        Exit.FINE: RestoreOutcome.NOTE,
        Exit.WARNED: RestoreOutcome.WARNING,
        Exit.REFUSED: RestoreOutcome.REFUSED,
    }
    text = result.message or f"Spark {spark} can resume savepoints of Spark {created}"
    check = Check(
        CHECK_ID, outcome[result.exit] if result.message else RestoreOutcome.OK, text, result.hint
    )
    return VersionCheck(versions, check, result.error())


def check_restorable(offers: RestoreOrigin, spark: str | None) -> Check:
    """Check a restore before its driver is started; return :func:`check_spark_version`'s check.

    Raises Incompatible if this Spark cannot resume the savepoint.
    """
    versions = check_spark_version(offers, spark)
    if versions.error is not None:
        raise versions.error
    return versions.check


def fit_offers(offers: RestoreOrigin, spark: str | None) -> RestoreOrigin:
    """Return the queries of a savepoint as the Spark that will run needs them.

    The queries are unchanged if no rewrite is needed, or if it is unknown whether one is. ``spark``
    is the version of the Spark that will run; :func:`check_spark_version` has already refused a
    version that cannot resume the savepoint.
    """
    if spark is None:
        return offers
    needed: frozenset[Rewrite] | None = frozenset()
    try:
        major, minor = parse_version(spark, SPARK).line.split(".")
        if offers.spark_version is not None:
            needed = rewrites_of(_judge(offers, offers.spark_version, spark))
    except UsageError:  # as in check_spark_version
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


def _judge(offers: RestoreOrigin, created: str, spark: str) -> Judgement:
    """Return the matrix's verdict; UsageError for a version that cannot be parsed."""
    saved, running = (parse_version(version, SPARK) for version in (created, spark))
    return judge(load(SPARK), saved, running, _uses(offers))


def _unknown(created: str | None, spark: str | None, why: str) -> VersionCheck:
    versions = SparkVersions(created, spark, "unknown")
    text = f"it was not checked whether this Spark can resume the saved state: {why}"
    return VersionCheck(
        versions, Check(CHECK_ID, RestoreOutcome.WARNING, text, "see flinkish compat")
    )


def _uses(offers: RestoreOrigin) -> Sequence[Use]:
    uses: dict[Use, None] = {}
    for offer in offers.by_key.values():
        for use in _uses_of(offer):
            uses.setdefault(use)
    return list(uses)


def _uses_of(offer: RestorableQuery) -> Sequence[Use]:
    try:
        log_version = read_logs(offer.origin).offsets.version
    except FlinkishError:
        log_version = 1  # the restore reads the log too, and reports the damage
    return uses_of(
        offer.pins,
        backend=backend_of(offer.pins),
        kinds=[op.state.kind for op in offer.query.operators],
        checkpoint_format=offer.checkpoint_format,
        offset_log_version=log_version,
        changelog=any(path.endswith(".changelog") for path in offer.origin.files),
    )
