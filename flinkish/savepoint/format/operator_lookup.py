"""Lookup of the operator of a savepoint that a command-line argument names. Pure.

Operator ids are unique within one query only: two queries of a job each have a first aggregation,
with the same generated id and the same ordinal. ``QUERY/UID`` and ``QUERY/ORDINAL`` are unique
within the savepoint.
"""

from __future__ import annotations

from collections import Counter

from flinkish.errors import UsageError
from flinkish.savepoint.format.contents import OperatorRecord, QueryRecord
from flinkish.savepoint.format.reader import OpenSavepoint

_Found = tuple[QueryRecord, OperatorRecord]


def find_operator(savepoint: OpenSavepoint, text: str) -> tuple[QueryRecord, OperatorRecord, str]:
    """Find the operator that ``[QUERY/]UID[/STATE]`` names. Pure.

    UID is a uid, an operator id or an ordinal. Returns the query, the operator and STATE (empty if
    not given). Raises UsageError if no or several operators match.
    """
    every = [(query, operator) for query in savepoint.queries for operator in query.operators]
    # Uids and query names may contain slashes: the longest match is used.
    splits = [(text, "")]
    if "/" in text:
        splits += [(text[:at], text[at + 1 :]) for at, c in enumerate(text) if c == "/"][::-1]
    for uid, state in splits:
        matches = _meant(every, uid)
        if len(matches) == 1:
            return (*matches[0], state)
        if matches:
            addresses = " or ".join(
                address(query.name, o.uid, o.state.ordinal) for query, o in matches
            )
            raise UsageError(
                f"{uid!r} names several operators of the savepoint, in the queries "
                + ", ".join(query.name for query, _ in matches),
                hint=f"give the name of the query as well: {addresses}",
            )
    firsts = [(_names(o) or [str(o.state.ordinal)])[0] for _, o in every]
    names = ", ".join(
        sorted(
            name if firsts.count(name) == 1 else address(query.name, o.uid, o.state.ordinal)
            for name, (query, o) in zip(firsts, every, strict=True)
        )
    )
    raise UsageError(
        f"the savepoint has no operator {text!r}; it has: {names or 'none with state'}",
        hint="flinkish savepoint show lists its operators",
    )


def address(query: str, uid: str | None, ordinal: int) -> str:
    """Return ``QUERY/UID`` or ``QUERY/ORDINAL``, which is unique within the savepoint."""
    return f"{query}/{ordinal if uid is None else uid}"


def shared_ids(savepoint: OpenSavepoint) -> set[str]:
    """Return the operator ids and uids that more than one operator of the savepoint has. Pure."""
    every = [o for query in savepoint.queries for o in query.operators]
    counted = Counter(name for o in every for name in set(_names(o)))
    return {name for name, count in counted.items() if count > 1}


def _meant(every: list[_Found], word: str) -> list[_Found]:
    """Match by uid or operator id; else with the query's name; else by the ordinal alone."""
    return (
        [(q, o) for q, o in every if word in _names(o)]
        or [
            (q, o)
            for q, o in every
            if word.startswith(f"{q.name}/")
            and word[len(q.name) + 1 :] in (*_names(o), str(o.state.ordinal))
        ]
        or [(q, o) for q, o in every if word == str(o.state.ordinal)]
    )


def _names(operator: OperatorRecord) -> list[str]:
    ids = (operator.operator_id, operator.operator_id_v2, operator.operator_id_v3)
    return [name for name in (operator.uid, *ids) if name]
