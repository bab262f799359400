"""Matching of the stateful operators of a starting query with saved state. Pure.

These are the rules, of which the first that finds state counts for an operator. Only ids of the
same hasher are compared, see :mod:`flinkish.operators.identity`:

1. ``--uid-map OLD=NEW``: the operator with uid NEW takes the state of OLD (a uid, an operator id).
2. The operator's uid hash, then its own id, as in Flink (``StateAssignmentOperation``).
3. In a query that was saved without uids and now has some: the id that the operator would have
   without its uid. As one inserted operator would move all places, this rule applies only if it
   finds all operators of the query, and no other state than the rules before it have found. Flink
   has no such rule; its users must look up every id.

An id that comes from a uid is looked for in the query of the same name, then in the job's other
queries, as state follows its uid. A generated id is an operator's place in its own query, so it is
looked for only there, and the saved operator must be of the same kind. A saved query without ids (a
plain Spark checkpoint) is matched by position, as in Spark, if its operators are the program's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flinkish.connectors.sources import SavedSource
from flinkish.errors import Incompatible, UsageError
from flinkish.operators.hasher import HasherVersion
from flinkish.restore.origin.restore_inputs import (
    NewOperator,
    NewQuery,
    SavedOperator,
    SavedQueryFacts,
)


@dataclass(frozen=True)
class OperatorMatches:
    """The saved operator that each new one takes, by the new ordinal; None: it starts empty."""

    taken: Mapping[int, SavedOperator | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def match_operators(
    new: NewQuery,
    saved: Sequence[SavedQueryFacts],
    own: SavedQueryFacts | None,
    *,
    hasher: HasherVersion,
    uid_map: Mapping[str, str],
) -> OperatorMatches:
    """Find the state of every operator of ``new``.

    ``saved`` are all queries of the savepoint; ``own`` is the one that continues as ``new`` (of the
    same name, or that of a plain checkpoint), if any. ``uid_map`` maps a new uid to an old uid or
    operator id. Raises Incompatible if two operators take the same state, or a checkpoint without
    ids does not have the program's operators; UsageError if ``uid_map`` is ambiguous, or given for
    a checkpoint without ids.
    """
    operators = new.operators or ()
    if own is not None and own.operators and not _has_ids(own):
        return _by_position(operators, own, uid_map)
    index = _Index(saved, own, hasher)
    taken: dict[int, SavedOperator | None] = {}
    notes: list[str] = []
    for operator in operators:
        taken[operator.node.ordinal] = _find(operator, index, uid_map)
    if own is not None and _gained_uids(operators, taken, own, uid_map):
        by_id = {op.operator_id_v3: op for op in own.operators}
        taken = {op.node.ordinal: by_id[op.generated_id] for op in operators}
        notes.append(
            f"query '{new.name}' had no uids when it was saved: its state was matched by "
            "the operator ids of that time"
        )
    _refuse_shared(operators, taken)
    return OperatorMatches(taken, tuple(notes))


class _Index:
    """Saved operators by id; the operators of the own query come first."""

    def __init__(
        self, saved: Sequence[SavedQueryFacts], own: SavedQueryFacts | None, hasher: HasherVersion
    ) -> None:
        self._hasher = hasher
        self._own = list(own.operators) if own is not None else []
        self._others = [op for query in saved if query is not own for op in query.operators]

    def by_id(self, operator_id: str, *, anywhere: bool) -> SavedOperator | None:
        """Return the operator with an id; the operators of the own query come first.

        ``anywhere`` also searches the operators of other queries, if they have a uid.
        """
        movable = [op for op in self._others if op.movable] if anywhere else []
        return next((op for op in (*self._own, *movable) if self._id(op) == operator_id), None)

    def by_old_name(self, old: str) -> SavedOperator | None:
        """Return the operator that ``--uid-map`` names.

        The name is a uid, else an operator id, else ``QUERY/`` and a uid, an id or an ordinal.
        """
        matches = named_operators(self._own, old) or named_operators(self._others, old)
        if len(matches) > 1:
            raise UsageError(
                "the uid map is ambiguous: several operators of the savepoint are named "
                f"{old!r}, in the queries " + ", ".join(str(op.query) for op in matches),
                hint="name it with its query: "
                f"--uid-map {matches[0].query}/{matches[0].state.ordinal}=NEW",
            )
        return matches[0] if matches else None

    def _id(self, operator: SavedOperator) -> str | None:
        v2 = self._hasher is HasherVersion.V2
        return operator.operator_id_v2 if v2 else operator.operator_id_v3


def named_operators(operators: Sequence[SavedOperator], old: str) -> list[SavedOperator]:
    """Return the saved operators that a user's name may mean, by the rules of ``by_old_name``."""
    wanted = old.lower()
    return (
        [op for op in operators if op.uid == old]
        or [op for op in operators if wanted in (op.operator_id_v2, op.operator_id_v3)]
        or [op for op in operators if _is_at(op, old)]
    )


def _is_at(operator: SavedOperator, address: str) -> bool:
    query = f"{operator.query}/"
    names = (
        operator.uid, operator.operator_id_v2, operator.operator_id_v3, str(operator.state.ordinal)
    )  # fmt: skip
    return address.startswith(query) and address[len(query) :] in names


