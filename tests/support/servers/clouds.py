"""Servers of Google Cloud Storage (fake-gcs-server) and Azure Blob Storage (Azurite).

The one is built as a Go module, the other comes from npm; both are kept in ``.cache/``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.servers.jars import KEPT, Unavailable
from tests.support.servers.process import accepts, answers, free_port, running

GCS_SERVER = "github.com/fsouza/fake-gcs-server@v1.52.2"
AZURITE = "azurite@3.37.0"
PATIENCE = 500.0
#: The account that every Azurite has, with its public key.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def _have(module: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise Unavailable(f"{module} (pip install 'flinkish[{extra}]')")


def _got(tool: str, command: list[str], wanted: Path, environ: Mapping[str, str]) -> Path:
    """Run a package manager until it has made a file; raise Unavailable if it cannot."""
    if wanted.exists():
        return wanted
    if shutil.which(tool) is None:
        raise Unavailable(f"{tool}, which gets {wanted.name}")
    wanted.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **environ}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{wanted.name}: {tool} took more than {PATIENCE:.0f} s") from None
    if done.returncode or not wanted.exists():
        raise Unavailable(f"{wanted.name}: {tool} failed: {done.stderr.strip()[-300:]}")
    return wanted


#: gcsfs asks for the kind of a bucket by gRPC, which the server does not speak. It reads this when
#: it is imported.
_WITHOUT_GRPC = {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}


@dataclass(frozen=True)
class GcsServer:
    """A running server of Google Cloud Storage, at a loopback port."""

    port: int

    @property
    def endpoint(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """Return the variables that point gcsfs at the server."""
        return {
            "STORAGE_EMULATOR_HOST": self.endpoint,
            "FSSPEC_GS_TOKEN": "anon",
            **_WITHOUT_GRPC,
        }

    @contextmanager
    def configured(self) -> Iterator[None]:
        """Point this process's gcsfs at the server for the time of the context."""
        os.environ.update(_WITHOUT_GRPC)
        from fsspec.config import conf
        from gcsfs import GCSFileSystem

        from flinkish.storage.stores import forget_stores

        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment().items():
                patch.setenv(name, value)
            patch.setitem(conf, "gs", {"token": "anon"})  # fsspec has read the environment before
            GCSFileSystem.clear_instance_cache()
            forget_stores()
            try:
                yield
            finally:
                GCSFileSystem.clear_instance_cache()
                forget_stores()

    def create_bucket(self, bucket: str) -> str:
        """Make a bucket, which may exist, and return its ``gs://`` URL."""
        request = urllib.request.Request(
            f"{self.endpoint}/storage/v1/b?project=tests",
            json.dumps({"name": bucket}).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            urllib.request.urlopen(request, timeout=30).close()
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise
        return f"gs://{bucket}"


@contextmanager
def gcs(directory: Path) -> Iterator[GcsServer]:
    """Run fake-gcs-server, which keeps all in memory.

    Raises:
        tests.support.servers.jars.Unavailable: gcsfs, Go or the module cannot be had.
    """
    _have("gcsfs", "gcs")
    kept = KEPT / "gcs"
    command = ["go", "install", GCS_SERVER]
    binary = _got("go", command, kept / "fake-gcs-server", {"GOBIN": str(kept)})
    server = GcsServer(free_port())
    words = [
        *(str(binary), "-scheme", "http", "-host", "127.0.0.1", "-port", str(server.port)),
        *("-backend", "memory", "-external-url", server.endpoint),
        *("-public-host", f"127.0.0.1:{server.port}"),
    ]
    log = directory / "gcs.log"
    with running("gcs_server", words, log, lambda: answers(f"{server.endpoint}/storage/v1/b")):
        yield server


@dataclass(frozen=True)
class AzureServer:
    """A running server of Azure Blob Storage, at a loopback port."""

    port: int

    @property
    def connection_string(self) -> str:
        """What a client needs to know."""
        endpoint = f"http://127.0.0.1:{self.port}/{ACCOUNT}"
        return (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
            f"BlobEndpoint={endpoint};"
        )

    def environment(self) -> dict[str, str]:
        """Return the variables that point adlfs at the server."""
        return {"AZURE_STORAGE_CONNECTION_STRING": self.connection_string}

    @contextmanager
    def configured(self) -> Iterator[None]:
        """Point this process's adlfs at the server for the time of the context."""
        from adlfs import AzureBlobFileSystem

        from flinkish.storage.stores import forget_stores

        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment().items():
                patch.setenv(name, value)
            AzureBlobFileSystem.clear_instance_cache()
            forget_stores()
            try:
                yield
            finally:
                AzureBlobFileSystem.clear_instance_cache()
                forget_stores()

    def create_container(self, container: str) -> str:
        """Make a container, which may exist, and return its URL in Hadoop's form."""
        from azure.core.exceptions import ResourceExistsError
        from azure.storage.blob import BlobServiceClient

        client = BlobServiceClient.from_connection_string(self.connection_string)
        with client, suppress(ResourceExistsError):
            client.create_container(container)
        return f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net"


@contextmanager
def azure(directory: Path) -> Iterator[AzureServer]:
    """Run Azurite, which keeps all in files.

    Raises:
        tests.support.servers.jars.Unavailable: adlfs, Node or the package cannot be had.
    """
    _have("adlfs", "azure")
    kept = KEPT / "azurite"
    main = kept / "node_modules/azurite/dist/src/blob/main.js"
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(kept), AZURITE]
    script = _got("npm", command, main, {})
    server = AzureServer(free_port())
    words = [
        *("node", str(script), "--blobHost", "127.0.0.1", "--blobPort", str(server.port)),
        *("--location", str(directory), "--silent", "--disableTelemetry"),
        "--skipApiVersionCheck",
    ]
    with running("azure_server", words, directory / "azurite.log", lambda: accepts(server.port)):
        yield server
