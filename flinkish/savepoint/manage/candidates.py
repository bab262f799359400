"""Convert a directory's savepoints to the candidates of a retention policy. Pure except for links.

Savepoints belong to one job if they have the job's id or the id of a query in common; the job's
name alone does not count. A restore that continues keeps the ids of queries. A job that went back
to an earlier savepoint has new query ids; it counts with the job that it was restored from if both
have the same name and that savepoint still exists. A job that this registry does not know is
counted separately: two registries may run the same queries after one savepoint was restored in
both, without knowing each other.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flinkish.messages.requests import TRIGGER_OFFLINE
from flinkish.savepoint.directory.catalog import Catalog, CatalogEntry, job_prefix
from flinkish.savepoint.directory.places import place_keys
from flinkish.savepoint.format.contents import Header
from flinkish.savepoint.manage.generations import Candidate, by_clock, is_newest


@dataclass(frozen=True)
class Known:
    """What a registry knows about the savepoints of a directory.

    ``protected`` maps paths of savepoints that must stay to the reason; one of flinkish's random
    names stays wherever it is. ``running`` are ids of running jobs; the newest savepoint of each
    stays. ``jobs`` are the ids of all jobs of the registry; with None (the registry was not asked)
    every job counts as known. ``taken_here`` are the locations of the savepoints that jobs of the
    registry have taken.
    """

    protected: Mapping[str, str]
    running: Collection[str] = ()
    jobs: Collection[str] | None = None
    taken_here: Collection[str] = ()


@dataclass(frozen=True)
class Generation:
    """One savepoint to decide on, and all its locations: itself, then its copies."""

    candidate: Candidate
    paths: tuple[str, ...]


def generations(
    catalog: Catalog, known: Known, jobs: Collection[str] | None = None, now: float | None = None
) -> tuple[Generation, ...]:
    """Return the savepoints to decide on.

    A copy, which has the same ``_metadata``, is not a separate generation: it is kept or removed
    with its original. The target of a link in the directory counts as in use, and stays.

    ``catalog`` has its savepoints opened. ``jobs`` selects the savepoints of the jobs with these
    ids, of jobs that are related to them by a query or a restore, and of this registry's jobs with
    the same names; None selects all. ``now`` is in seconds since the epoch; default: the clock.
    """
    entries = catalog.own
    places = {entry.path: place_keys(entry.path) for entry in entries}
    taken_here = {key for path in known.taken_here for key in place_keys(path)}
    needed = _needs(catalog, places, known)
    keys = _job_keys(entries, places, known)
    scope = _scope(entries, keys, known, jobs)
    all_generations = [
        Candidate(
            entry.path,
            keys[entry.path],
            entry.header.created,
            tuple(needed.get(entry.path, ())),
            written=entry.written,
            run=entry.header.job.job_id,
            batches={query.query_id: query.batch_id for query in entry.queries},
            taken_here=any(key in taken_here for key in places[entry.path]),
            has_all=_has_all_queries(entry.header),
        )
        for entry in entries
        if keys[entry.path] in scope
    ]
    clock = time.time() if now is None else now
    return _without_copies(_with_running(all_generations, known.running, clock), entries)


def _has_all_queries(header: Header) -> bool:
    """Return whether a savepoint is known to have all queries of its job.

    That is not known of a savepoint taken offline, whose queries the user may have chosen.
    """
    pending = any(each.pending for each in header.job.left_out)
    return header.job.complete and not pending and header.trigger != TRIGGER_OFFLINE


def why_needed(path: str, protected: Mapping[str, str]) -> str | None:
    """Return why a savepoint must stay, None if it need not; see :attr:`Known.protected`."""
    keys = _need_keys(path)
    return next((why for p, why in protected.items() if not keys.isdisjoint(_need_keys(p))), None)


def _need_keys(path: str) -> frozenset[str]:
    """Return the place keys of a savepoint and, if its name is a random one of flinkish, its name.

    A link that has led to it may lead elsewhere by now, and two mounts, or two URLs of one HDFS,
    have no key in common. A copy has the same name, and stays as well.
    """
    name = path.rstrip("/").rpartition("/")[2]
    return place_keys(path) | ({name} if job_prefix(name) else set())


def _needs(catalog: Catalog, paths: Iterable[str], known: Known) -> Mapping[str, list[str]]:
    """Return why savepoints are needed, by their paths."""
    protected = {key: why for path, why in known.protected.items() for key in _need_keys(path)}
    reasons: dict[str, list[str]] = {}
    for path in paths:
        why = [protected[key] for key in _need_keys(path) if key in protected][:1]
        why += [f"the link '{name}' leads to it" for name in catalog.links.get(path, ())]
        reasons[path] = why
    return reasons


def _is_foreign(entry: CatalogEntry, known: Known) -> bool:
    return known.jobs is not None and entry.header.job.job_id not in known.jobs


def _job_keys(
    entries: Sequence[CatalogEntry], places: Mapping[str, Collection[str]], known: Known
) -> Mapping[str, str]:
    """Return the key of each savepoint's job, by path; connected savepoints share a key."""
    parents: dict[str, str] = {}

    def root(node: str) -> str:
        while (above := parents.setdefault(node, node)) != node:
            parents[node] = parents[above]
            node = above
        return node

    homes = {key: entry for entry in entries for key in places[entry.path]}
    for entry in entries:
        if _is_foreign(entry, known):
            continue
        for query in entry.queries:
            parents[root(f"query {query.query_id}")] = root(_job(entry))
        origin = _home(homes, entry.header.job.restored_from)
        if (
            origin is not None
            and origin.header.job.name == entry.header.job.name
            and not _is_foreign(origin, known)
        ):
            parents[root(_job(entry))] = root(_job(origin))
    return {entry.path: root(_job(entry)) for entry in entries}


