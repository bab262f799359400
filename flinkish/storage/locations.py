"""Locations: how files and directories are addressed, and the normal form that flinkish keeps.

A *location* is a string: an absolute local path (``/a/b``), or ``scheme://authority/path`` without
a trailing slash. Hadoop's schemes ``s3a://`` and ``s3n://`` are converted to ``s3://``, and
``gcs://`` to ``gs://``; :func:`for_spark` returns ``s3a://`` again. Other spellings of a place stay
(links, users and ports of HDFS, Azure's schemes): :func:`same_place` compares locations.
"""

from __future__ import annotations

import os

from flinkish.errors import NoLocation, StorageError

#: Schemes of the local file system.
_LOCAL = frozenset({"file", "local"})
_SAME = {"s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs"}
#: Schemes whose libraries parse ``?`` and ``#`` as a browser does.
_NO_QUERY = frozenset({"hdfs", "webhdfs", "viewfs", "abfs", "abfss", "az"})
#: Schemes whose authority may be ``user@host``; in others the text before ``@`` would be a key.
_WITH_USER = frozenset({"hdfs", "webhdfs", "viewfs", "sftp", "ssh", "abfs", "abfss"})


#: Schemes that make a text a (refused) URL even if no slash follows the colon.
_KNOWN = _LOCAL | frozenset(_SAME) | frozenset(_SAME.values()) | _WITH_USER

#: Schemes for one directory: with and without TLS in Hadoop, and fsspec's own name.
_AZURE = frozenset({"abfs", "abfss", "az"})
#: Schemes whose authority is a NameNode, whoever the user; HDFS has a default port.
_NAMENODES = {"hdfs": ":8020", "webhdfs": ""}


def locate(text: str) -> str:
    """Convert a path or URL, as a user or Spark writes it, into a location.

    Accepts a plain path (relative to the working directory), ``file:/path``, ``file:///path`` and
    ``scheme://authority/path``. Nothing is percent-decoded: path strings of Hadoop and Flink have
    no escapes.

    Raises NoLocation if the text is empty, is a URL without a slash after its scheme, or is a
    relative path while the working directory no longer exists. Raises StorageError if a ``file:``
    URL names a host other than ``localhost``; a URL has no authority, or ``..`` in its path; the
    scheme gives a ``?`` or ``#`` in the path another meaning; or the URL contains credentials,
    which would appear in logs and in the registry.
    """
    if not text.strip():
        raise NoLocation("the path is empty", hint="name a directory or a URL")
    scheme, rest = _split(text)
    if not scheme:
        return _absolute(text)
    if scheme in _LOCAL:
        return _absolute(_local(text, rest))
    scheme = _SAME.get(scheme, scheme)
    authority, _, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
    if not authority:
        raise StorageError(
            f"{_masked(text)} names no bucket or host",
            hint=f"write it as {scheme}://NAME/path",
        )
    user, at, _ = authority.rpartition("@")
    if at and (":" in user or scheme not in _WITH_USER):
        host = authority.rpartition("@")[2]
        raise StorageError(
            f"{scheme}://******@{host}/... has credentials in it",
            hint="give them through the environment or fsspec's own configuration "
            "(for S3: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or a profile)",
        )
    parts = [part for part in path.split("/") if part and part != "."]
    if scheme in _NO_QUERY and ("?" in path or "#" in path):
        raise StorageError(
            f"{text} has a '?' or '#' in it, which {scheme} URLs give another meaning",
            hint="choose a path without them",
        )
    if ".." in parts:
        raise StorageError(f"{text} has '..' in it", hint="write the whole path")
    return "/".join([f"{scheme}://{authority}", *parts])


def locate_from(directory: str, text: str) -> str:
    """Convert a path or URL as :func:`locate` does; a relative path starts at ``directory``."""
    scheme, _ = _split(text)
    return locate(text if scheme else os.path.join(directory, os.path.expanduser(text)))


def _split(text: str) -> tuple[str, str]:
    """Split a URL into its scheme in lower case and the text after the colon; a path has no scheme.

    A scheme starts with a letter, and a slash follows its colon: ``10:30`` and ``./a:b`` are paths.
    ``file:a`` is neither a path nor a URL: Hadoop refuses it ("Relative path in absolute URI"), and
    nobody means a directory of that name. Raises NoLocation for a text of this kind.
    """
    scheme, colon, rest = text.partition(":")
    is_scheme = scheme[:1].isalpha() and all(c.isalnum() or c in "+-." for c in scheme)
    if colon and is_scheme and rest.startswith("/"):
        return scheme.lower(), rest
    if colon and scheme.lower() in _KNOWN:
        text = _masked(text)
        raise NoLocation(
            f"{text} is a {scheme.lower()} URL without a slash after the colon",
            hint=f"write a path, or {scheme.lower()}:/absolute/path"
            if scheme.lower() in _LOCAL
            else f"write {scheme.lower()}://NAME/path, or ./{text} for a path of that name",
        )
    return "", text


