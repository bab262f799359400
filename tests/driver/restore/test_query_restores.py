"""When a name in an option of a restore is judged: as a table. The restore itself needs Spark
(tests/driver/test_restore.py)."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.driver.restore.query_restores import check_names
from flinkish.errors import UsageError
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.restore_options import RestoreOptions
from flinkish.restore.plan.non_restored_state import NonRestored
from tests.support.restore.query_builders import new, old, reads, saved_query, source, starting

STARTED = starting(
    new("x"), new("without uid", 1, named=False), name="first", sources=(reads("a"),)
)
#: What a query that the program starts behind a bounded one may take.
LATER = NonRestored(queries=(saved_query(old("y", query="b"), key="b", sources=(source("in"),)),))
UNNAMED = NonRestored(operators=(old("", named=False),))


@pytest.mark.parametrize(
    ("options", "left", "refused"),
    [
        ({"accept_partial": ("x",)}, None, False),
        ({"accept_partial": ("y",)}, None, True),
        ({"accept_partial": ("y",)}, LATER, False),
        ({"accept_partial": ("typo",)}, LATER, True),
        ({"accept_partial": ("any",)}, UNNAMED, False),
        ({"accept_partial": ("z",), "uid_map": (("y", "z"),)}, LATER, False),
        ({"uid_map": (("y", "z"),)}, LATER, False),
        ({"uid_map": (("b/y", "z"),)}, LATER, False),
        ({"uid_map": (("x", "z"),)}, LATER, True),  # its state has an owner
        ({"uid_map": (("y", "z"),)}, None, True),
        ({"reset_sources": ("a",)}, None, False),
        ({"reset_sources": ("in",)}, LATER, False),
        ({"reset_sources": ("renamed",)}, LATER, True),  # before any batch, with a hint
        ({"reset_sources": ("b/renamed",)}, LATER, False),
        ({"reset_sources": ("c/renamed",)}, LATER, True),
        ({"reset_sources": ("first/a",)}, LATER, False),
        ({"reset_sources": ("first/b",)}, LATER, True),
        ({"reset_sources": ("b/renamed",)}, None, True),
        ({"reset_sources": ("b/renamed",)}, UNNAMED, True),
        ({"set_offsets": (("b/kafka[subscribe=new]", "latest"),)}, LATER, False),
        ({"accept_partial": ("b/typo",)}, LATER, False),
        ({"accept_partial": ("c/y",)}, LATER, True),
        ({"accept_partial": ("first/x",)}, None, False),
        ({"accept_partial": ("first/without uid",)}, None, False),
        ({"accept_partial": ("first/y",)}, None, True),
        ({"reset_sources": ("renamed",)}, UNNAMED, True),  # no position is left for it
        ({"set_offsets": (("in", "latest"),)}, UNNAMED, True),
    ],
)
def test_a_name_waits_only_for_a_query_that_may_have_it(
    options: dict[str, Any], left: NonRestored | None, refused: bool
) -> None:
    spec = RestoreSpec("/sp", RestoreOptions(**options))
    if not refused:
        check_names(spec, [STARTED], left, ("first", "b"))
        return
    with pytest.raises(UsageError, match="the program has no"):
        check_names(spec, [STARTED], left, ("first", "b"))


def test_the_hint_says_how_a_later_query_is_named() -> None:
    spec = RestoreSpec("/sp", RestoreOptions(reset_sources=("renamed",)))
    with pytest.raises(UsageError) as refused:
        check_names(spec, [STARTED], LATER, ("first", "b"))
    assert "for a query that starts later: b/renamed" in refused.value.hint
