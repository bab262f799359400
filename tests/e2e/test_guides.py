"""The commands of README.md and docs/ are typed as they stand there, by real jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.guides.desk import Desk, desk
from tests.support.guides.scenarios import RUNS, SCENARIOS, run_page, typed
from tests.support.servers.jars import Unavailable, spark_s3_jars
from tests.support.servers.s3 import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(1800)]

STORAGE = "docs/storage.md"


@pytest.mark.parametrize("page", sorted(SCENARIOS.keys() - {STORAGE}))
def test_the_commands_succeed(tmp_path: Path, page: str) -> None:
    with desk(tmp_path / "desk") as here:
        SCENARIOS[page](here, typed(page))


@pytest.mark.servers
def test_the_commands_on_s3_succeed(tmp_path: Path, moto_s3: S3Server) -> None:
    try:
        jars = ",".join(map(str, spark_s3_jars()))
    except Unavailable as why:
        pytest.skip(f"needs {why}")
    moto_s3.create_bucket("team")
    with desk(tmp_path / "desk", {"--packages ...": f"--classpath {jars}"}) as here:
        use_profile(here, moto_s3)
        SCENARIOS[STORAGE](here, typed(STORAGE))


def use_profile(here: Desk, server: S3Server) -> None:
    """Put the keys into a profile ``streams``, and only there."""
    keys = here.directory / "credentials"
    keys.write_text(
        f"[streams]\naws_access_key_id = {server.access_key}\n"
        f"aws_secret_access_key = {server.secret_key}\n"
    )
    environ = server.environment()
    del environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"]
    here.flinkish.environ.update(environ, AWS_SHARED_CREDENTIALS_FILE=str(keys))
    here.settings(server.spark_settings())


@pytest.mark.parametrize("page", RUNS)
def test_a_page_shows_what_a_run_shows(tmp_path: Path, page: str) -> None:
    outcome = run_page(page, tmp_path)
    assert outcome.differences == [], "run: make docs-run"