def _masked(text: str) -> str:
    """Return a refused URL for a message; what stands before an ``@`` may be a password."""
    scheme, _, rest = text.partition(":")
    _, at, place = rest.rpartition("@")
    return f"{scheme}:******@{place}" if at else text


def _absolute(path: str) -> str:
    """Return an absolute path with one leading slash; ``abspath`` keeps two, as POSIX allows."""
    try:
        absolute = os.path.abspath(os.path.expanduser(path))
    except OSError as error:
        raise NoLocation(
            f"{path} is a relative path, but the working directory no longer exists: "
            f"{error.strerror}",
            hint="write an absolute path, or change to an existing directory",
        ) from error
    return "/" + absolute.lstrip("/")


def _local(text: str, rest: str) -> str:
    if not rest.startswith("//"):
        return rest
    host, _, path = rest[2:].partition("/")
    if host not in {"", "localhost"}:
        raise StorageError(
            f"{_masked(text)} names the host {host.rpartition('@')[2]}",
            hint="write a local path as file:///path or /path",
        )
    return "/" + path


def is_local(location: str) -> bool:
    """Return whether a location is a path of this host."""
    return location.startswith("/")


def scheme_of(location: str) -> str:
    """Return the scheme: ``file``, ``s3``, ``hdfs`` ..."""
    return "file" if is_local(location) else location.partition(":")[0]


def join(location: str, *parts: str) -> str:
    """Append relative parts to ``location``."""
    return os.path.join(location, *parts)


def parent(location: str) -> str:
    """Return the parent location; a bucket or a root is its own parent."""
    if is_local(location):
        return os.path.dirname(location)
    head, _, _ = location.rpartition("/")
    return location if head.endswith(":/") else head


def base_name(location: str) -> str:
    """Return the last part of the path; empty for a bucket or a root."""
    if is_local(location) or parent(location) != location:
        return location.rpartition("/")[2]
    return ""


def split(location: str) -> tuple[str, str]:
    """Split a location into its parent and its last part, for functions that take (root, name)."""
    return parent(location), base_name(location)


def prefixed(location: str) -> tuple[str, str]:
    """Return the parent of ``location``, and the prefix of the names that lie inside ``location``.

    Functions that take (root, name) then do not follow a link in the place of ``location`` itself.
    For a bucket or a root: the location itself and an empty prefix.
    """
    above, name = split(location)
    return (above, f"{name}/") if name else (location, "")


def has_queries(scheme: str) -> bool:
    """Return whether the libraries for a scheme parse ``?`` and ``#`` in names, as in a URL."""
    return scheme in _NO_QUERY


def to_uri(location: str) -> str:
    """Return ``file:/abs/path`` for a local path, as Flink and Hadoop print it; URLs unchanged."""
    return "file:" + _absolute(location) if is_local(location) else location


def for_spark(location: str) -> str:
    """Return the location in the form of Hadoop's file systems: ``s3://`` becomes ``s3a://``."""
    if location.startswith("s3://"):
        return "s3a://" + location.removeprefix("s3://")
    return to_uri(location)


def same_place(one: str, other: str) -> bool:
    """Return whether two locations are the same, with links resolved, in whatever spelling."""
    return one_name(one) == one_name(other)


def one_name(location: str) -> str:
    """Return a location's canonical name, with links resolved; an invalid one stays as it is.

    It is for comparisons and messages: a library may need what it leaves out (hdfs-native the
    port).
    """
    try:
        place = locate(location)
        return os.path.realpath(place) if is_local(place) else _one_spelling(place)
    except (StorageError, ValueError):  # ValueError: from realpath, for a null byte
        return location


def _one_spelling(place: str) -> str:
    """Return one spelling for the remote locations that are one directory for Hadoop. Pure."""
    scheme, _, rest = place.partition("://")
    authority, slash, path = rest.partition("/")
    if scheme in _NAMENODES:
        authority = authority.rpartition("@")[2].lower().removesuffix(_NAMENODES[scheme])
    elif scheme in _AZURE:
        scheme, authority = "abfss", authority.lower()
    return f"{scheme}://{authority}{slash}{path}"
