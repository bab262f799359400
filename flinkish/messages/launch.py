"""The launch of a job, and the restore it starts from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from flinkish.annotations import public
from flinkish.messages.codec import OMIT_DEFAULT
from flinkish.messages.plan import RestorePlan
from flinkish.messages.restore_options import NO_OPTIONS, VERIFY_LEVELS, RestoreOptions

#: The smallest number of state partitions that can be requested.
LEAST_PARALLELISM = 1


@dataclass(frozen=True)
class RestoreSpec:
    """The restore that is requested, for instance by ``run -s``.

    Attributes
    ----------
    path
        The savepoint, or a plain Spark checkpoint; with ``job``, the job's checkpoints. Empty while
        the savepoint is not taken yet (:attr:`is_awaited`).
    options
        How it is restored: the user's options, with the contents of files of offsets, and with the
        defaults of the configuration.
    parallelism
        The number of state partitions; None for the savepoint's.
    expected
        The plan of all queries that was shown to the user: the restore must have the same plan.
    job
        The id of the ended job whose checkpoints are restored instead of a savepoint (``run
        --resume``).
    """

    path: str
    options: RestoreOptions = NO_OPTIONS
    parallelism: int | None = None
    expected: RestorePlan | None = None
    job: str | None = field(default=None, metadata=OMIT_DEFAULT)

    @property
    def verify(self) -> str:
        """How the files of the savepoint are verified before a driver starts."""
        return self.options.verify or VERIFY_LEVELS[0]

    @property
    def is_awaited(self) -> bool:
        """Whether the driver holds its program before the first query until a savepoint is named.

        See :mod:`flinkish.driver.runtime.handover`.
        """
        return not self.path


#: The name that Spark expects of a pipeline's specification file by default, without its ending.
_SPECIFICATION = "spark-pipeline"


def is_pipeline(application: str | None) -> bool:
    """Return whether a program's file is the specification of a declarative pipeline. Pure."""
    return application is not None and application.endswith((".yaml", ".yml"))


@public
@dataclass(frozen=True)
class Program:
    """A PySpark program and the Spark that runs it.

    A program with neither a file nor a module is an application of flinkish itself.

    Attributes
    ----------
    application
        The program's file, or the specification of a declarative pipeline (:func:`is_pipeline`).
        Relative paths start at the working directory.
    arguments
        The program's arguments.
    module
        The program as a module, instead of a file (``-pym``).
    master
        Spark's master.
    spark_home
        The Spark to use. Default: ``SPARK_HOME``, else the installed pyspark.
    python, client_python
        The Python interpreter of the executors' workers (``-pyexec``), and of the driver
        (``-pyclientexec``).
    py_files, archives, jars, packages
        Files for imports, archives, jars, and Maven coordinates of libraries. One item may name
        several, separated by commas.
    conf
        Spark's settings.
    secret_arguments
        Arguments that follow ``arguments`` and are never shown. Only the supervisor and the driver
        get them unmasked (:mod:`flinkish.launch.secret_settings`).
    """

    application: str | None = None
    arguments: tuple[str, ...] = ()
    module: str | None = None
    master: str | None = None
    spark_home: str | None = None
    python: str | None = None
    client_python: str | None = None
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    secret_arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExternalLauncher:
    """What started a driver that flinkish did not start but attached to.

    Attributes
    ----------
    name
        ``spark-submit``, ``python`` or ``notebook``.
    agent
        The version of flinkish in the driver.
    """

    name: str
    agent: str


@dataclass(frozen=True)
class Launch(Program):
    """A program with all that the supervisor and the driver need to launch it; paths are absolute.

    Attributes
    ----------
    options
        flinkish's effective configuration at submission.
    working_directory
        Where the program starts.
    restore
        What it starts from.
    sink_ahead
        What to do with a sink that has batches already, when nothing is restored: one of
        :data:`~flinkish.messages.restore_options.SINK_MODES`.
    resumes
        Whether ``run --resume`` started it, so that the next such run continues from it.
    named
        Whether the user has named the job, so that its runs belong together.
    external
        What started the driver, if not flinkish; flinkish cannot start such a job again.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    restore: RestoreSpec | None = None
    sink_ahead: str | None = field(default=None, metadata=OMIT_DEFAULT)
    resumes: bool = field(default=False, metadata=OMIT_DEFAULT)
    named: bool = field(default=False, metadata=OMIT_DEFAULT)
    external: ExternalLauncher | None = field(default=None, metadata=OMIT_DEFAULT)

    @property
    def default_name(self) -> str:
        """The stem of the program's file name, or the last part of its module's name.

        For a pipeline whose specification has Spark's default name, the name of its directory.
        """
        if self.application is None:
            return str(self.module).rpartition(".")[2]
        directory, file = os.path.split(self.application)
        stem = os.path.splitext(file)[0]
        is_specification = is_pipeline(file) and stem == _SPECIFICATION
        return (os.path.basename(directory) if is_specification else "") or stem


@dataclass(frozen=True)
class Secrets:
    """Values that a launcher passes to the supervisor directly, to keep them out of the registry.

    Attributes
    ----------
    conf
        Secret settings of Spark.
    arguments
        All arguments of the program if one of them is secret, else None.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] | None = None
