"""Every error flinkish reports: one tree, each class with its exit code, stable id and hint.

::

    FlinkishError                 1   failed
    +-- UsageError                2   usage
    |   +-- AmbiguousJob          2   ambiguous-job
    |   +-- NoSavepointDirectory  2   no-savepoint-directory
    |   +-- InvalidConfiguration  2   invalid-configuration
    |   +-- InvalidUid            2   invalid-uid
    |   +-- InvalidGraph          2   invalid-graph
    |   +-- NoLocation            2   no-location (a StorageError, too)
    +-- PartialFailure            3   partial
    +-- Incompatible              4   incompatible
    |   +-- UnsupportedSession    4   unsupported-session
    |   +-- UnsupportedFormat     4   unsupported-format
    |   +-- NotSavepointable      4   not-savepointable
    |   +-- DuplicateUid          4   duplicate-uid
    |   +-- HashCollision         4   hash-collision
    |   +-- MissingUid            4   missing-uid
    +-- ConsentNeeded             5   consent-needed
    |   +-- NonRestoredState      5   non-restored-state
    +-- JobNotFound               10  job-not-found
    +-- RequestNotFound           10  request-not-found
    +-- UpgradeNotFound           10  upgrade-not-found
    +-- SavepointNotFound         11  savepoint-not-found
    +-- Locked                    12  locked
    +-- WrongState                13  wrong-state
    |   +-- NoCommittedBatch      13  no-committed-batch
    |   +-- NameTaken             13  name-taken
    |   +-- Superseded            13  superseded
    |   +-- GivenUp               13  given-up
    |   +-- ExternalJob           13  external-job
    +-- WaitTimeout               14  timeout
    +-- Corrupt                   15  corrupt
    |   +-- UnsafePath            15  unsafe-path
    +-- StorageError              16  storage
    |   +-- RegistryError         16  registry
    |   +-- BrokerError           16  broker
    |   +-- TableError            16  table
    |   +-- ResultNotWritten      16  result-not-written
    +-- ProgramFailed             1   program-failed
    +-- RolledBack                1   rolled-back
    +-- LaunchFailed              1   launch-failed
    +-- DriverLost                1   driver-lost

The ids and codes are part of the command line's contract. The record of an error (``to_record``)
crosses process boundaries, as in the registry, and :func:`from_record` turns it back into an error
of the class with its id. Subclasses elsewhere are internal; only FilesVanished has its own id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from flinkish.annotations import public, public_evolving


@public
class FlinkishError(Exception):
    """Base class of all errors that flinkish raises on purpose.

    Parameters
    ----------
    message
        What happened and why: one line, no full stop needed at the end.
    hint
        What the user can do; defaults to the class's own hint.
    data
        Facts that a program may need; they appear in ``--json`` errors.
    """

    code: ClassVar[int] = 1
    id: ClassVar[str] = "failed"
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        self.data = data

    @property
    def advice(self) -> str:
        """The hint, with the job's id in place of ``JOB`` where the error knows the job."""
        job = self.data.get("job_id")
        return with_job(self.hint, str(job)) if job else self.hint

    def to_record(self) -> dict[str, Any]:
        """Return the error as JSON data: ``{"id", "code", "message", "hint"}`` and its facts."""
        record: dict[str, Any] = {
            "id": self.id,
            "code": self.code,
            "message": self.message,
            "hint": self.advice,
        }
        record.update({k: v for k, v in self.data.items() if k not in record})
        return record


@public_evolving
class UsageError(FlinkishError):
    code, id = 2, "usage"


@public_evolving
class AmbiguousJob(UsageError):
    id = "ambiguous-job"
    default_hint = "give more digits of the job id"


@public_evolving
class NoSavepointDirectory(UsageError):
    id = "no-savepoint-directory"
    default_hint = (
        "name a target directory, or set execution.checkpointing.savepoint-dir "
        "(-D, flinkish.toml or FLINKISH_EXECUTION_CHECKPOINTING_SAVEPOINT_DIR)"
    )


@public_evolving
class InvalidConfiguration(UsageError):
    id = "invalid-configuration"


