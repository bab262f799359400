"""Which operator of a savepoint is meant by a word on the command line. Pure."""

from __future__ import annotations

from flinkish.errors import UsageError
from flinkish.savepoint.model import OperatorRecord, QueryRecord
from flinkish.savepoint.reader import Savepoint


def find_operator(savepoint: Savepoint, text: str) -> tuple[QueryRecord, OperatorRecord, str]:
    """The operator that ``UID[/STATE]`` means, and STATE. Pure. Raises UsageError."""
    every = [(query, operator) for query in savepoint.queries for operator in query.operators]
    # A uid may have slashes itself.
    splits = [(text, "")]
    if "/" in text:
        splits += [(text[:at], text[at + 1 :]) for at, c in enumerate(text) if c == "/"][::-1]
    for uid, state in splits:
        found = [(q, o) for q, o in every if uid in _names(o)]
        found = found or [(q, o) for q, o in every if uid == str(o.ordinal)]
        if len(found) == 1:
            return (*found[0], state)
        if found:
            queries = ", ".join(query.name for query, _ in found)
            raise UsageError(
                f"several operators of the savepoint are {uid!r}, of the queries {queries}",
                hint="name it by its uid or its operator id, see flinkish savepoint show",
            )
    known = ", ".join(sorted(_names(o)[0] if _names(o) else str(o.ordinal) for _, o in every))
    uid = text.partition("/")[0]
    raise UsageError(
        f"the savepoint has no operator {uid!r}; it has: {known or 'none with state'}",
        hint="flinkish savepoint show lists its operators",
    )


def _names(operator: OperatorRecord) -> list[str]:
    ids = (operator.operator_id, operator.operator_id_v2, operator.operator_id_v3)
    return [name for name in (operator.uid, *ids) if name]
