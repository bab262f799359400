"""One call of a command as the use cases see it: configuration, registry, reporter."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from flinkish.cli.output.printer import Output
from flinkish.cli.output.progress import OutputReporter
from flinkish.client.context import Context
from flinkish.config import Config, environment_warnings


class Session(Context):
    """One call of a command: the context for the use cases of :mod:`flinkish.client`.

    ``out``: receives results, notices and progress. ``dynamic``: the ``-D`` options in order.
    ``flags``: configuration keys set by the command's own options.
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

    def warn_of_absent_registry(self) -> None:
        """Warn, even with ``-q``, that there was nothing to do because there is no registry.

        A crontab without HOME, or with another HOME, looks for the registry in another place.
        """
        if self.absent_registry is not None:
            self.out.warning(
                f"there is no registry at {self.absent_registry}: no job was run with it "
                "(HOME, XDG_STATE_HOME and registry.url determine its location)"
            )

    def document(self, fields: Mapping[str, Any]) -> None:
        """Write a JSON document, with ``absent_registry`` if there is no registry."""
        absent = self.absent_registry
        self.out.document(fields if absent is None else {**fields, "absent_registry": absent})

    def __enter__(self) -> Session:
        return self
