"""``tests/tier_records.json``: how each test file of the slow tiers ended when it last ran.

One line a file, sorted, so that two branches that ran different files merge line by line; where
they ran the same file, either line is true.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.tiers.repository import RECORDS, ROOT

PATH = ROOT / RECORDS[0]
_VERSION = 2


@dataclass(frozen=True)
class Failure:
    """A test that failed in a recorded run, and what somebody found out about it."""

    test: str
    explanation: str = ""


@dataclass(frozen=True)
class FileRecord:
    """The last run of a test file in a part of a tier.

    Parameters
    ----------
    part
        ``deep``, ``matrix`` or ``spark35`` (:mod:`.parts`).
    commit, date
        What was tested; when it ended, UTC, ISO 8601.
    spark
        The installed Spark; tests of the matrix start others beside it.
    passed, failed, skipped
        None where only a run of the whole tier is known to have had this file in it.
    seconds
        Of testing; None where that is not known.
    imported
        Made from the record of a whole tier, not by a run of this file.
    """

    part: str
    file: str
    commit: str
    date: str
    spark: str
    passed: int | None
    failed: int | None
    skipped: int | None
    seconds: float | None
    failures: tuple[Failure, ...] = ()
    imported: bool = False

    @property
    def unexplained(self) -> list[str]:
        """The tests that failed and that nobody has explained."""
        return [each.test for each in self.failures if not each.explanation.strip()]


class Records:
    """The records by part and file."""

    def __init__(self, records: Iterable[FileRecord] = ()) -> None:
        self._records = {(record.part, record.file): record for record in records}

    def __iter__(self) -> Any:
        return iter(sorted(self._records.values(), key=lambda r: (r.part, r.file)))

    def of(self, part: str, file: str) -> FileRecord | None:
        """Return the last run of a file."""
        return self._records.get((part, file))

    def with_record(self, record: FileRecord) -> Records:
        """Return the records after another run of a file."""
        return Records([*self, record])

    def explained(self, test: str, explanation: str) -> Records:
        """Return the records with a reason behind a failure.

        Raises
        ------
        KeyError
            No record has a failure of this test.
        """
        if not any(failure.test == test for record in self for failure in record.failures):
            raise KeyError(test)
        return Records(
            replace(
                record,
                failures=tuple(
                    replace(failure, explanation=explanation) if failure.test == test else failure
                    for failure in record.failures
                ),
            )
            for record in self
        )

    def only(self, existing: Collection[tuple[str, str]]) -> Records:
        """Return the records of the parts and files that there still are."""
        return Records(each for each in self if (each.part, each.file) in existing)


def load(path: Path = PATH) -> Records:
    """Read the records; none where there is no file."""
    try:
        *lines, version = json.loads(path.read_text())
    except FileNotFoundError:
        return Records()
    if version != {"schema_version": _VERSION}:
        raise ValueError(f"{path}: {version}, not schema_version {_VERSION}")
    return Records(
        FileRecord(**{**line, "failures": tuple(Failure(**f) for f in line["failures"])})
        for line in lines
    )


def save(records: Records, path: Path = PATH) -> None:
    """Write the records; whoever reads at the same time sees the old ones or these."""
    lines = [json.dumps(asdict(record)) for record in records]
    # What never changes comes last, so that every record's line ends in a comma.
    text = ",\n".join([*lines, json.dumps({"schema_version": _VERSION})])
    new = path.with_suffix(".new")
    new.write_text(f"[\n{text}\n]\n")
    os.replace(new, path)
