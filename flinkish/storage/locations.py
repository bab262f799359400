"""Locations: how places in storage are written, and the one form flinkish keeps them in.

A *location* is a string: an absolute local path (``/a/b``), or ``scheme://authority/path`` without
a slash at its end. ``s3a://`` and ``s3n://`` (Hadoop's names) are ``s3://`` here, so one place has
one name in the registry and in messages; :func:`for_spark` gives Hadoop its own name back.
"""

from __future__ import annotations

import os

from flinkish.errors import StorageError

#: Schemes that mean the local file system.
_LOCAL = frozenset({"file", "local"})
_SAME = {"s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs"}
#: Schemes whose libraries read a URL as a browser does.
_NO_QUERY = frozenset({"hdfs", "webhdfs", "viewfs"})
#: Schemes whose authority may be ``user@host``; elsewhere what is before ``@`` would be a key.
_WITH_USER = frozenset({"hdfs", "webhdfs", "viewfs", "sftp", "ssh", "abfs", "abfss"})


def locate(text: str) -> str:
    """The location that a user, Spark or a URL means by ``text``.

    Accepts a plain path (relative ones are taken from the working directory), ``file:/path``,
    ``file:///path`` and ``scheme://authority/path``. Nothing is percent-decoded: Hadoop's and
    Flink's path strings carry no escapes.

    Raises StorageError for a host in a ``file:`` URL, a URL without an authority, and for
    credentials in a URL (they would end up in logs and in the registry).
    """
    scheme, rest = _split(text)
    if not scheme:
        return os.path.abspath(os.path.expanduser(text))
    if scheme in _LOCAL:
        return os.path.abspath(_local(text, rest))
    scheme = _SAME.get(scheme, scheme)
    authority, _, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
    if not authority:
        raise StorageError(
            f"{text} names no bucket or host",
            hint=f"write it as {scheme}://NAME/path",
        )
    user, at, _ = authority.rpartition("@")
    if at and (":" in user or scheme not in _WITH_USER):
        shown = authority.rpartition("@")[2]
        raise StorageError(
            f"{scheme}://******@{shown}/... has credentials in it",
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


def _split(text: str) -> tuple[str, str]:
    """The scheme of a URL in lower case and what follows the colon; no scheme for a path.

    A scheme starts with a letter, and a slash follows its colon: ``10:30`` and ``./a:b`` are paths.
    """
    scheme, colon, rest = text.partition(":")
    is_scheme = scheme[:1].isalpha() and all(c.isalnum() or c in "+-." for c in scheme)
    if colon and is_scheme and rest.startswith("/"):
        return scheme.lower(), rest
    return "", text


def _local(text: str, rest: str) -> str:
    if not rest.startswith("//"):
        return rest
    host, _, path = rest[2:].partition("/")
    if host not in {"", "localhost"}:
        raise StorageError(
            f"{text} names the host {host}",
            hint="write a local path as file:///path or /path",
        )
    return "/" + path


def is_local(location: str) -> bool:
    """Whether a location is a path of this host."""
    return location.startswith("/")


def scheme_of(location: str) -> str:
    """``file``, ``s3``, ``hdfs`` ..."""
    return "file" if is_local(location) else location.partition(":")[0]


def join(location: str, *parts: str) -> str:
    """``location`` with relative parts behind it."""
    return os.path.join(location, *parts)


def parent(location: str) -> str:
    """The location above; that of a bucket or a root is itself."""
    if is_local(location):
        return os.path.dirname(location)
    head, _, _ = location.rpartition("/")
    return location if head.endswith(":/") else head


def base_name(location: str) -> str:
    """The last part; empty for a bucket or a root."""
    if is_local(location) or parent(location) != location:
        return location.rpartition("/")[2]
    return ""


def split(location: str) -> tuple[str, str]:
    """The location above and the last part: what functions take that want (root, name)."""
    return parent(location), base_name(location)


def prefixed(location: str) -> tuple[str, str]:
    """The location above, and what the names of things in ``location`` begin with below that.

    What is given to functions that take (root, name) so follows no link in the place of
    ``location`` itself. Of a bucket or a root: itself, and nothing.
    """
    above, name = split(location)
    return (above, f"{name}/") if name else (location, "")


def has_queries(scheme: str) -> bool:
    """Whether the libraries of a scheme read ``?`` and ``#`` in names as a browser does."""
    return scheme in _NO_QUERY


def to_uri(location: str) -> str:
    """``file:/abs/path``, the form in which Flink and Hadoop print a local path; URLs as is."""
    return "file:" + os.path.abspath(location) if is_local(location) else location


def for_spark(location: str) -> str:
    """The location as Hadoop's file systems know it: ``s3://`` is ``s3a://`` there."""
    if location.startswith("s3://"):
        return "s3a://" + location.removeprefix("s3://")
    return to_uri(location)
