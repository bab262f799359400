"""Planning with the configuration that a checkpoint pins, as Spark does when it restarts a query.

Facts used:

* ``OffsetSeqMetadata.setSessionConf``: the settings that the offset log pins go into the session.
  Where the log of an older Spark lacks a setting, the session gets the value that applied in that
  Spark (4.x: keys of ``dropDuplicates`` in the old order, nullable outputs ...).
* ``StreamExecution`` (4.1 on): the number of state partitions has its own key, but the log records
  it under the key of the shuffle partitions.
* ``MicroBatchExecution.logicalPlan`` (4.3): the keys of ``dropDuplicates`` are put into the order
  that the log pins, instead of the analyzer's order (``ResolveDeduplicate``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from flinkish.checkpoint.format.pins import (
    PIN_DEDUP_ORDER,
    PIN_SHUFFLE_PARTITIONS,
    PIN_STATE_PARTITIONS,
    PIN_WATERMARK_POLICY,
)
from flinkish.driver.plan.plan_classes import (
    ReadNode,
    find_class,
    scala_object,
    streaming_object,
)

#: A setting that every offset log has (2.4 on): settings that include it come from a log.
_ALWAYS_PINNED = PIN_WATERMARK_POLICY
_RESOLVE_DEDUP = "org.apache.spark.sql.catalyst.analysis.ResolveDeduplicate$"
_DEDUP = frozenset({"Deduplicate", "DeduplicateWithinWatermark"})


def configure(jvm: Any, session: Any, settings: Mapping[str, str]) -> None:
    """Set up a session for planning a query.

    ``session`` is a JVM session, a clone that nothing else uses. If ``settings`` come from an
    offset log, settings that the log lacks are filled in as Spark does it.
    """
    conf = session.conf()
    for key, value in settings.items():
        conf.set(key, value)
    if _ALWAYS_PINNED in settings:
        log = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": dict(settings)}
        metadata = streaming_object(jvm, "OffsetSeqMetadata")
        target = session.sessionState().conf() if _takes_sql_conf(metadata) else conf
        metadata.setSessionConf(metadata.apply(json.dumps(log)), target)
    # Spark runs streaming queries with these two settings off.
    for key in ("spark.sql.adaptive.enabled", "spark.sql.cbo.enabled"):
        conf.set(key, "false")
    # StreamExecution sets this key too. Unset, its value would be null.
    partitions = settings.get(PIN_SHUFFLE_PARTITIONS)
    if partitions is None or PIN_STATE_PARTITIONS in settings:
        partitions = conf.get(PIN_STATE_PARTITIONS, conf.get(PIN_SHUFFLE_PARTITIONS))
    conf.set(PIN_STATE_PARTITIONS, partitions)


def pinned_settings(jvm: Any, session: Any) -> dict[str, str]:
    """Return the settings that Spark would pin for a query of this session.

    ``session`` is the JVM session, which :func:`configure` has set up.
    """
    metadata = streaming_object(jvm, "OffsetSeqMetadata").apply(0, 0, session.conf())
    settings: dict[str, str] = json.loads(metadata.json())["conf"]
    return settings


def _takes_sql_conf(metadata: Any) -> bool:
    """Return whether ``setSessionConf`` takes an ``SQLConf`` (4.x; 3.5: a ``RuntimeConfig``)."""
    methods = [m for m in metadata.getClass().getMethods() if m.getName() == "setSessionConf"]
    return any(m.getParameterTypes()[1].getSimpleName() == "SQLConf" for m in methods)


def with_pinned_keys(jvm: Any, session: Any, plan: Sequence[ReadNode]) -> Any:
    """Return the plan with the keys of ``dropDuplicates`` in the order that the session pins."""
    top, changed = plan[0].node, dict[int, Any]()
    rule_class = find_class(jvm, _RESOLVE_DEDUP)
    if rule_class is None or not any(_is_dedup(read) for read in plan):
        return top
    rule = scala_object(rule_class)
    ordered = str(session.conf().get(PIN_DEDUP_ORDER)) == "true"
    resolver = session.sessionState().analyzer().resolver()
    for position, read in reversed(list(enumerate(plan))):  # children first
        new = read.node
        if not changed.keys().isdisjoint(read.children):
            below = [changed.get(child, plan[child].node) for child in read.children]
            new = new.withNewChildren(jvm.PythonUtils.toSeq(below))
        if _is_dedup(read):
            keys = rule.recomputeKeysPreservingMetadataBoundary(
                new.keys(), new.child(), new.dedupSpec().get(), ordered, resolver
            )
            if not keys.equals(new.keys()):
                new = new.copy(keys, new.child(), new.dedupSpec())
                new.copyTagsFrom(read.node)
        if new is not read.node:
            changed[position] = new
    return changed.get(0, top)


def _is_dedup(read: ReadNode) -> bool:
    return read.name in _DEDUP and bool(read.node.dedupSpec().isDefined())