@public_evolving
class InvalidUid(UsageError):
    """An invalid uid or uid hash: an empty uid, or a uid hash that is not 32 hex digits."""

    id = "invalid-uid"
    default_hint = "give the operator a non-empty uid, or omit the uid"


@public_evolving
class InvalidGraph(UsageError):
    """An invalid operator graph: an edge to a missing node, or a cycle."""

    id = "invalid-graph"


@public_evolving
class PartialFailure(FlinkishError):
    code, id = 3, "partial"


@public_evolving
class Incompatible(FlinkishError):
    code, id = 4, "incompatible"


@public_evolving
class UnsupportedSession(Incompatible):
    id = "unsupported-session"


@public_evolving
class UnsupportedFormat(Incompatible):
    id = "unsupported-format"


@public_evolving
class NotSavepointable(Incompatible):
    id = "not-savepointable"


@public_evolving
class DuplicateUid(Incompatible):
    """Two operators of one program have the same uid or the same uid hash."""

    id = "duplicate-uid"
    default_hint = "give each of the two operators its own uid"


@public_evolving
class HashCollision(Incompatible):
    """Two operators of one program would keep their state under the same operator id."""

    id = "hash-collision"
    default_hint = "give one of the two operators another uid"


@public_evolving
class MissingUid(Incompatible):
    """Operators have no uid where the configuration or the command requires one."""

    id = "missing-uid"
    default_hint = 'name each of them with df.transform(uid("a-name"))'


@public_evolving
class ConsentNeeded(FlinkishError):
    code, id = 5, "consent-needed"


@public_evolving
class NonRestoredState(ConsentNeeded):
    id = "non-restored-state"
    default_hint = "use -n (--allowNonRestoredState) to drop that state on purpose"


@public_evolving
class JobNotFound(FlinkishError):
    code, id = 10, "job-not-found"
    default_hint = "see the jobs with: flinkish list -a"


@public_evolving
class RequestNotFound(FlinkishError):
    code, id = 10, "request-not-found"
    default_hint = "see a job's requests with: flinkish status JOB"


@public_evolving
class UpgradeNotFound(FlinkishError):
    code, id = 10, "upgrade-not-found"
    default_hint = "see a job's upgrades with: flinkish status JOB"


@public_evolving
class SavepointNotFound(FlinkishError):
    code, id = 11, "savepoint-not-found"
    default_hint = "a savepoint is a directory with a _metadata file"


@public_evolving
class Locked(FlinkishError):
    code, id = 12, "locked"


@public_evolving
class WrongState(FlinkishError):
    code, id = 13, "wrong-state"


@public_evolving
class NameTaken(WrongState):
    """A job that has not ended has the name; ``data`` has that job's ``job_id`` and ``state``."""

    id = "name-taken"


@public_evolving
class Superseded(WrongState):
    """Another job has continued from the state of a job that is to be started again."""

    id = "superseded"


@public_evolving
class NoCommittedBatch(WrongState):
    """A query has not committed its first micro-batch yet: there is nothing to save."""

    id = "no-committed-batch"
    default_hint = "wait until the query has committed its first batch, then try again"


@public_evolving
class GivenUp(WrongState):
    """A driver gave up a request, because its job was not ready for it in time; the job continues.

    Unlike after :class:`WaitTimeout`, the request has failed and will not be carried out.
    """

    id = "given-up"


@public_evolving
class ExternalJob(WrongState):
    """The job was started by another launcher, which alone can start it again."""

    id = "external-job"
    default_hint = (
        "end it with: flinkish stop JOB; then have its launcher start it with "
        "FLINKISH_FROM_SAVEPOINT=PATH"
    )


@public_evolving
class WaitTimeout(FlinkishError):
    """A client has stopped waiting; the work that it waited for continues."""

    code, id = 14, "timeout"


@public_evolving
class Corrupt(FlinkishError):
    code, id = 15, "corrupt"


@public_evolving
class UnsafePath(Corrupt):
    """A name in a file or a directory leads, or may lead, outside its own directory."""

    id = "unsafe-path"
    default_hint = (
        "nothing was changed; check who can write there, and remove the file of that name by hand"
    )


@public_evolving
class StorageError(FlinkishError):
    code, id = 16, "storage"


