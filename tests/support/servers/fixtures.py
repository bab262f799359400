"""Fixtures: one server of each kind for the whole run, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests.support.servers import clouds, s3
from tests.support.servers.clouds import AzureServer, GcsServer
from tests.support.servers.hdfs import HdfsServer
from tests.support.servers.hdfs import hdfs as run_hdfs
from tests.support.servers.jars import Unavailable
from tests.support.servers.s3 import S3Server

if TYPE_CHECKING:
    from tests.support.servers.kafka import KafkaServer


ServerT = TypeVar("ServerT")


@contextmanager
def _needed(server: AbstractContextManager[ServerT]) -> Iterator[ServerT]:
    """Run a server; skip the test, and name what it needs, where that cannot be had."""
    with ExitStack() as started:
        try:
            running = started.enter_context(server)
        except Unavailable as why:
            pytest.skip(f"needs {why}")
        yield running


@pytest.fixture(scope="session")
def moto_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """moto's S3 server, in a process of its own."""
    with s3.moto(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def second_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """s3proxy, in a process of its own."""
    with _needed(s3.s3proxy(tmp_path_factory.mktemp("s3proxy"))) as server:
        yield server


@pytest.fixture(scope="session")
def slow_s3(
    moto_s3: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., S3Server]]:
    """``slow_s3(latency, server=moto)``: a server that each request reaches ``latency`` s late."""
    directory = tmp_path_factory.mktemp("slow-s3")
    with ExitStack() as started:

        def start(latency: float, server: S3Server = moto_s3) -> S3Server:
            return started.enter_context(s3.delayed(server, latency, directory))

        yield start


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """A NameNode and a DataNode, in processes of their own."""
    with _needed(run_hdfs(tmp_path_factory.mktemp("hdfs"))) as server:
        yield server


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    """fake-gcs-server, in a process of its own."""
    with _needed(clouds.gcs(tmp_path_factory.mktemp("gcs"))) as server:
        yield server


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """Azurite, in a process of its own."""
    with _needed(clouds.azure(tmp_path_factory.mktemp("azurite"))) as server:
        yield server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker, in a process of its own; tests have topics of their own."""
    # Here, as the client takes half a second to import.
    from tests.support.servers.kafka import kafka as run_kafka

    with _needed(run_kafka(tmp_path_factory.mktemp("kafka"))) as server:
        yield server
