"""The log of a job's driver: all of it, its last lines, chosen lines, and lines as they come."""

from __future__ import annotations

import codecs
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from flinkish.client.context import Context
from flinkish.client.waiting import look
from flinkish.errors import StorageError
from flinkish.launch.job_logs import last_lines
from flinkish.log_lines import LogChoice, LogFilter
from flinkish.registry.jobs import JobRecord

_POLL = 0.2
_BLOCK = 64 * 1024


class LogReader:
    """Reads a job's log in blocks, because it may be larger than memory.

    ``choice``: which lines are wanted. Default: all.
    """

    def __init__(self, job: JobRecord, choice: LogChoice | None = None) -> None:
        self._job = job
        self._path = job.log_path or ""
        wanted = choice or LogChoice()
        self._filter = None if wanted.is_everything else LogFilter(wanted, job.start_time)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = 0

    def read(self) -> Iterator[str]:
        """Yield the chosen text from where the last call ended to the current end of the log.

        Raises StorageError if the log cannot be read on this host.
        """
        try:
            with open(self._path, "rb") as stream:
                stream.seek(self._offset)
                while data := stream.read(_BLOCK):
                    self._offset += len(data)
                    text = self._decoder.decode(data)
                    if self._filter is None:
                        yield text
                    else:
                        yield from self._filter.feed(text)
        except OSError as error:
            raise _unreadable(self._job, error) from error

    def finish(self) -> Iterator[str]:
        """Yield what :meth:`read` holds back: an incomplete last line or character."""
        text = self._decoder.decode(b"", final=True)
        if self._filter is None:
            yield text
        else:
            yield from self._filter.feed(text)
            yield from self._filter.finish()

    def read_last(self, count: int, *, to_end: bool = False) -> Iterator[str]:
        """Yield the last ``count`` of the chosen lines; :meth:`read` continues after them.

        ``to_end``: whether an incomplete last line of the log counts too, instead of being left to
        :meth:`finish`. If no choice of lines was given, such a line always counts.

        Raises StorageError if the log cannot be read on this host.
        """
        if self._filter is None:
            try:
                text, self._offset = last_lines(self._path, count)
            except OSError as error:
                raise _unreadable(self._job, error) from error
            yield text
        else:
            yield from _last(chain(self.read(), self.finish() if to_end else ()), count)

    def follow(self, context: Context) -> Iterator[str]:
        """Yield the chosen text as the log grows, until the job has ended.

        Raises StorageError if the log or the registry cannot be read.
        """
        while True:
            ended = look(context, self._job).state.is_final
            yield from self.read()
            if ended:
                yield from self.finish()
                return
            time.sleep(_POLL)


def _last(pieces: Iterable[str], count: int) -> deque[str]:
    """Return the last lines of a text; ``pieces`` are its lines, or parts of long lines."""
    lines: deque[str] = deque(maxlen=count)
    for piece in pieces:
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += piece
        else:
            lines.append(piece)
    return lines


def _unreadable(job: JobRecord, error: OSError) -> StorageError:
    if job.launch.external is not None:
        return StorageError(
            f"the log of job {job.name} ({job.job_id}) is kept by its launcher "
            f"({job.launch.external.name}), because flinkish did not start it",
            hint="see the output of the program where it was started"
            + (f", on {job.driver.host}" if job.driver else ""),
        )
    host = job.supervisor.host if job.supervisor else None
    return StorageError(
        f"cannot read the log of job {job.name} ({job.job_id}): {job.log_path}: {error.strerror}",
        hint=f"it was written on {host or 'the host that ran the job'}, and may have been removed",
    )
