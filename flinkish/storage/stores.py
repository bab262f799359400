"""Which remote store a location is in, and how it is opened: fsspec's class with its options.

Credentials, endpoints and other options come from fsspec's own configuration and environment
(``FSSPEC_S3_ENDPOINT_URL``, ``~/.config/fsspec/*.json``, ``AWS_*`` ...). Options of a single bucket
come from the section ``flinkish`` of that configuration. No option is part of a location. Listings
are never cached, because other processes write the listed directories.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from flinkish.errors import StorageError
from flinkish.storage import s3
from flinkish.storage.concurrency import connections
from flinkish.storage.errors import remote_failure
from flinkish.storage.remote import RemoteStore

_EXTRAS = {
    "s3": "s3",
    "hdfs": "hdfs",
    "gs": "gcs",
    **dict.fromkeys(("abfs", "abfss", "az"), "azure"),
}

_stores: dict[tuple[str, str], RemoteStore] = {}
_lock = threading.Lock()


def store_of(location: str) -> RemoteStore:
    """Return the store of a remote location, opened once for each scheme and authority.

    Raises StorageError for an unknown scheme, a missing library, or a store that cannot be opened.
    """
    scheme, _, rest = location.partition("://")
    key = scheme, rest.partition("/")[0]
    with _lock:
        if key not in _stores:
            _stores[key] = RemoteStore(_open(location, scheme), scheme)
        return _stores[key]


def forget_stores() -> None:
    """Reopen stores on their next use (the environment has changed, or the process was forked)."""
    with _lock:
        _stores.clear()


def _open(location: str, scheme: str) -> Any:
    from fsspec.core import url_to_fs

    own = _options_of(location)
    options: dict[str, Any] = {"use_listings_cache": False}
    if scheme == "s3":
        settings = s3.client_settings(connections())
        options["config_kwargs"] = {**settings, **own.pop("config_kwargs", {})}
    elif scheme in {"hdfs", "viewfs"}:
        options = _hadoop_options()
    try:
        return url_to_fs(location, **{**options, **own})[0]
    except ImportError as error:
        extra = _EXTRAS.get(scheme)
        raise StorageError(
            f"cannot open {location}: {error}",
            hint=f"pip install 'flinkish[{extra}]'" if extra else "install the library it names",
            path=location,
        ) from error
    except ValueError as error:
        raise StorageError(
            f"cannot open {location}: {error}",
            hint="use a local path, or a scheme that fsspec supports: s3://, hdfs:// ...",
            path=location,
        ) from error
    except Exception as error:
        raise remote_failure("open", location, error) from error


def _options_of(location: str) -> dict[str, Any]:
    """Return the options of one bucket, which override the options of its scheme.

    These options are in fsspec's configuration, in the section ``flinkish`` under the bucket's URL.
    With them one process can use two stores of one kind.
    """
    from fsspec.config import conf

    scheme, _, rest = location.partition("://")
    return dict(conf.get("flinkish", {}).get(f"{scheme}://{rest.partition('/')[0]}", {}))


def _hadoop_options() -> dict[str, Any]:
    """Return options for hdfs-native, which treats every option as Hadoop configuration.

    By Hadoop's default an absent NameNode is tried 15 times, which takes three minutes. flinkish
    sets 4 attempts (about 15 seconds), unless ``HADOOP_CONF_DIR`` or ``HADOOP_HOME`` is set, which
    leaves the number to Hadoop's configuration.
    """
    if any(os.environ.get(name) for name in ("HADOOP_CONF_DIR", "HADOOP_HOME")):
        return {}
    return {"dfs.client.failover.max.attempts": "4"}
