"""A driver starts in a Python with Spark and without what the state-migration engine needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flinkish.driver.migration.checkpoint_migration import NEEDED

#: What a driver imports before it knows that state is to be rewritten.
MODULES = (
    "bootstrap",
    "tasks.describe",
    "restore.restorer",
    "runtime.job_runtime",
    "requests.actions",
    "requests.agent",
    "migration.checkpoint_migration",
)
PROGRAM = """
import importlib, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
for module in {modules}:
    importlib.import_module(f"flinkish.driver.{{module}}")
print("ready")
"""


@pytest.mark.parametrize("modules", [MODULES, MODULES[::-1]], ids=["in order", "from behind"])
def test_the_driver_needs_no_engine(modules: tuple[str, ...]) -> None:
    # What it finds in the command's own installation it may import, and PySpark may import NumPy.
    missing = set(NEEDED) - {"fastavro", "numpy"}
    program = PROGRAM.format(missing=sorted(missing), modules=modules)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "ready\n", done.stderr
