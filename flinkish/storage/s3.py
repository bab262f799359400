"""S3 requests that fsspec lacks, or makes slowly: copies within S3, bulk deletion, puts, reads.

A copy requests a SHA-256 of the copied content from the store. If the store returns none (older or
other implementations), the ETag is used where it is the MD5 of the content: for an object that was
put in one part and is not encrypted with a KMS key or a key of the customer.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import re
import time
from collections.abc import Coroutine, Sequence
from typing import Any, cast

import flinkish
from flinkish.storage.errors import Replaced
from flinkish.storage.plain_requests import PlainRequests

#: Maximum number of objects that one request can delete.
DELETE_BATCH = 1000
#: S3's limit in bytes for a copy by one request.
_COPY_LIMIT = 5 << 30
#: Errors of single objects in a bulk deletion, after which the objects are deleted again; the
#: number of attempts; and the seconds by which the pause before each further attempt is longer.
_REPEATED = frozenset({"InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout"})
_DELETE_ATTEMPTS = 4
_PAUSE = 0.5
_MD5 = re.compile(r"[0-9a-f]{32}")
#: Server-side encryption under which an ETag is still the MD5 of the content.
_PLAIN_ENCRYPTION = frozenset({None, "", "AES256"})


def client_settings(connections: int) -> dict[str, Any]:
    """Return settings for botocore's client; fsspec's configuration for ``s3`` overrides them."""
    from fsspec.config import conf

    asked = conf.get("s3", {}).get("config_kwargs", {})
    return {
        "max_pool_connections": connections,
        "connect_timeout": 10,
        # botocore's attempts for each call; s3fs itself also repeats a call that was throttled or
        # cut off (S3FileSystem.retries).
        "retries": {"mode": "standard", "max_attempts": 4},
        # By default botocore builds its user agent for every request: a quarter of its work.
        "user_agent": f"flinkish/{flinkish.__version__}",
        **asked,
    }


class S3Calls:
    """Requests to S3 through the client of an s3fs file system."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self._plain = PlainRequests(fs)
        #: Some stores refuse requests for a checksum: after a refusal none is requested.
        self._checksums = True

    def copy_all(
        self, copies: Sequence[tuple[str, str, str | None, int | None]]
    ) -> list[tuple[int, str | None] | BaseException]:
        """Copy objects within the store concurrently.

        A copy is (source, target, ETag, size), with source and target as ``bucket/key``. The size
        (bytes) is that of the object with this ETag; either may be None. Returns for each copy its
        size and its digest (None if the store reports none), or any exception: FileNotFoundError if
        the source no longer exists, Replaced if it has another ETag.
        """
        return self._gather([self._copy(*copying) for copying in copies])

    def put_all(self, files: Sequence[tuple[str, bytes]]) -> list[BaseException | None]:
        """Put small objects, given as (``bucket/key``, content), concurrently.

        Returns None or the error for each.
        """
        put = self._gather([self._plain.put(path, data) for path, data in files])
        return [error if isinstance(error, BaseException) else None for error in put]

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Read the bytes from ``start`` up to ``end`` of an object, given as ``bucket/key``."""
        from fsspec.asyn import sync

        return cast(bytes, sync(self._fs.loop, self._plain.read, path, start, end))

    def sizes(self, path: str) -> dict[str, int] | None:
        """Return :meth:`.PlainRequests.sizes`."""
        from fsspec.asyn import sync

        return cast("dict[str, int] | None", sync(self._fs.loop, self._plain.sizes, path))

    def _gather(self, calls: list[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run calls to the asynchronous client with one thread switch; return results or errors."""
        from fsspec.asyn import sync

        async def together() -> list[Any]:
            return await asyncio.gather(*calls, return_exceptions=True)

        return cast("list[Any]", sync(self._fs.loop, together))

    async def _copy(
        self, source: str, target: str, stamp: str | None, size: int | None
    ) -> tuple[int, str | None]:
        tag = stamp or ""
        if stamp is None or size is None:
            info = await self._fs._info(source)
            size, tag = int(info["size"]), str(info.get("ETag") or "").strip('"')
            if stamp is not None and tag != stamp:
                raise Replaced(f"{source} was replaced")
        if size > _COPY_LIMIT:
            await self._fs._cp_file(source, target)  # in parts
            if tag and await self._etag(source) != tag:
                raise Replaced(f"{source} was replaced")
            return size, None
        return size, await self._copy_object(source, target, tag)

    async def _copy_object(self, source: str, target: str, tag: str) -> str | None:
        (bucket, key, _), (new_bucket, new_key, _) = map(self._fs.split_path, (source, target))
        arguments: dict[str, Any] = {
            "Bucket": new_bucket,
            "Key": new_key,
            "CopySource": {"Bucket": bucket, "Key": key},
        }
        if tag:
            arguments["CopySourceIfMatch"] = f'"{tag}"'
        if self._checksums:
            arguments["ChecksumAlgorithm"] = "SHA256"
        try:
            answer = await self._fs._call_s3("copy_object", **arguments)
        except OSError as error:  # s3fs converts botocore's errors
            code = _code_of(error)
            if code in {"PreconditionFailed", "412"}:
                raise Replaced(f"{source} was replaced") from error
            if code == "NoSuchBucket":  # FileNotFoundError would mean that the source is gone
                buckets = " or ".join(dict.fromkeys((bucket, new_bucket)))
                raise OSError(5, f"the bucket {buckets} does not exist") from error
            if code in {"NoSuchKey", "404"}:
                raise FileNotFoundError(2, "No such file", source) from error
            asked = "ChecksumAlgorithm" in arguments  # another call may have cleared _checksums
            if asked and code in {"NotImplemented", "InvalidRequest", "InvalidArgument"}:
                self._checksums = False
                return await self._copy_object(source, target, tag)
            raise
        copied = str((answer.get("CopyObjectResult") or {}).get("ETag") or "").strip('"')
        # Not every store checks CopySourceIfMatch, so the source's ETag is read again if the copy's
        # differs. A copy of equal content may have another ETag if it is encrypted, or if the
        # source was put in parts.
        if tag and copied != tag and await self._etag(source) != tag:
            raise Replaced(f"{source} was replaced")
        return _digest(answer)

    async def _etag(self, path: str) -> str:
        info = await self._fs._info(path)
        return str(info.get("ETag") or "").strip('"')

    def delete(self, paths: list[str]) -> None:
        """Delete up to :data:`DELETE_BATCH` objects of one bucket, given as ``bucket/key``.

        Raises OSError, after which some of these objects may be deleted.
        """
        bucket = self._fs.split_path(paths[0])[0]
        # Use names literally: s3fs would parse ``?versionId=`` in a name as an object version.
        keys = [path[len(bucket) + 1 :] for path in paths]
        for attempt in range(_DELETE_ATTEMPTS):
            time.sleep(_PAUSE * attempt)
            objects = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
            errors = self._fs.call_s3("delete_objects", Bucket=bucket, Delete=objects).get("Errors")
            if not errors:
                return
            failed = {each.get("Key") for each in errors}
            keys = [key for key in keys if key in failed]
            if not keys or not all(each.get("Code") in _REPEATED for each in errors):
                break
        first = next((each for each in errors if each.get("Code") not in _REPEATED), errors[0])
        number = errno.EACCES if first.get("Code") == "AccessDenied" else errno.EIO
        raise OSError(number, f"{first.get('Code')}: {first.get('Message')}", first.get("Key"))


def _code_of(error: OSError) -> str:
    """Return S3's own code of an error, such as ``NoSuchKey``."""
    response = getattr(error.__cause__, "response", None) or {}
    code = str(response.get("Error", {}).get("Code") or "")
    return code or ("NoSuchKey" if isinstance(error, FileNotFoundError) else "")


def _digest(answer: Any) -> str | None:
    """Return the digest in a CopyObject response, in the form that savepoints record."""
    result = answer.get("CopyObjectResult") or {}
    checksum = str(result.get("ChecksumSHA256") or "")
    # The checksum of an object in parts is a checksum of checksums: a dash and the number of parts
    # are appended.
    if checksum and "-" not in checksum and result.get("ChecksumType") != "COMPOSITE":
        try:
            return f"sha256:{base64.b64decode(checksum, validate=True).hex()}"
        except ValueError:
            return None
    tag = str(result.get("ETag") or "").strip('"')
    if _MD5.fullmatch(tag) and answer.get("ServerSideEncryption") in _PLAIN_ENCRYPTION:
        return f"md5:{tag}" if not answer.get("SSECustomerAlgorithm") else None
    return None
