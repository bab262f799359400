"""What S3 can and fsspec's interface has no words for: copies within the store, bulk deletion.

A copy asks the store for a SHA-256 of what it copied. Where it gives none (older or other
implementations), the ETag serves when it is the MD5 of the content: of an object that was put in
one piece and is not encrypted by a key of KMS or of the customer.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Coroutine, Sequence
from typing import Any, cast

import flinkish
from flinkish.storage.errors import Replaced

#: What one request can delete.
DELETE_BATCH = 1000
#: S3's limit for a copy by one request.
_COPY_LIMIT = 5 << 30
_MD5 = re.compile(r"[0-9a-f]{32}")
#: Server-side encryption under which an ETag is still the MD5 of the content.
_PLAIN_ENCRYPTION = frozenset({None, "", "AES256"})


def client_settings(connections: int) -> dict[str, Any]:
    """Settings of botocore's client, below those of fsspec's configuration for ``s3``."""
    from fsspec.config import conf  # type: ignore[import-untyped]

    asked = conf.get("s3", {}).get("config_kwargs", {})
    return {
        "max_pool_connections": connections,
        "connect_timeout": 10,
        "retries": {"mode": "standard", "max_attempts": 4},
        # botocore's own name is put together again for every request, a quarter of its work.
        "user_agent": f"flinkish/{flinkish.__version__}",
        **asked,
    }


class S3Calls:
    """Requests to S3 by the client of an s3fs file system."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        #: Some stores refuse to be asked for a checksum: they are asked once.
        self._checksums = True

    def copy_all(
        self, copies: Sequence[tuple[str, str, str | None, int | None]]
    ) -> list[tuple[int, str | None] | BaseException]:
        """Copy (``bucket/key``, to another, ETag, size) within the store, all at once.

        The ETag is the source's, and another one gives Replaced; the size is the source's where it
        is known with the ETag. For each its size, and its digest where the store tells it; or why
        it was not copied: FileNotFoundError when the source is gone.
        """
        return self._gather([self._copy(*copying) for copying in copies])

    def put_all(self, files: Sequence[tuple[str, bytes]]) -> list[BaseException | None]:
        """Put small (``bucket/key``, content), all at once; for each why it was not put."""
        put = self._gather([self._fs._pipe_file(path, data) for path, data in files])
        return [found if isinstance(found, BaseException) else None for found in put]

    def _gather(self, calls: list[Coroutine[Any, Any, Any]]) -> list[Any]:
        """The results or errors of calls to the asynchronous client, by one change of threads."""
        from fsspec.asyn import sync  # type: ignore[import-untyped]

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
        except OSError as error:  # s3fs makes them of botocore's
            code = _code_of(error)
            if code in {"PreconditionFailed", "412"}:
                raise Replaced(f"{source} was replaced") from error
            if code == "NoSuchBucket":  # FileNotFoundError would say that the source is gone
                raise OSError(5, f"there is no bucket {new_bucket}") from error
            if code in {"NoSuchKey", "404"}:
                raise FileNotFoundError(2, "No such file", source) from error
            asked = "ChecksumAlgorithm" in arguments  # others may have been refused meanwhile
            if asked and code in {"NotImplemented", "InvalidRequest", "InvalidArgument"}:
                self._checksums = False
                return await self._copy_object(source, target, tag)
            raise
        copied = str((answer.get("CopyObjectResult") or {}).get("ETag") or "").strip('"')
        # Not every store looks at the condition; and equal content may have another ETag, where
        # it is encrypted or was put in parts.
        if tag and copied != tag and await self._etag(source) != tag:
            raise Replaced(f"{source} was replaced")
        return _digest(answer)

    async def _etag(self, path: str) -> str:
        info = await self._fs._info(path)
        return str(info.get("ETag") or "").strip('"')

    def delete(self, paths: list[str]) -> None:
        """Delete up to :data:`DELETE_BATCH` objects of one bucket, given as ``bucket/key``."""
        bucket = self._fs.split_path(paths[0])[0]
        # By the letter: s3fs would take ``?versionId=`` in a name for the version of another.
        keys = [{"Key": path[len(bucket) + 1 :]} for path in paths]
        answer = self._fs.call_s3(
            "delete_objects", Bucket=bucket, Delete={"Objects": keys, "Quiet": True}
        )
        errors = answer.get("Errors") or []
        if errors:
            first = errors[0]
            raise PermissionError(
                13, f"{first.get('Code')}: {first.get('Message')}", first.get("Key")
            )


def _code_of(error: OSError) -> str:
    """S3's own code of an error, such as ``NoSuchKey``."""
    response = getattr(error.__cause__, "response", None) or {}
    code = str(response.get("Error", {}).get("Code") or "")
    return code or ("NoSuchKey" if isinstance(error, FileNotFoundError) else "")


def _digest(answer: Any) -> str | None:
    """The digest in an answer to CopyObject, as savepoints record it."""
    result = answer.get("CopyObjectResult") or {}
    checksum = str(result.get("ChecksumSHA256") or "")
    # That of an object in parts is one of its parts' checksums, with their number behind a dash.
    if checksum and "-" not in checksum and result.get("ChecksumType") != "COMPOSITE":
        try:
            return f"sha256:{base64.b64decode(checksum, validate=True).hex()}"
        except ValueError:
            return None
    tag = str(result.get("ETag") or "").strip('"')
    if _MD5.fullmatch(tag) and answer.get("ServerSideEncryption") in _PLAIN_ENCRYPTION:
        return f"md5:{tag}" if not answer.get("SSECustomerAlgorithm") else None
    return None
