"""Names of places, also for texts of others that are none."""

from __future__ import annotations

import pytest

from flinkish import storage
from flinkish.savepoint.directory.places import place_keys


@pytest.mark.parametrize("text", ["", " ", "file:x", "s3:x", "file://host/x", "s3://", "a\0b"])
def test_text_that_is_no_location_has_one_name(text: str) -> None:
    """What a savepoint says that it was restored from may be anything."""
    assert place_keys(text) == {text}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("hdfs://nn/s", "hdfs://nn:8020/s", True),
        ("hdfs://NN:8020/s/", "hdfs://someone@nn/s", True),
        ("hdfs://nn/S", "hdfs://nn/s", False),
        ("hdfs://nn/s", "hdfs://nn:9000/s", False),
        ("hdfs://nn/s", "hdfs://nn2:8020/s", False),
        # The default port depends on Hadoop's version.
        ("webhdfs://NN:9870/s", "webhdfs://nn:9870/s", True),
        ("webhdfs://nn:9870/s", "webhdfs://nn:50070/s", False),
        ("abfs://c@Account.net/s", "abfss://c@account.net/s", True),
        ("abfs://c/s", "az://c/s", True),
        ("abfss://c@a.net/s", "abfss://d@a.net/s", False),
        ("s3a://b/s", "s3://b/s", True),
        ("s3://B/s", "s3://b/s", False),
        ("sftp://one@host/s", "sftp://two@host/s", False),
    ],
)
def test_spellings_of_a_remote_place(one: str, other: str, same: bool) -> None:
    assert (not place_keys(one).isdisjoint(place_keys(other))) is same
    assert storage.same_place(one, other) is same
