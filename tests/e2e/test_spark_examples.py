"""PySpark's own shipped examples, unchanged, under flinkish. Their socket source cannot be
replayed, so they are run, savepointed, stopped and cancelled."""

from __future__ import annotations

import importlib.util
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli.command import LIGHT, Flinkish

pytestmark = [pytest.mark.spark, pytest.mark.deep]


def example(name: str) -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    root = Path(spec.submodule_search_locations[0])
    return root / "examples/src/main/python/sql/streaming" / name


@pytest.fixture
def words() -> Iterator[int]:
    """A server that sends a line of words every 0.2 s to whoever connects; yields its port."""
    server = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def feed(client: socket.socket) -> None:
        with client:
            while not done.wait(0.2):
                try:
                    client.sendall(b"apache spark and apache flink\n")
                except OSError:
                    return

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=feed, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield server.getsockname()[1]
    done.set()
    server.close()


def runnable_sessionization(path: Path, directory: Path) -> Path:
    """Spark refuses this example of its own as it ships it (see the test below): the output mode
    is the one word changed in the copy."""
    text = path.read_text()
    assert text.count(".outputMode('update')") == 1
    copy = directory / path.name
    copy.write_text(text.replace(".outputMode('update')", ".outputMode('complete')"))
    return copy


def test_an_example_spark_itself_refuses_fails_with_sparks_reason(
    flinkish: Flinkish, words: int
) -> None:
    """``structured_sessionization.py`` asks for update mode over session windows: plain
    spark-submit ends with this very AnalysisException, on 3.5.9 and 4.3.0."""
    path = example("structured_sessionization.py")
    if "outputMode('update')" not in path.read_text():
        pytest.skip("this pyspark ships another version of the example")
    result = flinkish("run", "-d", "-m", "local[2]", *LIGHT, str(path), "127.0.0.1", str(words))
    assert result.code == 1
    assert "AnalysisException" in result.err
    assert "session window" in result.err


@pytest.mark.parametrize(
    ("name", "extra", "end"),
    [
        ("structured_network_wordcount.py", (), "stop"),
        ("structured_network_wordcount_windowed.py", ("10", "5"), "cancel -s"),
        ("structured_network_wordcount_session_window.py", (), "cancel"),
        ("structured_sessionization.py", (), "stop"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_shipped_example(
    flinkish: Flinkish,
    tmp_path: Path,
    words: int,
    name: str,
    extra: tuple[str, ...],
    end: str,
) -> None:
    path = example(name)
    if not path.is_file():
        pytest.skip(f"this pyspark ships no {name}")
    if name == "structured_sessionization.py":
        path = runnable_sessionization(path, tmp_path)
    job = flinkish.run(path, "127.0.0.1", str(words), *extra)
    record = flinkish.wait_for_batch(job, 0)
    assert record["name"] == path.stem
    assert record["queries"][0]["name"] == "query-1"
    assert record["queries"][0]["operators"], "all of them keep state"
    savepoint = flinkish.ok("savepoint", job, str(tmp_path / "sp"), "--json").json()["savepoint"]
    assert savepoint["files"] > 0
    if end == "stop":
        flinkish.ok("stop", "-p", str(tmp_path / "sp"), job)
        assert flinkish.job(job)["state"] == "FINISHED"
    elif end == "cancel -s":
        flinkish.ok("cancel", "-s", str(tmp_path / "sp"), job)
        assert flinkish.job(job)["state"] == "CANCELED"
    else:
        flinkish.ok("cancel", job)
        assert flinkish.job(job)["state"] == "CANCELED"
