"""Requests that obstore makes in place of botocore, and those that stay with botocore."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flinkish.storage.plain_requests import PlainRequests, _route_of
from tests.support.servers.s3 import S3Server

BUCKET = "plain"
NewPlain = Callable[..., "Plain"]


class Plain:
    """Requests to one server, and the keys for which botocore has made them."""

    def __init__(self, fs: Any) -> None:
        self.fs = fs
        self.requests = PlainRequests(fs)
        self.by_botocore: list[str] = []

    def call(self, method: Any, *arguments: Any) -> Any:
        from fsspec.asyn import sync

        return sync(self.fs.loop, method, *arguments)

    def put(self, *keys: str) -> None:
        for key in keys:
            self.call(self.requests.put, f"{BUCKET}/{key}", f"content of {key}".encode())

    def watch(self) -> Plain:
        self.call(self.fs.set_session)
        client = self.call(self.fs.get_s3, BUCKET)
        client.meta.events.register("before-send.s3", self._sent)
        return self

    def _sent(self, request: Any, **_: Any) -> None:
        self.by_botocore.append(request.url.partition(f"{BUCKET}/")[2].partition("?")[0])


@pytest.fixture
def new_plain(second_s3: S3Server) -> Iterator[NewPlain]:
    import s3fs

    with second_s3.configured():
        second_s3.create_bucket(BUCKET)
        yield lambda **options: Plain(
            s3fs.S3FileSystem(use_listings_cache=False, skip_instance_cache=True, **options)
        ).watch()


pytestmark = [pytest.mark.servers]


def test_botocore_shows_the_way_once_for_each_kind(new_plain: NewPlain) -> None:
    plain = new_plain()
    plain.put("a/1", "a/2", "a/3", "with space", "n=1")
    assert plain.by_botocore == ["a/1", "with%20space", "n%3D1"], "clients may escape differently"
    assert plain.fs.cat_file(f"{BUCKET}/a/3") == b"content of a/3"
    assert plain.fs.cat_file(f"{BUCKET}/n=1") == b"content of n=1"
    plain.by_botocore.clear()
    for key in ("a/1", "a/2"):
        data = plain.call(plain.requests.read, f"{BUCKET}/{key}", 8, 14)
        assert data == f"of {key}".encode()
    assert plain.by_botocore == ["a/1"]


def test_an_absent_object_is_told_by_botocore(new_plain: NewPlain) -> None:
    plain = new_plain()
    plain.put("file-a", "file-b")
    for _ in range(2):
        assert plain.call(plain.requests.read, f"{BUCKET}/file-a", 0, 1) == b"c"
        with pytest.raises(FileNotFoundError):
            plain.call(plain.requests.read, f"{BUCKET}/none", 0, 1)
    assert plain.by_botocore == ["file-a", "file-a", "none", "none"], (
        "it is asked only for the absent one"
    )


def test_requests_with_headers_of_their_own_stay_with_botocore(new_plain: NewPlain) -> None:
    plain = new_plain(s3_additional_kwargs={"Metadata": {"team": "data"}})
    plain.put("file-a", "file-b", "file-c")
    assert plain.by_botocore == ["file-a", "file-b", "file-c"]


def test_what_obstore_fails_is_repeated_and_then_left_to_botocore(
    new_plain: NewPlain, second_s3: S3Server
) -> None:
    plain = new_plain(key=second_s3.access_key, secret=second_s3.secret_key)
    plain.put("file-a")
    plain.fs.secret = "another one than that of botocore's client"
    plain.put("file-b", "file-c")
    assert plain.by_botocore == ["file-a", "file-b", "file-c"]
    assert plain.fs.cat_file(f"{BUCKET}/file-b") == b"content of file-b"


def test_another_identity_than_the_session_s_stays_with_botocore(
    new_plain: NewPlain, second_s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    plain = new_plain(
        client_kwargs={
            "aws_access_key_id": second_s3.access_key,
            "aws_secret_access_key": second_s3.secret_key,
        }
    )
    plain.put("file-a", "file-b")
    assert plain.by_botocore == ["file-a", "file-b"]


def test_without_obstore_all_are_botocore_s(
    new_plain: NewPlain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    plain = new_plain()
    plain.put("file-a", "file-b")
    assert plain.by_botocore == ["file-a", "file-b"]


def test_many_at_once_learn_from_one(new_plain: NewPlain) -> None:
    plain = new_plain()
    keys = [f"many/{number}" for number in range(20)]

    async def put_all() -> None:
        await asyncio.gather(*(plain.requests.put(f"{BUCKET}/{key}", b"x") for key in keys))

    plain.call(put_all)
    plain.by_botocore.clear()
    plain.call(put_all)
    assert plain.by_botocore == []


def test_a_directory_that_was_put_is_listed(new_plain: NewPlain) -> None:
    plain = new_plain()
    keys = [f"all/0/{number:04}" for number in range(1001)]
    assert plain.call(plain.requests.sizes, f"{BUCKET}/all/0") is None, "the way is not known"
    plain.put("all/01/x", "all/0/below/x", *keys)
    plain.by_botocore.clear()
    sizes = {key[6:]: len(f"content of {key}") for key in keys}
    assert plain.call(plain.requests.sizes, f"{BUCKET}/all/0") == sizes
    assert plain.call(plain.requests.sizes, f"{BUCKET}/none") == {}
    assert plain.by_botocore == []
    plain.fs.rm(BUCKET, recursive=True)
    assert plain.call(plain.requests.sizes, f"{BUCKET}/all/0") is None


SIGNED = "AWS4-HMAC-SHA256 Credential=AKID/20261127/eu-west-1/{}/aws4_request, SignedHeaders=host"


@pytest.mark.parametrize(
    ("headers", "is_plain"),
    [
        ({"Authorization": SIGNED.format("s3")}, True),
        ({"Authorization": SIGNED.format("s3").encode(), "X-Amz-Date": b"20261127"}, True),
        ({"Authorization": SIGNED.format("s3express")}, False),
        ({"Authorization": "AWS AKID:signature"}, False),
        ({}, False),
        ({"Authorization": SIGNED.format("s3"), "x-amz-request-payer": "requester"}, False),
    ],
)
def test_what_a_plain_request_is(headers: dict[str, Any], is_plain: bool) -> None:
    route = _route_of(headers, "https://b.s3.eu-west-1.amazonaws.com", True)
    assert (route is not None) is is_plain
    if route is not None:
        assert (route.region, route.access_key) == ("eu-west-1", "AKID")