@public_evolving
class NoLocation(UsageError, StorageError):
    """A text is not a path or URL: a usage error for an argument, else a storage error.

    Texts in savepoints and logs may be anything, so code that handles their unreadable locations
    (as StorageError) handles this error as well.
    """

    id = "no-location"


@public_evolving
class RegistryError(StorageError):
    id = "registry"


@public_evolving
class BrokerError(StorageError):
    """A Kafka broker cannot be asked: it does not answer, or there is no client for it."""

    id = "broker"
    default_hint = (
        "check that the broker is reachable from here, and that its host and port are right"
    )


@public_evolving
class TableError(StorageError):
    """A table of Delta or Iceberg cannot be read, or cannot be brought back to a version."""

    id = "table"


@public_evolving
class ResultNotWritten(StorageError):
    """A command has done its work, but its result could not be written to stdout.

    ``data["result"]`` has the beginning of the result.
    """

    id = "result-not-written"


@public_evolving
class ProgramFailed(FlinkishError):
    """The user's program ended with an error; ``data["tail"]`` has the last lines of its output."""

    id = "program-failed"
    default_hint = "see the whole log with: flinkish logs JOB"


@public_evolving
class RolledBack(FlinkishError):
    """An upgrade was undone, or not carried out: the job continues with its old program."""

    code, id = 1, "rolled-back"


@public_evolving
class LaunchFailed(FlinkishError):
    """The driver could not be started at all, for instance because Java or Spark is missing."""

    id = "launch-failed"


@public_evolving
class DriverLost(FlinkishError):
    """The driver process has ended without leaving a result (killed, host down)."""

    id = "driver-lost"
    default_hint = "see the end of its log with: flinkish logs JOB"


def with_job(hint: str, job_id: str) -> str:
    """Return a hint with a job's id in place of ``JOB`` in its commands. Pure.

    ``JOB`` is replaced only as the first argument of a flinkish command, and never inside quotes,
    because a path may contain the word.
    """
    import re

    # The first part skips text that quoted() has quoted.
    pattern = r"""((?<!\w)'(?:[^']|'"'"')*'|(?<!\w)\$'(?:[^'\\]|\\.)*')|"""
    pattern += r"(\bflinkish (?:[a-z][a-z-]* ){1,2})JOB(?=$|[\s;,.)])"
    return re.sub(pattern, lambda match: match[1] or f"{match[2]}{job_id}", hint)


def quoted(word: str) -> str:
    """Return a name or a path quoted for a shell, for a command in a message.

    A word with unprintable characters is written in ``$'...'``, as bash, zsh and ksh read it,
    because a message is one line of printable characters.
    """
    if not word.isprintable():
        return f"$'{''.join(map(_in_dollar_quotes, word))}'"
    from shlex import quote

    return quote(word)


def quoted_path(path: str) -> str:
    """Return a path as :func:`quoted` does, in a form that no command reads as an option."""
    return quoted(f"./{path}" if path.startswith("-") else path)


def _in_dollar_quotes(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
    is_byte = "\udc80" <= character <= "\udcff"  # a byte of a name that is not UTF-8
    handler = "surrogateescape" if is_byte else "surrogatepass"
    octal = (f"\\{byte:03o}" for byte in character.encode(errors=handler))
    return short or "".join(octal)


def error_classes() -> Iterator[type[FlinkishError]]:
    """Yield every class of the tree, parents before children."""
    queue: list[type[FlinkishError]] = [FlinkishError]
    for cls in queue:
        yield cls
        queue += [each for each in cls.__subclasses__() if each not in queue]


def from_record(record: Mapping[str, Any]) -> FlinkishError:
    """Return the error of a record of :meth:`FlinkishError.to_record`.

    The error is an instance of the class with the record's id, or of :class:`FlinkishError` itself
    if no class has the id.
    """
    facts = {k: v for k, v in record.items() if k not in {"id", "code", "message", "hint"}}
    for cls in error_classes():
        if cls.id == record.get("id"):
            return cls(str(record.get("message", "")), hint=record.get("hint"), **facts)
    return FlinkishError(str(record.get("message", "")), hint=record.get("hint"), **facts)
