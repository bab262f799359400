"""``make compat-matrix``: measure which Spark can go on with the savepoint of which.

For every line of Spark from 3.5 to 4.3 (an environment each, see :mod:`tests.support.venvs`):

1. a small query of every operator kind, on every backend, with the default formats and with the
   others, runs over the first half of a small input (:mod:`~tools.compatmatrix.cases`,
   :mod:`~tools.compatmatrix.queries`);
2. flinkish takes a savepoint of its checkpoint, and makes a new checkpoint of that for every
   version, its own one too (:mod:`~tools.compatmatrix.measure`);
3. plain Spark of that version runs the same query on it over the second half. The rows must be
   those of plain Python (:mod:`~tools.compatmatrix.data`): a wrong row is a failure like an error;
4. the errors are told apart by a table (:mod:`~tools.compatmatrix.errors`), and the cells are
   written to ``flinkish/compat/data/spark.json`` (:mod:`~tools.compatmatrix.cells`).

It takes about half an hour and can be interrupted: what is measured is kept in the work directory.
Beside the newest release of each line older ones are measured (``venvs.PATCHES``): they are
resumed on all versions and go on with the savepoints of all, and have cells of their own only where
the verdict is not that of their line. A release between two measured ones has the worse answer.

``make compat-matrix ARGS="..."`` with

=====================  =============================================================================
``--again``            measure again what has a result already
``--only TEXT``        only cases with TEXT in their names (``join_left-rocksdb``), repeatable
``--versions V,V``     only these exact versions of Spark
``--merge``            measure nothing, only write the table from the results there are
``--show``             print what fails and why, too
``--work DIR``         the work directory
``--output FILE``      the table to write
=====================  =============================================================================

The table is written only from all versions and cases, unless ``--output`` names another file.

``--connectors [NAME,NAME]`` measures connectors instead: which release works on which Spark, and
which go on with whose checkpoints (:mod:`~tools.compatmatrix.connectors.artifacts`,
:mod:`~tools.compatmatrix.connectors.measure`), into ``flinkish/compat/data/connectors.json``. It
takes jars by Maven, starts a Kafka broker, and about an hour; ``--again``, ``--versions``,
``--merge``, ``--work`` and ``--output`` go with it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support import venvs
from tests.support.servers.jars import Unavailable
from tools.compatmatrix.cases import Case
from tools.compatmatrix.cells import collect, failures_text, write_table
from tools.compatmatrix.connectors import table as connector_table
from tools.compatmatrix.connectors.artifacts import ARTIFACTS
from tools.compatmatrix.connectors.measure import ConnectorMeasurement
from tools.compatmatrix.measure import CHECKOUT, BadMeasurement, Measurement

CONNECTORS = tuple(dict.fromkeys(one.connector for one in ARTIFACTS))
CONNECTOR_TABLE = CHECKOUT / "flinkish" / "compat" / "data" / "connectors.json"
TABLE = CHECKOUT / "flinkish" / "compat" / "data" / "spark.json"


def main(arguments: list[str]) -> int:
    """Measure and write; returns the exit code."""
    options = _parser().parse_args(arguments)
    measurable = {**venvs.ENVIRONMENTS, **venvs.PATCHES}
    usual = venvs.ENVIRONMENTS if options.connectors is not None else measurable
    versions = options.versions.split(",") if options.versions else sorted(usual)
    unknown = [version for version in versions if version not in measurable]
    if unknown:
        print(f"no environment for Spark {unknown[0]}", file=sys.stderr)
        return 2
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - started:6.0f} s] {text}", flush=True)

    if options.connectors is not None:
        return _connectors(options, versions, say)

    def chosen(case: Case) -> bool:
        return not options.only or any(text in case.id for text in options.only)

    work = Path(options.work or venvs.DIRECTORY / "compat-matrix")
    measurement = Measurement(work.absolute(), versions, chosen, say)
    try:
        if not options.merge:
            measurement.run(again=options.again)
        found = collect(measurement)
    except (BadMeasurement, venvs.Unavailable) as error:
        print(f"compat-matrix: {error}", file=sys.stderr)
        return 1
    if options.show:
        print(failures_text(found))
    partial = bool(options.only or options.versions)
    if partial and options.output is None:
        say(f"a part only: {TABLE.relative_to(CHECKOUT)} is left as it is")
        return 0
    output = Path(options.output) if options.output else TABLE
    write_table(output, found, versions)
    say(f"{len(found.cells)} cells written to {output}")
    return 0


def _connectors(
    options: argparse.Namespace, versions: Sequence[str], say: Callable[[str], None]
) -> int:
    names = options.connectors.split(",")
    unknown = [name for name in names if name not in CONNECTORS]
    if unknown:
        print(f"no connector {unknown[0]}: {', '.join(CONNECTORS)}", file=sys.stderr)
        return 2
    cells = []
    try:
        for name in names:
            work = Path(options.work or venvs.DIRECTORY / "compat-connectors").absolute() / name
            measurement = ConnectorMeasurement(name, versions, work, say)
            if not options.merge:
                measurement.run(again=options.again)
            cells += connector_table.cells(measurement)
    except (BadMeasurement, venvs.Unavailable, Unavailable) as error:
        print(f"compat-matrix: {error}", file=sys.stderr)
        return 1
    if options.output is None and (len(names) < len(CONNECTORS) or options.versions):
        say(f"a part only: {CONNECTOR_TABLE.relative_to(CHECKOUT)} is left as it is")
        return 0
    output = Path(options.output or CONNECTOR_TABLE)
    connector_table.write_table(output, cells)
    say(f"{len(cells)} cells written to {output}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make compat-matrix", description="see the module")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--only", action="append")
    parser.add_argument("--versions")
    parser.add_argument("--connectors", nargs="?", const=",".join(CONNECTORS))
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--work")
    parser.add_argument("--output")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
