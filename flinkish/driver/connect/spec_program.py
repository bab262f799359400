"""A pipeline's specification as a program: what ``spark-pipelines run`` does, in the driver."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import ModuleType

from flinkish.driver.connect.server import prepare_server
from flinkish.errors import UnsupportedSession


def run_specification(argv: Sequence[str]) -> None:
    """Run the pipeline of ``argv[0]``; the other words are options of ``spark-pipelines run``.

    Raises UnsupportedSession if this Spark has no pipelines, and the errors of ``spark-pipelines``.
    """
    try:
        from pyspark.pipelines import cli
    except ImportError as error:
        from pyspark import __version__ as spark

        raise UnsupportedSession(
            f"the program is the specification of a pipeline, and this PySpark ({spark}) cannot "
            f"run pipelines: {error}",
            hint="Spark 4.1 and later have them; they need: pip install 'pyspark[pipelines]'",
        ) from error
    prepare_server()
    sys.argv = ["spark-pipelines", "run", "--spec", *argv]
    cli.main()


def specification_of(main: ModuleType | None) -> str | None:
    """Return the specification that ``spark-pipelines`` runs in this process, or None.

    ``main`` is the module ``__main__``. The call comes while ``spark-pipelines`` imports the
    pipeline's definitions, when the working directory is that of the specification.
    """
    program = getattr(main, "__file__", None) or ""
    if not program.replace(os.sep, "/").endswith("pyspark/pipelines/cli.py"):
        return None
    names = [sys.argv[at + 1] for at, word in enumerate(sys.argv[:-1]) if word == "--spec"] + [
        word.partition("=")[2] for word in sys.argv if word.startswith("--spec=")
    ]
    names += ["spark-pipeline.yaml", "spark-pipeline.yml"]
    paths = (os.path.join(os.getcwd(), os.path.basename(name)) for name in names)
    return next((path for path in paths if os.path.isfile(path)), None)
