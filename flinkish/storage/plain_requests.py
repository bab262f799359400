"""PutObject and GetObject to S3 through obstore, a compiled client, where that is installed.

botocore builds, signs and reads a request in a millisecond of Python, obstore in a tenth of that. A
savepoint makes these two requests by the thousand, and lists what it has put. botocore remains the
authority:

* botocore's first request of each kind to a bucket shows where and how requests of that kind are
  sent. If this first request has an unusual header (encryption, a payer ...), signature or
  identity, all requests of that kind to the bucket remain with botocore.
* a request that fails through obstore is repeated by botocore, which follows redirects and reports
  errors. If the repetition succeeds, obstore is no longer used for that kind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import flinkish

#: Keys that every client writes into a URL in the same way.
_PLAIN_KEY = re.compile(r"(?!.*(?:^|/)\.{0,2}(?:/|$))[A-Za-z0-9._/-]+")
#: Headers that do not change what a request means, or that every client sets itself.
_PLAIN_HEADERS = frozenset(
    {
        "accept-encoding",
        "amz-sdk-invocation-id",
        "amz-sdk-request",
        "authorization",
        "content-encoding",
        "content-length",
        "content-md5",
        "content-type",
        "expect",
        "host",
        "range",
        "transfer-encoding",
        "user-agent",
        "x-amz-checksum-crc32",
        "x-amz-checksum-mode",
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-decoded-content-length",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-security-token",
        "x-amz-trailer",
    }
)
_SIGNATURE = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d+/([^/]+)/s3/aws4_request,")
#: botocore renews credentials at least 10 minutes before they expire.
_CREDENTIALS_LAST = timedelta(minutes=9)


class _Route(NamedTuple):
    """How a request is sent: the address without the key, the region, and who signs it."""

    endpoint: str
    has_bucket_in_host: bool
    region: str
    access_key: str


class PlainRequests:
    """Requests for whole objects and parts of them, through the s3fs file system ``fs``."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self._obstore: Any = _import_obstore()
        self._process = os.getpid()
        #: By operation and bucket: obstore's store; None if botocore makes these requests.
        self._stores: dict[tuple[str, str], Any] = {}
        #: By operation, bucket and key of a watched request: how botocore has sent it.
        self._watched: dict[tuple[str, str, str], _Route | None] = {}

    async def put(self, path: str, data: bytes) -> None:
        """Put one object, given as ``bucket/key``."""

        async def compiled(store: Any, key: str) -> None:
            await self._obstore.put_async(store, key, data, use_multipart=False)

        await self._request("PutObject", path, compiled, lambda: self._fs._pipe_file(path, data))

    async def read(self, path: str, start: int, end: int) -> bytes:
        """Read the bytes from ``start`` up to ``end`` of an object, given as ``bucket/key``."""

        async def compiled(store: Any, key: str) -> bytes:
            return bytes(await self._obstore.get_range_async(store, key, start=start, end=end))

        data = await self._request(
            "GetObject", path, compiled, lambda: self._fs._cat_file(path, start=start, end=end)
        )
        return bytes(data)

    async def sizes(self, path: str) -> dict[str, int] | None:
        """Return the names and sizes of the objects in a directory, given as ``bucket/prefix``.

        Returns None if obstore cannot list them, or is not in use for the bucket.
        """
        bucket, prefix, _ = self._fs.split_path(path)
        stores = (self._stores.get((each, bucket)) for each in ("PutObject", "GetObject"))
        store = next(filter(None, stores), None)
        if store is None or os.getpid() != self._process or not _PLAIN_KEY.fullmatch(prefix):
            return None
        try:
            listed = await self._obstore.list_with_delimiter_async(store, f"{prefix}/")
        except (self._obstore.exceptions.BaseError, OSError):
            return None
        return {each["path"].rpartition("/")[2]: each["size"] for each in listed["objects"]}

    async def _request(
        self,
        operation: str,
        path: str,
        compiled: Callable[[Any, str], Awaitable[Any]],
        ordinary: Callable[[], Awaitable[Any]],
    ) -> Any:
        bucket, key, version = self._fs.split_path(path)
        kind = (operation, bucket)
        # Threads of obstore do not survive a fork.
        if self._obstore is None or version or os.getpid() != self._process:
            return await ordinary()
        if not _PLAIN_KEY.fullmatch(key):
            return await ordinary()
        if kind in self._stores:
            store = self._stores[kind]
            if store is None:
                return await ordinary()
            try:
                return await compiled(store, key)
            except (self._obstore.exceptions.BaseError, OSError):
                answer = await ordinary()
                self._stores[kind] = None
                return answer
        if any(watched[:2] == kind for watched in self._watched):
            return await ordinary()
        watched = (operation, bucket, key)
        self._watched[watched] = None
        try:
            await self._fs.set_session()
            client = await self._fs.get_s3(bucket)
            event = f"before-send.s3.{operation}"
            client.meta.events.register(event, self._sent, unique_id=f"flinkish-{operation}")
            answer = await ordinary()
            self._stores[kind] = await self._open(bucket, self._watched[watched])
            return answer
        finally:
            del self._watched[watched]

    def _sent(self, request: Any, event_name: str, **_: Any) -> None:
        """Note how botocore sends the request that is watched."""
        operation = event_name.rpartition(".")[2]
        address = urlsplit(request.url)
        for watched in self._watched:
            if watched[0] != operation:
                continue
            path, host, key = unquote(address.path), address.netloc, watched[2]
            in_host = path == f"/{key}" and host.startswith(f"{watched[1]}.")
            if in_host or path == f"/{watched[1]}/{key}":
                endpoint = f"{address.scheme}://{host}"
                self._watched[watched] = _route_of(request.headers, endpoint, in_host)

    async def _open(self, bucket: str, route: _Route | None) -> Any:
        """Return obstore's store of a bucket; None if it cannot send as botocore does."""
        if route is None or (await self._credentials())["access_key_id"] != route.access_key:
            return None
        return self._obstore.store.S3Store(
            bucket,
            endpoint=route.endpoint,
            region=route.region,
            virtual_hosted_style_request=route.has_bucket_in_host,
            credential_provider=self._credentials,
            client_options={
                "allow_http": route.endpoint.startswith("http:"),
                "connect_timeout": "10s",
                "timeout": "120s",
                "user_agent": f"flinkish/{flinkish.__version__}",
            },
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=60)},
        )

    async def _credentials(self) -> dict[str, Any]:
        """Return the file system's current credentials, in the form that obstore expects."""
        if self._fs.key:
            key, secret, token = self._fs.key, self._fs.secret, self._fs.token
        else:
            credentials = await self._fs.session.get_credentials()
            if credentials is None:  # the client has credentials of its own
                return {"access_key_id": None}
            key, secret, token = (await credentials.get_frozen_credentials())[:3]
        expiry = datetime.now(timezone.utc) + _CREDENTIALS_LAST
        names = ("access_key_id", "secret_access_key", "token", "expires_at")
        return dict(zip(names, (key, secret, token, expiry), strict=True))


def _route_of(headers: Any, endpoint: str, in_host: bool) -> _Route | None:
    """Return the route of a request with these headers; None if the request is not plain."""
    if not {name.lower() for name in headers} <= _PLAIN_HEADERS:
        return None
    authorization = headers.get("Authorization", "")
    if isinstance(authorization, bytes):
        authorization = authorization.decode("ascii", "replace")
    signature = _SIGNATURE.match(authorization)
    if signature is None:
        return None
    return _Route(endpoint, in_host, signature[2], signature[1])


def _import_obstore() -> ModuleType | None:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError:
        return None
    return obstore
