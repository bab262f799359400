"""A savepoint or checkpoint whose paths are mapped to other places (``--map-path``).

The paths in logs of file sources are mapped when the logs are read
(:attr:`.OriginCheckpoint.paths`). This module maps the paths in the descriptions of sources and
sinks, and refuses mappings that fit nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from flinkish.checkpoint.format.logs import is_file_source_log
from flinkish.checkpoint.format.names import SOURCES
from flinkish.connectors.path_map import PathMap
from flinkish.connectors.sources import SavedSource, normal_path
from flinkish.errors import UsageError
from flinkish.restore.materialize.origin_checkpoints import parsed, read_file
from flinkish.restore.materialize.source_logs import read_files
from flinkish.units import first_of

if TYPE_CHECKING:
    from flinkish.restore.origin.restore_origin import RestorableQuery, RestoreOrigin

#: Maximum number of paths that an error names.
_NAMED = 5


def with_mapped_paths(origin: RestoreOrigin, pairs: tuple[tuple[str, str], ...]) -> RestoreOrigin:
    """Return the origin of a restore with its paths mapped by pairs (old, new) of locations.

    Raises UsageError if a pair fits no path in the origin, and for the files of sources what
    ``read_file`` and ``parsed`` raise.
    """
    if not pairs:
        return origin
    paths = PathMap(pairs)
    uses: Counter[tuple[str, str]] = Counter()
    places: dict[str, None] = {}
    mapped = {}
    for key, offer in origin.by_key.items():
        own: Counter[tuple[str, str]] = Counter()
        for path, count in _paths_of(offer, paths):
            pair = paths.pair_of(path)
            own.update({} if pair is None else {pair: count})
            places.setdefault(path)
        uses.update(own)
        mapped[key] = _with_paths(offer, paths, own)
    for pair in pairs:
        if not uses[pair]:
            raise _fits_nothing(pair, [*places])
    return replace(origin, by_key=mapped)


def _paths_of(offer: RestorableQuery, paths: PathMap) -> Iterator[tuple[str, int]]:
    """Yield the paths that a saved query names, and how often each occurs.

    For a file that the query has read, the path is that of its directory, or that of the file
    itself if a pair of ``paths`` may name the file.
    """
    for saved in offer.query.sources or ():
        yield (saved.signature or "").partition("[")[2].removesuffix("]"), 1
        yield (saved.options or {}).get("sourcearchivedir", ""), 1
    yield str(offer.query.sink.get("path") or ""), 1
    names = {old.rstrip("/").rpartition("/")[2] for old, _ in paths.pairs}
    places: Counter[str] = Counter()
    for path in offer.origin.files:
        if not path.startswith(f"{SOURCES}/") or path.endswith(".crc"):
            continue
        data = read_file(offer.origin, path)
        if is_file_source_log(data):
            files = parsed(offer.origin, path, read_files, data)
            for each in files:
                file = unquote(each.path)
                directory, _, name = file.rpartition("/")
                places[file if name in names else directory] += 1
    yield from places.items()


def _with_paths(
    offer: RestorableQuery, paths: PathMap, uses: Mapping[tuple[str, str], int]
) -> RestorableQuery:
    query, sources = offer.query, offer.query.sources
    name = query.describe()
    return replace(
        offer,
        query=replace(
            query,
            sources=None if sources is None else tuple(_source(each, paths) for each in sources),
            sink=_sink(query.sink, paths),
        ),
        origin=replace(offer.origin, paths=paths),
        path_notes=tuple(f"{name}: {old} is now {new}" for (old, new) in uses),
    )


def _source(saved: SavedSource, paths: PathMap) -> SavedSource:
    signature = None if saved.signature is None else paths.signature(saved.signature)
    options = dict(saved.options or {})
    archive = paths.path(options.get("sourcearchivedir", ""))
    if archive is not None:
        options["sourcearchivedir"] = archive
    return replace(
        saved,
        signature=signature or saved.signature,
        options=None if saved.options is None else options,
    )


def _sink(sink: Mapping[str, Any], paths: PathMap) -> Mapping[str, Any]:
    path = paths.path(str(sink.get("path") or ""))
    return sink if path is None else {**sink, "path": path}


def _fits_nothing(pair: tuple[str, str], places: list[str]) -> UsageError:
    absolute = dict.fromkeys(
        normal_path(place) for place in places if place.startswith("/") or ":/" in place
    )
    named = first_of(list(absolute), limit=_NAMED)
    hint = f"the paths that it could map: {named}"
    return UsageError(
        f"--map-path {pair[0]}={pair[1]}: nothing that is restored names a path in {pair[0]}",
        hint=hint if named else "what is restored names no path: omit --map-path",
    )