def _job(entry: CatalogEntry) -> str:
    return f"job {entry.header.job.job_id}"


def _home(homes: Mapping[str, CatalogEntry], location: str | None) -> CatalogEntry | None:
    if location is None:
        return None
    return next((homes[key] for key in place_keys(location) if key in homes), None)


def _scope(
    entries: Sequence[CatalogEntry],
    keys: Mapping[str, str],
    known: Known,
    jobs: Collection[str] | None,
) -> Collection[str]:
    """Return the keys of the jobs that are decided on."""
    if jobs is None:
        return set(keys.values())
    asked = [entry for entry in entries if entry.header.job.job_id in jobs]
    names = {entry.header.job.name for entry in asked if not _is_foreign(entry, known)}
    namesakes = [
        entry
        for entry in entries
        if entry.header.job.name in names and not _is_foreign(entry, known)
    ]
    return {keys[entry.path] for entry in (*asked, *namesakes)}


def _with_running(
    candidates: Sequence[Candidate], running: Collection[str], now: float
) -> list[Candidate]:
    """Mark the newest savepoints of running jobs as needed by these jobs."""
    by_path = {each.path: each for each in candidates}
    for run in {each.run for each in candidates}.intersection(running):
        timed = by_clock([each for each in candidates if each.run == run], now)
        for index, each in enumerate(timed):
            if is_newest(timed, index):
                mine = each.candidate
                why = f"newest of the running job {run[:6]}"
                by_path[mine.path] = replace(mine, needed=(*mine.needed, why))
    return list(by_path.values())


def _without_copies(
    candidates: Sequence[Candidate], entries: Sequence[CatalogEntry]
) -> tuple[Generation, ...]:
    """Count savepoints with the same ``_metadata`` once."""
    seals = {entry.path: entry.opened.seal for entry in entries if entry.opened is not None}
    copies: dict[str, list[Candidate]] = {}
    for each in candidates:
        copies.setdefault(seals.get(each.path, each.path), []).append(each)
    distinct = []
    for same in copies.values():
        same.sort(key=lambda each: (not each.taken_here, each.path))
        needed = dict.fromkeys(reason for each in same for reason in each.needed)
        candidate = replace(same[0], needed=tuple(needed))
        distinct.append(Generation(candidate, tuple(each.path for each in same)))
    return tuple(distinct)