def named_sources(sources: Sequence[SavedSource], old: str) -> list[SavedSource]:
    """Return the saved sources that a user's name may mean: by uid, else by ``QUERY/`` and uid."""
    with_uid = [source for source in sources if source.uid is not None]
    return [source for source in with_uid if source.uid == old] or [
        source for source in with_uid if f"{source.query}/{source.uid}" == old
    ]


def check_uid_map(uid_map: Mapping[str, str], saved: Sequence[SavedQueryFacts]) -> None:
    """Raise UsageError when ``--uid-map`` names an operator or source that the savepoint lacks."""
    every = [op for query in saved for op in query.operators]
    sources = [source for query in saved for source in query.sources or ()]
    for new, old in uid_map.items():
        if not named_operators(every, old) and not named_sources(sources, old):
            uids = sorted({op.uid for query in saved for op in query.operators if op.uid})
            raise UsageError(
                f"the savepoint has no operator {old!r}, whose state the uid map assigns "
                f"to {new!r}",
                hint=f"--uid-map OLD=NEW: it has {', '.join(uids) or 'no uids'}; see flinkish "
                "savepoint show",
            )


def _find(operator: NewOperator, index: _Index, uid_map: Mapping[str, str]) -> SavedOperator | None:
    if operator.uid is not None and operator.uid in uid_map:
        return index.by_old_name(uid_map[operator.uid])
    own_id = operator.lookup_ids[-1]
    for wanted in operator.lookup_ids:
        # The user sets a uid hash like a uid, so it may be the id of an operator in any query.
        explicit = operator.uid is not None or wanted != own_id
        match = index.by_id(wanted, anywhere=explicit)
        # A generated id is only a place in the plan; what an explicit one finds is judged.
        if match is not None and (explicit or same_kind(operator, match)):
            return match
    return None


def _has_ids(query: SavedQueryFacts) -> bool:
    return all(op.operator_id_v2 or op.operator_id_v3 for op in query.operators)


def same_kind(new: NewOperator, saved: SavedOperator) -> bool:
    """Return whether both operators are of one kind, as far as the saved kind is known."""
    return saved.state.kind in (None, new.node.kind)


def _gained_uids(
    operators: Sequence[NewOperator],
    taken: Mapping[int, SavedOperator | None],
    own: SavedQueryFacts,
    uid_map: Mapping[str, str],
) -> bool:
    """Return whether the program is the saved one with uids added to some of its operators.

    All operators must match, because an inserted operator would have the generated id of the
    operator that had its place before. None may have taken other state, or be in ``uid_map`` and
    have found none: what the user has decided is not replaced.
    """
    by_id = {op.operator_id_v3: op for op in own.operators if op.uid is None}
    if any(op.uid is not None for op in own.operators) or None in by_id:
        return False
    if all(match is not None for match in taken.values()):
        return False
    if {op.generated_id for op in operators} != set(by_id):
        return False
    for operator in operators:
        match, place = taken[operator.node.ordinal], by_id[operator.generated_id]
        undecided = match is None and operator.uid not in uid_map
        if not same_kind(operator, place) or not (undecided or match is place):
            return False
    return True


def _refuse_shared(
    operators: Sequence[NewOperator], taken: Mapping[int, SavedOperator | None]
) -> None:
    owners: dict[tuple[str | None, int], NewOperator] = {}
    for operator in operators:
        saved = taken.get(operator.node.ordinal)
        if saved is None:
            continue
        other = owners.setdefault((saved.query, saved.state.ordinal), operator)
        if other is not operator:
            raise Incompatible(
                f"{other.describe()} and {operator.describe()} both take the state of "
                f"{saved.describe()}",
                hint="remove the uid hash or the --uid-map of one of them",
            )


def _by_position(
    operators: Sequence[NewOperator], own: SavedQueryFacts, uid_map: Mapping[str, str]
) -> OperatorMatches:
    """Match a checkpoint of plain Spark, which has only kinds (Spark 4.x) and positions."""
    saved = sorted(own.operators, key=lambda op: op.state.ordinal)
    wanted = sorted(operators, key=lambda op: op.node.ordinal)
    fits = [op.state.ordinal for op in saved] == [op.node.ordinal for op in wanted] and all(
        same_kind(new, old) for new, old in zip(wanted, saved, strict=True)
    )
    if not fits:
        had = ", ".join(f"{op.state.ordinal} {op.state.kind or '?'}" for op in saved)
        has = ", ".join(f"{op.node.ordinal} {op.node.kind}" for op in wanted) or "none"
        raise Incompatible(
            f"the checkpoint's operators ({had}) differ from the program's ({has}), and "
            "it does not identify them",
            hint="run the old program, with uids, from this checkpoint; take a savepoint, and "
            "restore the changed program from that",
        )
    if uid_map:
        raise UsageError(
            "a uid map needs operator ids, which this checkpoint does not have",
            hint="omit --uid-map",
        )
    taken = {new.node.ordinal: old for new, old in zip(wanted, saved, strict=True)}
    return OperatorMatches(dict(taken))
