"""Which sessions of Spark Connect are refused, and what the refusal says."""

from __future__ import annotations

import pytest

from flinkish.driver.connect.server import connect_refusal, refused_server

URL = "sc://host:15002/;use_ssl=true;token=hush;user_id=me"


@pytest.mark.parametrize(
    ("options", "environ"), [({"spark.remote": URL}, {}), ({}, {"SPARK_REMOTE": URL})]
)
def test_a_refusal_names_the_server_but_not_the_token(
    options: dict[str, str], environ: dict[str, str]
) -> None:
    refusal = connect_refusal(options, environ)
    assert refusal is not None
    assert "sc://host:15002/" in refusal.message
    assert "hush" not in str(refusal.to_record())


def test_a_server_without_a_known_url_is_refused_too() -> None:
    assert "a server in another process: its queries run there" in refused_server().message
