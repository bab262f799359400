"""What a savepoint records about what its sources read, beside their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flinkish.connectors.sources import NewSource
from flinkish.driver.connectors.sources import identify
from flinkish.driver.plan.plan_extraction import PlannedQuery


def with_topics(
    records: Sequence[Mapping[str, Any]], planned: PlannedQuery | None, session: Any
) -> list[dict[str, Any]]:
    """Return the records of a query's sources, with the identities of their topics.

    A later restore recognises by these that a topic was recreated
    (:mod:`flinkish.connectors.kafka.identity`). They are left out if the broker cannot be reached.
    """
    if planned is None:
        return [dict(record) for record in records]
    found = []
    for record, source in zip(records, planned.sources, strict=True):
        asked = NewSource(
            source.entry,
            source.directory,
            source.signature,
            (),
            uid=source.uid,
            options=source.options,
        )
        found.append({**record, **identify(session, asked)})
    return found
