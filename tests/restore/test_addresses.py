"""``--uid-map`` with operators whose ids another query's have too."""

from __future__ import annotations

import pytest

from flinkish.errors import UsageError
from flinkish.operators.hasher import HasherVersion
from flinkish.restore.origin.restore_inputs import SavedQueryFacts
from flinkish.restore.plan.operator_matching import check_uid_map, match_operators
from tests.support.restore.query_builders import id_of, new, old, saved_query, starting

ONE = saved_query(old("place", 0, named=False, query="agg"), key="agg")
TWO = saved_query(old("place", 0, named=False, query="dd"), key="dd")


def taken(uid_map: dict[str, str], own: SavedQueryFacts | None = None) -> str | None:
    matches = match_operators(
        starting(new("x")),
        [ONE, TWO],
        own,
        hasher=HasherVersion.V3,
        uid_map=uid_map,
    )
    found = matches.taken[0]
    return None if found is None else str(found.query)


@pytest.mark.parametrize("name", ["0", id_of("place")])
def test_the_query_in_front_names_one(name: str) -> None:
    assert taken({"x": f"agg/{name}"}) == "agg"
    assert taken({"x": f"dd/{name}"}) == "dd"
    check_uid_map({"x": f"dd/{name}"}, [ONE, TWO])
    with pytest.raises(UsageError, match="no operator 'dd/1'"):
        check_uid_map({"x": "dd/1"}, [ONE, TWO])


def test_without_it_nothing_says_which() -> None:
    with pytest.raises(UsageError, match=r"several operators .* agg, dd") as caught:
        taken({"x": id_of("place")})
    assert "agg/0=NEW" in caught.value.hint
    assert taken({"x": id_of("place")}, own=TWO) == "dd"  # the query's own come first
