"""Planning of each query that a program starts, with the uid rules across all its queries."""

from __future__ import annotations

import os
import pkgutil
import site
import sys
import sysconfig
from collections.abc import Mapping
from typing import Any

import flinkish
from flinkish.config import parse_boolean
from flinkish.driver.log import log
from flinkish.driver.plan.plan_extraction import PlannedQuery, check_across_queries, extract_plan
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.errors import FlinkishError, Incompatible, InvalidConfiguration
from flinkish.operators.hasher import HasherVersion
from flinkish.state.snapshots import DEFAULT_MODULES


class Planning:
    """Plans every query of one job.

    ``options`` are flinkish's configuration; ``execution.stream-graph-hasher.version``,
    ``pipeline.auto-generate-uids``, ``state.migration`` and ``engine.snapshot-modules`` are used. A
    bad value raises InvalidConfiguration.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        word = options.get("execution.stream-graph-hasher.version") or HasherVersion.V3.value
        try:
            self.hasher = HasherVersion(word.lower())
        except ValueError:
            raise InvalidConfiguration(
                f"execution.stream-graph-hasher.version is {word!r}", hint="it takes v2 or v3"
            ) from None
        self.uids_required = not parse_boolean(options.get("pipeline.auto-generate-uids", "true"))
        migration = options.get("state.migration", "eager")
        if migration not in ("eager", "lazy"):
            raise InvalidConfiguration(
                f"state.migration is {migration!r}", hint="it takes eager or lazy"
            )
        #: Whether values of typed state are rewritten only when the program updates them.
        self.migrates_lazily = migration == "lazy"
        self._modules = options.get("engine.snapshot-modules")
        self._planned: dict[str, PlannedQuery] = {}

    def snapshot_modules(self, planned: PlannedQuery | None) -> tuple[str, ...]:
        """Return the modules whose classes a snapshot of typed state may name.

        Call it while the program runs, because the program's own modules are among them. It looks
        modules up only if the query has typed state.
        """
        if planned is None or all(op.typed is None for op in planned.operators):
            return DEFAULT_MODULES
        return snapshot_modules(self._modules)

    def plan(
        self,
        name: str,
        writer: Any,
        facts: WriterFacts,
        *,
        require_uids: bool,
        settings: Mapping[str, str] | None = None,
    ) -> tuple[PlannedQuery, list[str]]:
        """Plan the query that ``writer`` is about to start under ``name``.

        Returns the plan and the notes for the user. Raises the errors of
        :func:`~flinkish.driver.plan.plan_extraction.extract_plan` and ``check_across_queries``.
        """
        format_ = facts.format or ("table" if facts.table else None)
        planned = extract_plan(
            writer._df,
            facts.output_mode or "append",
            facts.query_name,
            hasher=self.hasher,
            require_uids=require_uids,
            sink=f"{format_} sink" if format_ else "sink",
            location=caller(),
            settings=settings or {},
        )
        others = [(other, plan) for other, plan in self._planned.items() if other != name]
        notes = [*planned.notes, *check_across_queries(name, planned, others)]
        self._planned[name] = planned
        return planned, notes

    def plan_to_run(
        self, name: str, writer: Any, facts: WriterFacts, settings: Mapping[str, str]
    ) -> tuple[PlannedQuery | None, list[str]]:
        """Plan a query that is about to run, as :meth:`plan`; add a note on missing uids.

        Unless uids are required, a plan that flinkish cannot read is no reason to refuse a query
        that Spark can run. The plan returned is then None, the query's state is known by position
        only, and a note says so.

        Raises MissingUid, DuplicateUid, HashCollision or InvalidUid if the uids break the rules,
        AnalysisException if Spark does not support the query, and any error of an unreadable plan
        if uids are required.
        """
        from pyspark.errors import AnalysisException

        try:
            planned, notes = self.plan(
                name, writer, facts, require_uids=self.uids_required, settings=settings
            )
        except AnalysisException:
            raise
        except Incompatible as error:
            if type(error) is not Incompatible or self.uids_required:
                raise  # errors of the uid rules are subclasses
            return None, [_unread(name, error.message)]
        except FlinkishError:
            raise
        except Exception as error:
            # An unknown Spark or an unusual plan can raise any error, Java's errors included.
            if self.uids_required:
                raise
            return None, [_unread(name, f"{type(error).__name__}: {error}")]
        coverage = planned.coverage()
        if not coverage.complete:
            notes.append(f"query '{name}': {coverage.message()}")
        return planned, notes


def _unread(name: str, why: str) -> str:
    log(f"the operators of query '{name}' cannot be read: {why}")
    return (
        f"the operators of query '{name}' cannot be read (the log says why): its state will be "
        "known by position only"
    )


def caller() -> str | None:
    """Return the place in the program that starts the query, as ``file:line``."""
    import pyspark

    own = tuple(
        os.path.dirname(os.path.abspath(str(path))) + os.sep
        for path in (flinkish.__file__, pyspark.__file__)
    )
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(own):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def snapshot_modules(configured: str | None) -> tuple[str, ...]:
    """Return the modules whose classes are imported if a savepoint names them.

    ``configured`` is ``engine.snapshot-modules``, separated by commas. None means the program
    itself and the modules in its directory or sent with it, but not installed ones.
    """
    if configured is not None:
        names = [name.strip() for name in configured.split(",")]
        return (*DEFAULT_MODULES, *(name for name in names if name))
    entries = [entry for entry in sys.path if not _is_installed(entry)]
    importable = {module.name for module in pkgutil.iter_modules(entries)}
    return (*DEFAULT_MODULES, "__main__", *sorted(importable - set(DEFAULT_MODULES)))


def _is_installed(entry: str) -> bool:
    """Return whether an entry of the import path has Python itself or installed packages."""
    import pyspark

    path = os.path.abspath(entry or os.getcwd())
    # "data" is Python's prefix. A program may be below it: <venv>/app.
    homes = {
        *(place for name, place in sysconfig.get_paths().items() if name != "data"),
        *site.getsitepackages(),
        site.getusersitepackages(),
        os.path.dirname(os.path.dirname(pyspark.__file__)),
    }
    spark = os.environ.get("SPARK_HOME")
    if spark:  # its other directories may have programs: work-dir in Spark's own images
        homes |= {os.path.join(os.path.abspath(spark), name) for name in ("python", "jars")}
    return any(path == each or path.startswith(f"{each}{os.sep}") for each in homes)
