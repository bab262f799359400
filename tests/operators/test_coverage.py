from __future__ import annotations

import pytest

from flinkish.errors import MissingUid
from flinkish.operators.coverage import coverage, require_uids
from flinkish.operators.graph import OperatorNode

SOURCE = OperatorNode(1, "flights", "file source", location="app.py:3")
FILTER = OperatorNode(2, "filter", "filter", uid="late-only")
DEDUP = OperatorNode(3, "dedup", "deduplicate", uid="dedup-flights", stateful=True)
COUNT = OperatorNode(4, "count", "aggregate", stateful=True, location="app.py:12")
HASHED = OperatorNode(5, "join", "join", uid_hash="0" * 32, stateful=True)
ALL = [SOURCE, FILTER, DEDUP, COUNT, HASHED]


def test_the_line() -> None:
    found = coverage(ALL)
    assert (found.stateful, found.with_uid, found.missing) == (3, 2, (COUNT,))
    assert found.message() == (
        '2 of 3 stateful operators have a uid; missing: "count" (stateful aggregate, app.py:12)'
    )


def test_nothing_missing() -> None:
    assert coverage([DEDUP]).message() == "1 of 1 stateful operator has a uid"
    assert coverage([SOURCE]).message() == "no stateful operators"


def test_without_generated_uids_every_operator_is_listed_stateful_first() -> None:
    with pytest.raises(MissingUid) as caught:
        require_uids(ALL)
    assert caught.value.message == (
        "Auto generated UIDs have been disabled but no UID or hash has been assigned to operators "
        '"count" (stateful aggregate, app.py:12), "flights" (file source, app.py:3)'
    )
    require_uids([FILTER, DEDUP, HASHED])
