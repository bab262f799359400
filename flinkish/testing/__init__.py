"""Tests of streaming programs with pytest: restores, batches and restarts, and state as rows.

The plugin (:mod:`.plugin`) comes with flinkish, and has the fixture ``flinkish_jobs``, a
:class:`~flinkish.testing.jobs.Jobs`. Every run of pytest imports the plugin, which imports the
modules that it needs only when a test asks for the fixture.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    from flinkish.testing.jobs import Jobs, RunningJob

__all__ = ["Jobs", "RunningJob"]

if not TYPE_CHECKING:  # otherwise type checkers would accept any name as an attribute

    def __getattr__(name: str) -> object:
        if name in __all__:
            from flinkish.testing import jobs

            return getattr(jobs, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
