"""What the slow tiers consist of."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.tiers.repository import ROOT

_SPARK35 = ROOT / ".venv-spark35"
_DRIVER = "tests/driver/"
#: Whose jobs have Hadoop's own local files, as operators' jobs do: they run, save, end and restart
#: in each way, and follow the documentation.
HADOOPS_OWN = tuple(
    f"tests/e2e/test_{name}.py" for name in ("lifecycle", "restarts", "killed", "export", "guides")
)


@dataclass(frozen=True)
class Part:
    """Test files that one Python runs.

    Parameters
    ----------
    mark
        The marker of the part's tests; without one it is all tests in ``tests/driver``.
    words
        What pytest is told beside the file.
    environment
        What its environment has more.
    """

    name: str
    tier: str
    python: str
    mark: str | None
    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)

    def has(self, file: str) -> bool:
        """Return whether a test file without the marker is in this part."""
        name = file.rpartition("/")[2]
        return self.mark is None and file.startswith(_DRIVER) and name.startswith("test_")

    def local_files(self, file: str) -> Mapping[str, str]:
        """Return the variable that leaves a file's jobs Hadoop's own local files.

        All others take those of ``support/jvm.py``, which start no process for each file and take a
        quarter less of a processor.
        """
        own = self.name == "deep" and file in HADOOPS_OWN
        return {"SPARK_DIST_CLASSPATH": ""} if own else {}

    def spark(self) -> str:
        """Return the version of the Spark that this Python has."""
        find = "import importlib.metadata as m; print(m.version('pyspark'))"
        done = subprocess.run([self.python, "-c", find], capture_output=True, text=True, check=True)
        return done.stdout.strip()


_PYTHON35 = str(_SPARK35 / "bin" / "python")
PARTS = (
    Part("deep", "deep", sys.executable, "deep", ("-m", "deep and not matrix")),
    Part(
        "matrix",
        "matrix",
        sys.executable,
        "matrix",
        ("-m", "matrix"),
        {"FLINKISH_SPARK35_PYTHON": _PYTHON35},
    ),
    # The driver's tests on the oldest Spark, in an environment without the command line's packages.
    Part(
        "spark35",
        "matrix",
        _PYTHON35,
        None,
        ("-p", "no:cacheprovider"),
        {"PYTHONPATH": str(_SPARK35 / "for-tests")},
    ),
)
TIERS = ("deep", "matrix")


def outcomes(log: str) -> dict[str, tuple[str, float]]:
    """Return each test's last outcome and seconds by a log of ``--tier-log``.

    The last line may be cut off by whatever ended the run.
    """
    found = {}
    for line in log.splitlines(keepends=True):
        if line.endswith("\n"):
            test, outcome, seconds = json.loads(line)
            found[test] = (outcome, seconds)
    return found
