"""Which table a source reads, and how its saved position is asked for."""

from __future__ import annotations

import pytest

from flinkish.driver.connectors.source_tables import ask_table, table_of
from flinkish.errors import TableError
from tests.support.restore.query_builders import reads, source


@pytest.mark.parametrize(
    ("signature", "table"),
    [
        ("table[ice.db.t]", "ice.db.t"),
        ("iceberg[ice.db.t, ice.db.t]", "ice.db.t"),
        ("iceberg[s3a://bucket/t]", "s3a://bucket/t"),
        ("iceberg[]", None),
        ("iceberg", None),
        ("kafka[subscribe=a]", None),
    ],
)
def test_the_table_of_a_source(signature: str, table: str | None) -> None:
    assert table_of(signature) == table


def test_a_position_of_another_kind_asks_nobody() -> None:
    place = "file[/in]"
    assert ask_table(None, reads(place), source(place, offset='{"logOffset":3}')) is None


def test_a_table_without_a_name_is_said() -> None:
    offset = '{"version":1,"snapshot_id":7,"position":1,"scan_all_files":false}'
    with pytest.raises(TableError, match="the name of its table is not known"):
        ask_table(None, reads("iceberg[]"), source("iceberg[]", offset=offset))
