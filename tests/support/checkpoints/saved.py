"""A savepoint of recorded checkpoints, for tests of what reads savepoints. No Spark is needed."""

from __future__ import annotations

import shutil
from pathlib import Path

from flinkish.operators.identity import OperatorFacts, OperatorIdentity
from flinkish.operators.state_semantics import StateSemantics
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.support.checkpoints.recorded import unpack

#: The id that the third hasher has given the first query's operator.
V3 = "12" * 16


def save(tmp_path: Path, *names: str, meaning: StateSemantics | None = None) -> str:
    """A savepoint of recorded queries; each one's operator has its name as the uid."""
    sources = []
    for name in names:
        checkpoint = unpack(f"spark43-{name}", tmp_path / "recorded")
        operator = OperatorFacts(
            0,
            identity=OperatorIdentity(name, operator_id_v3=V3 if name == names[0] else None),
            meaning=meaning,
        )
        sources.append(QuerySource(f"query {name}", str(checkpoint), operators=(operator,)))
    info = write_savepoint(
        str(tmp_path / "savepoints"),
        SavepointJob("0123456789abcdef" * 2, "flights", spark_version="4.3.0"),
        sources,
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    )
    shutil.rmtree(tmp_path / "recorded")
    return info.path
