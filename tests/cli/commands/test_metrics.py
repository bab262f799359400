"""``metrics``: on stdout, as JSON, into a file that is complete whenever somebody looks."""

from __future__ import annotations

import re
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flinkish.client.metrics import Metric
from flinkish.client.metrics_export import served
from flinkish.errors import FlinkishError, RegistryError
from tests.cli.conftest import PATIENCE, Command, line_with


def families(text: str) -> set[str]:
    return {family.name for family in text_string_to_metric_families(text)}


def test_the_same_on_stdout_in_a_file_and_as_json(cli: Command) -> None:
    job = cli.start()
    text = cli.ok("metrics").out
    assert f'flinkish_query_last_batch_id{{job_id="{job}"' in text
    names = {metric["name"] for metric in cli.ok("metrics", "--json").json()["metrics"]}
    assert {name.removesuffix("_total") for name in names} == families(text)
    file = cli.directory / "flinkish.prom"
    file.write_text("of before")
    done = cli.ok("metrics", "--output", str(file))
    assert (done.out, done.err) == ("", "")
    assert families(file.read_text()) == families(text)
    assert not [path for path in cli.directory.iterdir() if path.name.endswith(".tmp")]
    assert cli.ok("metrics", "--json", "-o", str(file)).json()["metrics"]


def test_without_a_registry_there_are_no_jobs(cli: Command) -> None:
    text = cli.ok("metrics").out
    assert 'flinkish_jobs{state="RUNNING"} 0.0\n' in text
    assert not (cli.directory / "state").exists()


def test_an_output_that_cannot_be_written(cli: Command) -> None:
    assert cli("metrics", "-o", str(cli.directory)).code == 2
    assert cli("metrics", "-o", "s3://bucket/x.prom").code == 2
    assert cli("metrics", "-o", str(cli.directory / "no" / "x.prom")).code == 16


def test_served_as_they_are_at_each_request(cli: Command) -> None:
    server = cli.process("metrics", "--listen", "0")
    found = re.search(r"http://127.0.0.1:\d+/metrics", line_with(server.stderr, "Serving metrics"))
    assert found is not None
    job = None
    for _ in range(2):
        with urllib.request.urlopen(found[0], timeout=PATIENCE) as answer:
            text = answer.read().decode()
        assert families(text) == families(cli.ok("metrics").out)
        assert (f'job_id="{job}"' in text) is (job is not None)
        if job is None:
            assert line_with(server.stderr, "").startswith("warning: there is no registry at")
        job = job or cli.start()
    taken = cli("metrics", "--listen", found[0].split(":")[2].partition("/")[0])
    assert taken.code == 1
    assert "Address already in use" in taken.err
    server.send_signal(signal.SIGINT)
    assert server.wait(PATIENCE) == 130


def test_a_registry_that_cannot_be_read_is_a_status(capfd: pytest.CaptureFixture[str]) -> None:
    def read() -> list[Metric]:
        raise RegistryError("it is damaged")

    with (
        served(read, "127.0.0.1", 0) as port,
        pytest.raises(urllib.error.HTTPError, match="500"),
    ):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE)
    assert "it is damaged" in capfd.readouterr().err


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_host_that_no_name_can_be(host: str) -> None:
    with pytest.raises(FlinkishError, match=f"cannot listen on {host}:1: "), served(list, host, 1):
        pass


@pytest.mark.parametrize("words", [["x"], ["1:x"], ["70000"], ["0", "-o", "f"], ["0", "--json"]])
def test_words_of_listen(cli: Command, words: list[str]) -> None:
    assert cli("metrics", "--listen", *words).code == 2


def test_a_dash_is_stdout(cli: Command, tmp_path: Path) -> None:
    assert families(cli.ok("metrics", "-o", "-").out)
    assert not (tmp_path / "-").exists()
