"""Take a run that was made elsewhere into the records: its log, and the commit it tested."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path

from tests.support.tiers import records
from tests.support.tiers.parts import PARTS, Part, outcomes
from tests.support.tiers.repository import Repository


def import_log(
    repository: Repository, log: Path, commit: str, tier: str, path: Path = records.PATH
) -> int:
    """Record the files of which every test of the tier has an outcome in a log.

    Only the part with the tier's own marker: a log does not say which Python ran it.
    """
    part = next(part for part in PARTS if part.name == tier)
    full = repository.git("rev-parse", f"{commit}^{{commit}}")
    if full is None:
        print(f"there is no commit {commit} here")
        return 2
    found = outcomes(log.read_text())
    ended = datetime.fromtimestamp(log.stat().st_mtime, timezone.utc)
    kept = records.load(path)
    for file, tests in sorted(collected(repository, full, part).items()):
        missing = [test for test in tests if test not in found]
        if missing:
            print(f"{file}: {len(missing)} of {len(tests)} tests have no outcome, not taken")
            continue
        of = [found[test][0] for test in tests]
        kept = kept.with_record(
            records.FileRecord(
                part=part.name,
                file=file,
                commit=full,
                date=ended.isoformat(timespec="seconds"),
                spark=part.spark(),
                passed=of.count("passed"),
                failed=of.count("failed"),
                skipped=of.count("skipped"),
                seconds=round(sum(found[test][1] for test in tests), 1),
                failures=tuple(
                    records.Failure(test) for test in tests if found[test][0] == "failed"
                ),
            )
        )
        print(f"{file}: {len(tests)} tests taken")
    records.save(kept, path)
    return 0


def collected(repository: Repository, commit: str, part: Part) -> dict[str, list[str]]:
    """Return the tests of a part by file, as pytest collects them at a commit."""
    archive = subprocess.run(
        ["git", "archive", commit], cwd=repository.root, capture_output=True, check=True
    ).stdout
    with tempfile.TemporaryDirectory() as directory:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(directory, filter="data")
        environment = {**os.environ, **part.environment}
        beside = environment.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [directory, beside]))
        words = [part.python, "-m", "pytest", *part.words, "--collect-only", "-q", "--no-header"]
        listed = subprocess.run(
            words,
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        ).stdout
    found = defaultdict(list)
    for line in listed.splitlines():
        if "::" in line:
            found[line.split("::", 1)[0]].append(line)
    return dict(found)
