"""The pytest plugin: the example of its page with real jobs, and what it costs elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli.command import LIGHT, PATIENCE
from tests.support.guides.blocks import ROOT, blocks

PAGE = "docs/testing-programs.md"
PLUGIN = "flinkish.testing.plugin"
#: How version 2 differs, and what of the example notices when it differs more.
V2 = ('.transform(uid("rides"))\n', '.transform(uid("rides")).where("rides > 1")\n')
BROKEN = {
    "another key": ('groupBy("k")', 'groupBy(F.upper("k").alias("k"))'),
    "no uid": (V2[1], '.transform(uid("others")).where("rides > 1")\n'),
    "another aggregate": ('F.count("*").alias("rides")', 'F.sum(F.lit(2)).alias("rides")'),
}


def example(directory: Path, *changes: tuple[str, str]) -> None:
    """Write the files of the page, and version 2 with changes."""
    for block in blocks(PAGE, "python"):
        name = block.text.partition("\n")[0].removeprefix("# ")
        (directory / name).write_text(block.text)
    conf = dict(word.removeprefix("--conf=").split("=", 1) for word in LIGHT)
    conftest = (directory / "conftest.py").read_text()
    ours, count = re.subn(r"return \{.*\}", f"return {conf}", conftest)
    assert count == 1
    (directory / "conftest.py").write_text(ours)
    text = (directory / "rides.py").read_text()
    for old, new in (V2, *changes):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (directory / "rides_v2.py").write_text(text)


def run(directory: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as its user does; without the entry points of what is installed here."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("FLINKISH_", "PYTEST_"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", PLUGIN, *words],
        env={
            **clean,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), clean.get("PYTHONPATH")])),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "XDG_CONFIG_HOME": str(directory),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "200",
            **environ,
        },
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )


def outcomes(shown: str, word: str) -> set[str]:
    return set(re.findall(rf"^{word} .*::test_(\w+)", shown, re.MULTILINE))


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_the_example_passes_from_any_directory(tmp_path: Path) -> None:
    example(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # so that this is pytest's root
    (tmp_path / "sub").mkdir()
    done = run(tmp_path / "sub", "-rA", "..")
    assert done.returncode == 0, done.stdout + done.stderr
    passed = {"version_2_goes_on_from_version_1", "version_2_counts_on", "counts_beyond_32_bits"}
    assert outcomes(done.stdout, "PASSED") == passed


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("how", BROKEN)
def test_the_example_fails_where_the_restore_is_wrong(tmp_path: Path, how: str) -> None:
    example(tmp_path, BROKEN[how])
    done = run(tmp_path, "-rA", "-k", "goes_on", "test_rides.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert outcomes(done.stdout, "FAILED") == {"version_2_goes_on_from_version_1"}
    assert "rides_v2.py cannot go on from " in done.stdout
    assert re.search("verdict: (incompatible|consent-needed)", done.stdout)
    assert "flinkish/testing" not in done.stdout  # the failure is shown where the test has it


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_the_example_fails_where_the_state_was_dropped(tmp_path: Path) -> None:
    """The author has agreed to what the plan asks, and the rows show what comes of it."""
    example(tmp_path, BROKEN["no uid"])
    tests = (tmp_path / "test_rides.py").read_text()
    agreed = tests.replace("savepoint=savepoint)", "savepoint=savepoint, restore=AGREED)")
    agreed = agreed.replace('job.rows("rides")', 'job.rows("others")')
    agreed = agreed.replace(
        "import pytest\n",
        "import pytest\nfrom flinkish import RestoreOptions\n"
        "AGREED = RestoreOptions(allow_non_restored=True)\n",
        1,
    )
    (tmp_path / "test_rides.py").write_text(agreed)
    done = run(tmp_path, "-rA", "-k", "counts_on", "test_rides.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert outcomes(done.stdout, "FAILED") == {"version_2_counts_on"}
    assert re.search(r"diff: .*'count': 1.* != .*'count': 3", done.stdout)


def test_nothing_is_imported_before_a_test_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n"
        "def test_other():\n"
        "    ours = {n for n in sys.modules if n.split('.')[0] == 'flinkish'}\n"
        f"    assert ours == {{'flinkish', 'flinkish.testing', '{PLUGIN}'}}\n"
        "    assert not {'pyspark', 'click', 'fsspec', 'sqlite3'} & set(sys.modules)\n"
    )
    done = run(tmp_path, "-q", "test_other.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_names_the_plugin() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert f'[project.entry-points.pytest11]\nflinkish = "{PLUGIN}"\n' in text
