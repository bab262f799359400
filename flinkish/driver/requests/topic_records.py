"""What a savepoint records about the topics that its Kafka sources read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flinkish.connectors.kafka.topics import ask_for
from flinkish.connectors.sources import NewSource, kind_of
from flinkish.driver.log import log
from flinkish.driver.plan.plan_extraction import PlannedQuery

#: Seconds for an answer of a broker: a savepoint does without.
_PATIENCE = 2.0


def with_topics(
    records: Sequence[Mapping[str, Any]], planned: PlannedQuery | None
) -> list[dict[str, Any]]:
    """Return the records of a query's sources, with the identities of their topics.

    A later restore recognises by these that a topic was recreated
    (:mod:`flinkish.connectors.kafka.identity`). They are left out if the broker cannot be
    reached.
    """
    if planned is None:
        return [dict(record) for record in records]
    found = []
    for record, source in zip(records, planned.sources, strict=True):
        topics: dict[str, Any] = {}
        if kind_of(source.signature) == "kafka":
            asked = NewSource(
                source.entry,
                source.directory,
                source.signature,
                (),
                uid=source.uid,
                options=source.options,
            )
            answer = ask_for(asked, {}, timeout=_PATIENCE)
            if answer.topics is None:
                log(f"{asked.describe()}: the savepoint has no ids of its topics: {answer.why}")
            topics = {name: each.to_json() for name, each in answer.identities.items()}
        found.append({**record, "topics": topics} if topics else dict(record))
    return found
