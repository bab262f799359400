"""``metrics``: on stdout, as JSON, into a file that is complete whenever somebody looks."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.cli.conftest import Command


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
