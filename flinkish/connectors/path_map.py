"""Other places for the paths that a savepoint names (``--map-path``). Pure.

A path or URL is mapped if it is OLD or lies below OLD; the rest of the path stays. The schemes of
S3 (``s3``, ``s3a``, ``s3n``) count as one. If both URLs are on S3, the mapped URL keeps the scheme
of the old one, because the same program reads both; if only NEW is on S3, it gets ``s3a``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from posixpath import normpath
from urllib.parse import unquote

from flinkish.connectors.sources import normal_path

_S3 = re.compile(r"s3[an]?://")
#: A character that ``java.net.URI``, and so Spark's logs, escape in a path.
_PLAIN = re.compile(r"[^A-Za-z0-9\-_.!~*'();/:@&=+$,\u00a1-\U0010ffff]")


@dataclass(frozen=True)
class PathMap:
    """Pairs (old, new) of locations; no two old locations overlap, and no two new ones do."""

    pairs: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def pair_of(self, path: str) -> tuple[str, str] | None:
        """Return the pair that maps a path or URL without escapes; None if none does."""
        key = _key(path)
        return next((pair for pair in self.pairs if _is_below(key, _key(pair[0]))), None)

    def path(self, path: str) -> str | None:
        """Return the new place of a path or URL without escapes; None if it stays."""
        pair = self.pair_of(path)
        if pair is None:
            return None
        return _like(path, pair[1]) + _key(path)[len(_key(pair[0])) :]

    def url(self, url: str) -> str | None:
        """Return the new URL, with percent escapes, of a file in a Spark log; None if it stays."""
        path = normal_path(unquote(url))
        pair = self.pair_of(path)
        if pair is None:
            return None
        depth = _key(path)[len(_key(pair[0])) :].count("/")
        rest = url.split("/")[-depth:] if depth else []  # as it was escaped
        return "/".join([_escaped(_like(path, pair[1])), *rest])

    def url_from_outside(self, url: str, place: str) -> str | None:
        """As :meth:`url`, but None for a file in ``place``, whose URL is the new one already."""
        return None if _is_below(_key(unquote(url)), _key(place)) else self.url(url)

    def leads_to(self, path: str) -> bool:
        """Return whether a path or URL without escapes is in a new place."""
        return any(_is_below(_key(path), _key(new)) for _, new in self.pairs)

    def signature(self, signature: str) -> str | None:
        """Return what a source reads, ``format[path]``, at its new place; None if it stays."""
        kind, bracket, rest = signature.partition("[")
        path = self.path(rest.removesuffix("]")) if bracket else None
        return None if path is None else f"{kind}[{path}]"


NO_MAP = PathMap()


def overlapping(pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield any two old locations, and any two new ones, of which one is or contains the other."""
    for side in (0, 1):
        places = sorted(pair[side] for pair in pairs)
        yield from (
            (one, other)
            for i, one in enumerate(places)
            for other in places[i + 1 :]
            if meet(one, other)
        )


def meet(one: str, other: str) -> bool:
    """Return whether two locations are the same, or one of them contains the other."""
    return _is_below(_key(other), _key(one)) or _is_below(_key(one), _key(other))


def _key(path: str) -> str:
    """Return the form that all spellings of one path or URL have in common."""
    return _S3.sub("s3://", normal_path(path)).rstrip("/")


def _is_below(key: str, above: str) -> bool:
    """Return whether a place is ``above`` or lies in it; ``/a/../b`` does not lie in ``/a``."""
    rest = key.removeprefix(f"{above}/")
    return key == above or (rest != key and normpath(rest).split("/")[0] != "..")


def _like(old: str, new: str) -> str:
    """Return a new place; if it is on S3, with the S3 scheme of the old place, or else ``s3a``."""
    was = _S3.match(old)
    return _S3.sub(was.group() if was else "s3a://", normal_path(new)).rstrip("/")


def _escaped(location: str) -> str:
    """Return the URL of a location as Spark's logs have it."""
    if not location.startswith("/") and "://" in location:
        scheme, _, rest = location.partition("://")
        authority, slash, path = rest.partition("/")
        return f"{scheme}://{authority}{slash}{_quoted(path)}"
    return f"file://{_quoted(location)}"


def _quoted(path: str) -> str:
    return _PLAIN.sub(lambda m: "".join(f"%{b:02X}" for b in m.group().encode()), path)
