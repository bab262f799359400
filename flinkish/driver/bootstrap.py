"""Chooses what a driver does, a job or the answer to one question, before it imports any of it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from flinkish.jobs import secretconf


def main(argv: Sequence[str]) -> int:
    """The driver's main function.

    Parameters
    ----------
    argv: ``APP [ARGS...]`` or ``--module NAME [ARGS...]``.

    Returns the driver's exit status: 0 when the job FINISHED or was CANCELED.
    """
    secretconf.remove(os.environ.pop(secretconf.FILE_VARIABLE, None))  # Spark has read it
    argv = secretconf.with_arguments(argv, os.environ)
    if "FLINKISH_DESCRIBE" in os.environ:
        from flinkish.driver import describe

        return describe.main(argv)
    if "FLINKISH_MIGRATE" in os.environ:
        from flinkish.driver import migrating

        return migrating.main()
    if "FLINKISH_STATE" in os.environ:
        from flinkish.driver import stateexport

        return stateexport.main()
    from flinkish.driver import job

    return job.main(argv)
