"""What every command starts from: its output, the configuration, the registry."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from flinkish.cli.output.printer import Output
from flinkish.cli.output.progress import OutputReporter
from flinkish.client.context import Context
from flinkish.config import Config, environment_warnings


class Session(Context):
    """One call of the command: what the use cases of :mod:`flinkish.client` are given.

    Parameters
    ----------
    out: where results, notices and progress go.
    dynamic: the ``-D`` options in order.
    flags: configuration keys set by the command's own options.
    """

    def __init__(
        self,
        out: Output,
        *,
        dynamic: Sequence[str] = (),
        flags: Mapping[str, str | None] | None = None,
    ) -> None:
        self.out = out
        config = Config.load(flags=flags or {}, dynamic=dynamic)
        for line in (*config.warnings(), *environment_warnings(os.environ)):
            out.warning(line)
        super().__init__(config)
        self.reporter: OutputReporter = OutputReporter(out)

    def __enter__(self) -> Session:
        return self


class Interrupted(BaseException):
    """A signal ended the waiting, not the work. ``code`` is the exit status, 130 or 143.

    Not an Exception: nothing on the way up may swallow it.
    """

    def __init__(self, code: int, message: str = "", follow: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.follow = follow
