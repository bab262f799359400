"""Names of places, also for texts of others that are none."""

from __future__ import annotations

import pytest

from flinkish.savepoint.directory.places import place_keys


@pytest.mark.parametrize("text", ["", " ", "file:x", "s3:x", "file://host/x", "s3://", "a\0b"])
def test_text_that_is_no_location_has_one_name(text: str) -> None:
    """What a savepoint says that it was restored from may be anything."""
    assert place_keys(text) == {text}
