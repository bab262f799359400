"""The position from which each source of a restored query continues. Pure.

A source is matched by its uid, in any query of the job: first in those that gave the state that the
source feeds, then in the query that continues. Otherwise it is matched by what it reads, in the
saved queries that gave the state that the source feeds, or if there are none, in the query
that continues. A source's name in Spark (``readStream.name``) belongs to its query: it is searched
for in the query that continues, or if there is none, in those that gave the state. The remaining
sources of the continuing query are paired in order, as in Spark, so that a path may change. A new
source starts without a saved position. So does one that ``--reset-source`` names, even if paired.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from flinkish.checkpoint.format.logs import NO_OFFSET
from flinkish.connectors.sources import (
    RESET,
    SET,
    NewSource,
    QueryKey,
    SavedSource,
    reset_flag,
    within,
)
from flinkish.errors import ConsentNeeded, Incompatible, UsageError
from flinkish.operators.hasher import HasherVersion
from flinkish.restore.origin.restore_inputs import NewQuery, SavedOperator, SavedQueryFacts
from flinkish.restore.plan.operator_matching import named_sources


@dataclass(frozen=True)
class SourceMatches:
    """The saved position that each source takes.

    Attributes
    ----------
    positions
        The positions in the order of the new sources, None for a source that starts without one.
        None as a whole if the sources are unchanged, or what they read is unknown, so that the
        query continues with its own offset log; and if the query takes nothing.
    matched
        The position that each source was paired with, including the sources that are reset. None
        if what the sources read is unknown, or if the query takes nothing.
    reset
        The entries of the sources that ``--reset-source`` names, so that the user has agreed to
        leave behind the positions with which these sources were paired.
    """

    positions: tuple[SavedSource | None, ...] | None = None
    notes: tuple[str, ...] = ()
    matched: tuple[SavedSource | None, ...] | None = None
    reset: frozenset[int] = frozenset()

    @property
    def given_up(self) -> tuple[SavedSource, ...]:
        """The saved positions that ``--reset-source`` leaves behind and no other source takes.

        They are not refused as non-restored state.
        """
        taken = {(s.query, s.entry) for s in self.positions or () if s is not None}
        paired = [s for entry, s in enumerate(self.matched or ()) if entry in self.reset]
        return tuple(s for s in paired if s is not None and (s.query, s.entry) not in taken)


def match_sources(
    new: NewQuery,
    saved: Sequence[SavedQueryFacts],
    own: SavedQueryFacts | None,
    taken: Mapping[int, SavedOperator | None],
    *,
    hasher: HasherVersion,
    uid_map: Mapping[str, str],
    reset: Collection[str] = (),
) -> SourceMatches:
    """Find the position of every source of ``new``.

    ``own`` is the saved query that continues as ``new``, if any; ``taken`` the saved operator by
    new ordinal (:class:`~flinkish.restore.plan.operator_matching.OperatorMatches`); ``reset`` names
    sources that start without their saved position (:func:`reset_entries`). Raises Incompatible if
    state comes from another query or a source is to be reset, and what one of the queries reads is
    unknown; ConsentNeeded if a source would have to continue from several different positions;
    UsageError as in :func:`reset_entries`.
    """
    afresh = reset_entries(reset, new, [query.key for query in saved])
    origins = _origins(own, saved, taken)
    if own is not None and origins == [own] and (own.sources is None or new.sources is None):
        if afresh:
            raise Incompatible(
                f"what {own.describe()} reads is unknown, so none of its sources can be "
                "reset individually",
                hint="run it with flinkish from this checkpoint, and take a savepoint of that job",
            )
        return SourceMatches()
    if not origins and new.sources is None:
        return SourceMatches()
    unknown = [query for query in origins if query.sources is None]
    if unknown or new.sources is None:
        who = unknown[0].describe() if unknown else f"query '{new.name}'"
        raise Incompatible(
            f"state comes from another query, and what {who} reads is unknown",
            hint="run the job with this flinkish, and take a new savepoint",
        )
    finder = _Finder(new.sources, saved, own, taken, hasher, uid_map, afresh)
    matched = finder.find()
    if not origins and all(position is None for position in matched):
        return SourceMatches()
    positions = tuple(
        None if source.entry in afresh else position
        for source, position in zip(new.sources, matched, strict=True)
    )
    notes = tuple(
        f"query '{new.name}': {source.describe()} "
        + ("starts from scratch (--reset-source)" if old else "is new and starts from scratch")
        for source, old, position in zip(new.sources, matched, positions, strict=True)
        if position is None
    )
    if own is not None and _unchanged(new.sources, positions, own):
        return SourceMatches(None, notes, matched)
    return SourceMatches(positions, notes, matched, afresh)


#: What the user can do about a saved position that has a uid.
_OTHER_UID = ", or read the source separately, with another uid: --uid-map QUERY/UID=NEW"

#: What becomes of the sources that the options name.
_BECOMES = {RESET: "should start from scratch", SET: "should get other offsets"}


def reset_entries(
    names: Collection[str],
    new: NewQuery,
    saved: Collection[QueryKey] = (),
    *,
    option: str = RESET,
) -> frozenset[int]:
    """Return the entries of the sources of ``new`` that ``--reset-source`` names.

    A name is a uid, or what the source reads (``kafka[subscribe=a]``), or a part of that, or the
    number of the source's line in the offset log. ``QUERY/`` before a name limits it to sources of
    that query. A DataFrame that is used twice is one source with two lines, and the name stands for
    both lines. Names of other queries' sources are left to :func:`check_reset`.

    ``saved`` are the queries of the savepoint; if there are several, a number alone does not
    identify a source. ``option`` is :data:`RESET` or :data:`SET`. Raises UsageError if a name fits
    more than one source, or a number is ambiguous.
    """
    entries: set[int] = set()
    for name in names:
        fitting = _named(name, new.sources or (), saved)
        number = name.isdigit() and all(s.uid != name for s in fitting)
        if fitting and (len({s.directory for s in fitting}) > 1 or (number and len(saved) > 1)):
            why = "is a number in each of the queries" if number else "fits more than one source"
            raise UsageError(
                f"the source {name!r}, which {_BECOMES[option]}, {why}",
                hint=f"name one of: {_listed([new])}; with {option}",
            )
        entries |= {source.entry for source in fitting}
    return frozenset(entries)


def check_reset(
    names: Collection[str],
    queries: Sequence[NewQuery],
    saved: Collection[QueryKey] = (),
    left: Collection[QueryKey] = (),
    *,
    option: str = RESET,
) -> None:
    """Raise UsageError when an option names a source that no query of the program reads.

    ``queries`` are all queries that the program has started, ``saved`` are the savepoint's queries,
    and ``left`` are the saved queries that the program may start later.
    """
    for name in names:
        if not any(_named(name, query.sources or (), saved) for query in queries):
            query = next((key for key in left if key is not None), None)
            later = "" if query is None else f"; for a query that starts later: {query}/{name}"
            raise UsageError(
                f"the program has no source {name!r}, which {_BECOMES[option]}",
                hint=f"{option} names one of its sources: {_listed(queries) or 'none'}{later}",
            )


def _named(
    name: str, sources: Sequence[NewSource], saved: Collection[QueryKey] = ()
) -> list[NewSource]:
    """Return the sources that a name fits: by uid, signature, number, or part of a signature."""
    exact = [s for s in sources if s.uid == name] or [s for s in sources if s.signature == name]
    if exact:
        return exact
    own = [s for s in sources if within(name, s.query) is not None]
    if own:
        return _named(str(within(name, own[0].query)), own)
    if any(within(name, key) is not None for key in saved):
        return []
    number = [s for s in sources if name == str(s.entry)] if name.isdigit() else []
    part = [s for s in sources if name in s.signature] if name and not name.isdigit() else []
    return number or part


def _listed(queries: Sequence[NewQuery]) -> str:
    return ", ".join(
        f"{source.entry} {source.signature}" + (f" (uid '{source.uid}')" if source.uid else "")
        for query in queries
        for source in query.sources or ()
    )


def check_inputs(
    new: NewQuery,
    own: SavedQueryFacts | None,
    taken: Mapping[int, SavedOperator | None],
    matches: SourceMatches,
) -> None:
    """Refuse a join whose inputs are exchanged (Incompatible).

    Its state holds each side's rows. Spark does not notice the exchange if their columns are alike.
    """
    # Reset sources count too: the state still holds the rows of their input.
    paired = matches.matched
    if paired is None:
        paired = (own.sources if own is not None else None) or ()
    for source, saved in zip(new.sources or (), paired, strict=False):
        for ordinal, operator in taken.items():
            if saved is None or operator is None or saved.query != operator.query:
                continue
            before = {i for o, i in saved.inputs if o == operator.state.ordinal}
            now = {i for o, i in source.inputs if o == ordinal}
            if before and now and not before & now:
                raise Incompatible(
                    f"{source.describe()} was input {_numbers(before)} of "
                    f"{operator.describe()} and is now input {_numbers(now)}: the state "
                    "holds the rows of each input",
                    hint="put the inputs back in their order, or give the operator another uid "
                    "and drop its state with -n",
                    uid=operator.uid,
                )


def _numbers(inputs: set[int]) -> str:
    return " and ".join(str(number) for number in sorted(inputs))


def _origins(
    own: SavedQueryFacts | None,
    saved: Sequence[SavedQueryFacts],
    taken: Mapping[int, SavedOperator | None],
) -> list[SavedQueryFacts]:
    keys = {op.query for op in taken.values() if op is not None}
    return [query for query in saved if query is own or query.key in keys]


def _unchanged(
    sources: Sequence[NewSource],
    positions: Sequence[SavedSource | None],
    own: SavedQueryFacts,
) -> bool:
    return len(positions) == len(own.sources or ()) and all(
        position is not None
        and position.query == own.key
        and position.entry == source.entry
        and position.directory == source.directory
        for source, position in zip(sources, positions, strict=True)
    )


class _Finder:
    """Finds positions in three rounds: by uid, by what the source reads, by order."""

    def __init__(
        self,
        sources: Sequence[NewSource],
        saved: Sequence[SavedQueryFacts],
        own: SavedQueryFacts | None,
        taken: Mapping[int, SavedOperator | None],
        hasher: HasherVersion,
        uid_map: Mapping[str, str],
        reset: frozenset[int],
    ) -> None:
        self._sources = sources
        self._saved = saved
        self._own = own
        self._taken = taken
        self._hasher = hasher
        self._uid_map = uid_map
        self._reset = reset
        self._found: dict[int, SavedSource] = {}
        self._used: set[tuple[str | None, int]] = set()

    def find(self) -> tuple[SavedSource | None, ...]:
        for source in self._sources:
            self._take(source, self._by_uid(source))
        for source in self._sources:
            if source.entry not in self._found:
                self._take(source, self._by_signature(source))
        self._by_order()
        self._check_directories()
        return tuple(self._found.get(source.entry) for source in self._sources)

    def _take(self, source: NewSource, position: SavedSource | None) -> None:
        if position is not None:
            self._found[source.entry] = position
            self._used.add((position.query, position.entry))

    def _by_uid(self, source: NewSource) -> SavedSource | None:
        everything = [s for query in self._saved for s in query.sources or ()]
        old = self._uid_map.get(source.uid or "")
        if old is not None:
            return self._nearest(source, named_sources(everything, old))
        own_id = source.lookup_ids[-1]
        near = self._behind(source) if self._own is None else {self._own.key}
        reachable = [
            s for s in everything if s.query in near or not (s.is_named or source.is_named)
        ]
        v2 = self._hasher is HasherVersion.V2
        for wanted in source.lookup_ids:
            is_explicit = source.uid is not None or wanted != own_id
            same = [
                s
                for s in (reachable if is_explicit else ())
                if (s.operator_id_v2 if v2 else s.operator_id_v3) == wanted
            ]
            if same:
                return self._nearest(source, same)
        return None

    def _nearest(self, source: NewSource, same: Sequence[SavedSource]) -> SavedSource | None:
        """Return the position in the query that gave the state, else in ``own``, else in any."""
        behind = self._behind(source)
        own = {self._own.key} if self._own is not None else set()
        near = next((near for near in (behind, own) if any(s.query in near for s in same)), None)
        if near is not None:
            same = [s for s in same if s.query in near]
        if source.entry in self._reset:
            return same[0] if same else None
        if near is not None:
            return self._one_position(source, same)
        return self._one_position(
            source,
            same,
            "was saved at different positions by other queries",
            "give the query the name that it had in the savepoint"
            + (_OTHER_UID if all(s.uid is not None for s in same) else ""),
            name=f"{source.query}/{source.uid or source.signature}",
        )

    def _behind(self, source: NewSource) -> set[str | None]:
        """Return the saved queries that gave the state of the operators that a source feeds."""
        return {op.query for o in source.feeds if (op := self._taken.get(o)) is not None}

    def _by_signature(self, source: NewSource) -> SavedSource | None:
        behind = self._behind(source)
        if not behind and self._own is not None:
            behind = {self._own.key}
        same = [
            s
            for query in self._saved
            if query.key in behind
            for s in query.sources or ()
            if s.signature == source.signature and s.uid is None
        ]
        if len(behind) > 1 and source.entry not in self._reset:
            return self._one_position(source, same)
        unused = [s for s in same if (s.query, s.entry) not in self._used]
        if unused:
            return unused[0]
        # Read once before and twice now: both lines take the position if they feed restored state.
        return same[0] if same and source.feeds and self._feeds_taken(source) else None

    def _feeds_taken(self, source: NewSource) -> bool:
        return any(self._taken.get(ordinal) is not None for ordinal in source.feeds)

    def _one_position(
        self,
        source: NewSource,
        same: Sequence[SavedSource],
        text: str = "feeds states that were saved at different positions of it",
        advice: str = "read it separately for each of these operators",
        name: str | None = None,
    ) -> SavedSource | None:
        """Return the position of ``same``; refuse several, with ``text`` and ``advice``."""
        places: dict[tuple[QueryKey, str], SavedSource] = {}
        for s in same:  # a DataFrame used twice has two lines, and one of them may lack a position
            if s.offset != NO_OFFSET or (s.query, s.directory) not in places:
                places[s.query, s.directory] = s
        if len({s.offset for s in places.values()}) > 1:
            listed = ", ".join(f"{s.offset} in query '{s.query}'" for s in places.values())
            flag = reset_flag(source if name is None else replace(source, uid=name))
            raise ConsentNeeded(
                f"{source.describe()} {text}: {listed}",
                hint=f"{advice}, or start it from scratch and keep the state: {flag}",
                reasons=["positions-differ"],
            )
        return same[0] if same else None

    def _check_directories(self) -> None:
        """Refuse different positions for a DataFrame used twice: it is one source in Spark."""
        for source in self._sources:
            self._one_position(
                source,
                [
                    self._found[other.entry]
                    for other in self._sources
                    if other.directory == source.directory
                    and other.entry in self._found
                    and other.entry not in self._reset
                ],
                "is one source now, and was saved as several at different positions",
                "read it separately in each place, as before",
            )

    def _by_order(self) -> None:
        """Pair the remaining sources in order, if the queries have equally many left and in all."""
        if self._own is None:
            return
        left = [s for s in self._sources if s.entry not in self._found and s.uid is None]
        offered = [
            s
            for s in self._own.sources or ()
            if (s.query, s.entry) not in self._used and s.uid is None
        ]
        if len(left) == len(offered) and len(self._sources) == len(self._own.sources or ()):
            for source, position in zip(left, offered, strict=True):
                if _format(source.signature) == _format(position.signature):
                    self._take(source, position)


def _format(signature: str | None) -> str:
    return (signature or "").partition("[")[0]
