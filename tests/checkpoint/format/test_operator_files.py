"""Operator metadata: parsed, written, moved to another checkpoint."""

from __future__ import annotations

import json

import pytest

from flinkish.checkpoint.format.errors import (
    CannotWrite,
    CheckpointFormatError,
    UnsupportedCheckpointFormat,
)
from flinkish.checkpoint.format.operator_files import (
    OperatorMetadata,
    OperatorStore,
    moved_location,
    parse_operator_metadata,
    with_operator,
    write_operator_metadata,
)


def test_operator_metadata_v1_and_v2() -> None:
    v1 = parse_operator_metadata(
        b'v1\n{"operatorInfo":{"operatorId":1,"operatorName":"dedupe"},"stateStoreInfo":'
        b'[{"storeName":"default","numColsPrefixKey":0,"numPartitions":4}]}',
        "metadata",
    )
    assert (v1.operator_id, v1.name, v1.store_names) == (1, "dedupe", ("default",))
    assert v1.stores == (OperatorStore("default", 0, 4),)
    assert v1.schema_file("default") is None
    v2 = parse_operator_metadata(
        b'v2\n{"operatorInfo":{"operatorId":0,"operatorName":"tws"},"stateStoreInfo":'
        b'[{"storeName":"default","numColsPrefixKey":1,"numPartitions":4,'
        b'"stateSchemaFilePaths":["file:/x/state/0/_stateSchema/d/0_u",'
        b'"file:/x/state/0/_stateSchema/d/7_v"]}],"operatorPropertiesJson":"{}"}',
        "metadata",
    )
    assert v2.schema_file("default") == "7_v"
    assert v2.schema_file("other") is None
    for bad in (b"v1\n{}", b"v1\n[]", b'v1\n{"operatorInfo":1,"stateStoreInfo":[]}', b"v9\n{}"):
        with pytest.raises(CheckpointFormatError, match=r"^metadata at byte \d"):
            parse_operator_metadata(bad, "metadata")
    with pytest.raises(UnsupportedCheckpointFormat, match="newer than v2"):
        parse_operator_metadata(b"v9\n{}", "metadata")


STORE = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}


def operator(ordinal: int, **store: object) -> bytes:
    info = {
        "operatorInfo": {"operatorId": ordinal, "operatorName": "dedupe"},
        "stateStoreInfo": [{**STORE, **store}],
        "operatorPropertiesJson": '{"é":"\\"{}"}',
    }
    return b"v1\n" + json.dumps(info, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("location", "moved"),
    [
        ("file:/old/state/0/_stateSchema/s/0_u", "file:/new/c/state/7/_stateSchema/s/0_u"),
        ("file:///old/state/0/_stateSchema/s/0_u", "file:///new/c/state/7/_stateSchema/s/0_u"),
        ("/old/state/0/_stateSchema/s/0_u", "/new/c/state/7/_stateSchema/s/0_u"),
        ("file:/state/x/state/11/_stateSchema/s/0", "file:/new/c/state/7/_stateSchema/s/0"),
        ("/a:b/state/1/_stateSchema/s/0", "/new/c/state/7/_stateSchema/s/0"),
    ],
)
def test_moved_location(location: str, moved: str) -> None:
    assert moved_location(location, "metadata", "/new/c", 7) == moved


def test_locations_of_an_unknown_form_are_refused() -> None:
    for location in ("file:/elsewhere", "file:/c/state/0"):
        with pytest.raises(ValueError, match="not in a state directory"):
            moved_location(location, "metadata", "/new", 0)


@pytest.mark.parametrize(
    "rest", ["../../../etc/passwd", "_stateSchema/../../../x", "./x", "a//b", "..", "", "a\0b"]
)
def test_a_location_that_leads_out_of_the_state_directory_is_refused(rest: str) -> None:
    """Spark's executors would open it as a schema file, whoever made the savepoint."""
    with pytest.raises(ValueError, match="not in a state directory"):
        moved_location(f"file:/old/state/0/{rest}", "metadata", "/new/c", 7)


def test_operator_metadata() -> None:
    def moved_to(data: bytes, ordinal: int) -> bytes | None:
        return with_operator(data, "metadata", root="/new", ordinal=ordinal)

    assert moved_to(operator(3), 3) is None
    assert moved_to(operator(3), 0) == operator(0)
    old = operator(1, stateSchemaFilePaths=["file:/old/state/1/_stateSchema/default/0_u"])
    for ordinal in (1, 2):  # an absolute location is never right in a new place
        moved = f"file:/new/state/{ordinal}/_stateSchema/default/0_u"
        assert moved_to(old, ordinal) == operator(ordinal, stateSchemaFilePaths=[moved])
    with pytest.raises(ValueError, match="not JSON"):
        moved_to(b"v2\n{", 0)


def test_operator_metadata_that_cannot_be_is_refused() -> None:
    first, second = OperatorStore("default", 0, 2), OperatorStore("default", 0, 2, ("file:/s",))
    for metadata in (
        OperatorMetadata(1, 0, "dedupe", (second,)),
        OperatorMetadata(1, 0, "dedupe", (first,), "{}"),
        OperatorMetadata(2, 0, "join", (first,), "{}"),
        OperatorMetadata(2, 0, "join", (second,)),
        OperatorMetadata(3, 0, "join", (second,), "{}"),
    ):
        with pytest.raises(CannotWrite, match="do not fit metadata of version"):
            write_operator_metadata(metadata)
    whole = write_operator_metadata(OperatorMetadata(2, 3, "join", (second,), "{}"))
    for size in range(len(whole)):
        with pytest.raises(CheckpointFormatError):
            parse_operator_metadata(whole[:size], "metadata")
    with pytest.raises(UnsupportedCheckpointFormat, match="version v3 is newer"):
        parse_operator_metadata(b"v3\n{}", "metadata")


@pytest.mark.parametrize(
    "locations", [[7], [["file:/c/state/0/s"]], [1.5], "file:/c", {"a": 1}, None]
)
def test_locations_are_texts(locations: object) -> None:
    store = {"storeName": "s", "numColsPrefixKey": 0, "numPartitions": 1}
    body = {
        "operatorInfo": {"operatorId": 0, "operatorName": "dedupe"},
        "stateStoreInfo": [{**store, "stateSchemaFilePaths": locations}],
        "operatorPropertiesJson": "{}",
    }
    data = b"v2\n" + json.dumps(body).encode()
    with pytest.raises(
        CheckpointFormatError, match="lacks a list of paths in stateSchemaFilePaths"
    ):
        with_operator(data, "metadata", root="/new", ordinal=1)


@pytest.mark.parametrize("name", ["", ".", "..", "../../1", "/evil", "a/b", "a\0b"])
def test_a_store_is_one_directory_of_a_partition(name: str) -> None:
    store = {"storeName": name, "numColsPrefixKey": 0, "numPartitions": 1}
    info = {"operatorId": 0, "operatorName": "dedupe"}
    data = b"v1\n" + json.dumps({"operatorInfo": info, "stateStoreInfo": [store]}).encode()
    with pytest.raises(
        CheckpointFormatError, match=r"is invalid: the storeName .* is not the name"
    ):
        parse_operator_metadata(data, "metadata")
