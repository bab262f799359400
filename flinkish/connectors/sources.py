"""The sources of both sides of a restore, and the findings about a resuming source. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.messages.plan import RestoreOutcome
from flinkish.operators.identity import UNKNOWN, Identified, OperatorIdentity

#: ``user:secret@`` at the beginning of an authority; the secret may have a ``/`` or an ``@``. A
#: container (``container@account``) has no colon, so it does not match. Nor does a port
#: (``host:8020/``), except on S3, whose URLs have no port.
_PORT = r"(?!\d+(?:/|$))"
_SECRET, _S3_SECRET = (re.compile(rf"^[^/:]*:{port}[^@]*@(?:[^/@]*@)*") for port in (_PORT, ""))
_S3 = frozenset({"s3", "s3a", "s3n"})
#: The key of a saved query; None for the query of a plain checkpoint.
QueryKey = str | None


def within(name: str, query: QueryKey) -> str | None:
    """Return ``NAME`` if a user's ``name`` is ``QUERY/NAME`` with this query, else None."""
    prefix = f"{query}/"
    return name.removeprefix(prefix) if query and name.startswith(prefix) else None


def is_spark_name(uid: str | None, directory: str) -> bool:
    """Return whether the uid of a source is its name in Spark, ``readStream.name("x")``.

    Spark keeps such a source in a directory of that name. The name is unique in its query, while a
    uid of flinkish is unique in the job.
    """
    return uid is not None and uid == directory and not uid.isdigit()


#: The options that name sources.
RESET, SET = "--reset-source", "--set-offsets"


@dataclass(frozen=True)
class SavedSource(Identified):
    """The saved position of one source.

    Attributes
    ----------
    entry
        The line of the offset log, from 0.
    directory
        The source's directory below ``sources/``.
    offset
        The text of the line ``entry``; always ``-`` for a source of a plain checkpoint.
    signature
        A description of what the source reads.
    inputs
        For operators with several inputs, pairs of an operator's ordinal and the input through
        which the source reaches that operator (a join's left is 0).
    topics
        The record of the topics of a Kafka source (``flinkish.connectors.kafka.reading``), as
        the savepoint has it.
    options
        The options that a savepoint records for the source's format, by their names in lower case;
        None if the savepoint does not have them.
    """

    query: QueryKey
    entry: int
    directory: str
    offset: str
    identity: OperatorIdentity = UNKNOWN
    signature: str | None = None
    inputs: tuple[tuple[int, int], ...] = ()
    topics: Mapping[str, Any] = field(default_factory=dict, compare=False)
    options: Mapping[str, str] | None = field(default=None, compare=False, repr=False)

    @property
    def is_named(self) -> bool:
        """Whether the program gave the source a name in Spark (see :func:`is_spark_name`)."""
        return is_spark_name(self.uid, self.directory)

    def answers_to(self, name: str) -> bool:
        """Return whether ``name`` may be a user's name for the source that takes this position.

        That source may read something else of the same kind by now.
        """
        kind, bracket, _ = name.partition("[")
        signature = self.signature or ""
        other = bracket and signature.startswith(f"{kind}[")
        return name == self.uid or bool(
            other or (name and not name.isdigit() and name in signature)
        )

    def describe(self) -> str:
        """Return a text for messages: ``the position of source 'flights' (query 'q')``."""
        name = repr(self.uid) if self.uid is not None else (self.signature or f"{self.entry}")
        return f"the position of source {name}" + (
            "" if self.query is None else f" (query '{self.query}')"
        )


@dataclass(frozen=True)
class NewSource:
    """One source of a starting query.

    Attributes
    ----------
    query
        The name of that query.
    feeds
        The ordinals of the operators that it feeds.
    inputs
        As in :class:`SavedSource`.
    options
        The options that matter to a restore (:attr:`~flinkish.connectors.base.Connector.options`),
        as the program gives them.
    """

    entry: int
    directory: str
    signature: str
    lookup_ids: tuple[str, ...]
    uid: str | None = None
    feeds: tuple[int, ...] = ()
    inputs: tuple[tuple[int, int], ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: str = ""

    @property
    def is_named(self) -> bool:
        """Whether the program gave the source a name in Spark (see :func:`is_spark_name`)."""
        return is_spark_name(self.uid, self.directory)

    def describe(self) -> str:
        """Return a text for messages."""
        return f"source '{self.uid}'" if self.uid is not None else f"source {self.signature}"


def normal_path(path: str) -> str:
    """Return a location without credentials, in its normal form. Pure.

    ``file:///in/``, ``file:/in`` and ``/in`` become the same; a relative path stays relative.
    """
    scheme, colon, rest = path.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        scheme, rest = "", path
    authority = ""
    if scheme and rest.startswith("//"):
        secret = _S3_SECRET if scheme.lower() in _S3 else _SECRET
        authority, slash, rest = secret.sub("", rest[2:]).partition("/")
        rest = slash + rest
    rest = re.sub(r"/(?:\.?/)+", "/", rest)
    rest = re.sub(r"(?<=.)/\.?$", "", rest)
    if not scheme or scheme.lower() == "file":
        return rest
    return f"{scheme.lower()}:{'//' if authority else ''}{authority}{rest}"


def kind_of(signature: str | None) -> str:
    """Return the format in a signature, ``kafka`` in ``kafka[subscribe=a]``; empty if unknown."""
    return (signature or "").partition("[")[0].removesuffix("Source").lower()


def reset_flag(source: NewSource) -> str:
    """Return the option with which a source starts from scratch, quoted for a shell if needed."""
    return name_option(RESET, source)


def name_option(option: str, source: NewSource, more: str = "") -> str:
    """Return an option that names a source, quoted for a shell where necessary.

    ``more`` follows the name of the source.
    """
    name = (source.uid or source.signature) + more
    plain = re.fullmatch(r"[\w.=,:/@%+-]+", name)
    return f"{option} " + (name if plain else "'" + name.replace("'", "'\\''") + "'")


#: The option by which the user agrees that rows are skipped.
ACCEPT_LOST_ROWS = "--accept-lost-rows"
#: The option with which a plan is made without asking brokers and tables.
OFFLINE = "--offline"


@dataclass(frozen=True)
class Finding:
    """One fact that matters for the restore of a source; ``reason`` is its stable id.

    ``text`` continues a sentence that begins with the source's name. ``rows`` is how many rows, at
    most, are never read because of this fact; None if unknown, and for notes, which lose none.
    """

    reason: str
    outcome: RestoreOutcome
    text: str
    advice: str = ""
    rows: int | None = None


@dataclass(frozen=True)
class Consent:
    """The consents that a source may need.

    ``reset`` is the option with which this source starts from scratch; ``lost_rows`` says whether
    the user has agreed that rows are skipped (:data:`ACCEPT_LOST_ROWS`).
    """

    reset: str
    lost_rows: bool = False


class SourceAnswer:
    """The answer of a source's broker, table or directory: what is still there to be read."""

    def judge(self, offset: str, consent: Consent) -> Iterable[Finding]:
        """Return the findings about the source if it continues from a position."""
        return ()

    def judge_reset(self, offset: str) -> Iterable[Finding]:
        """Return which input the source reads twice or never if it leaves a position behind."""
        return ()

    def counts_losses(self, offset: str) -> bool:
        """Return whether the rows of the findings are all that the source loses at a position."""
        return False


def gravest_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings, the most severe ones first."""
    return tuple(sorted(findings, key=lambda each: _GRAVEST.index(each.outcome)))


_GRAVEST = tuple(reversed(RestoreOutcome))
