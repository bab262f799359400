"""Kafka: one broker that is its own controller (KRaft), a Java process."""

from __future__ import annotations

import base64
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from kafka.protocol.consumer import OffsetSpec
from kafka.structs import TopicPartition

from tests.support.jvm import SERVER_OPTIONS
from tests.support.servers import jars
from tests.support.servers.process import LOG4J2, accepts, free_port, run_once, running

PATIENCE_MS = 30_000
USER, PASSWORD = "alice", "wonder=land; 1"


@dataclass(frozen=True)
class KafkaServer:
    """A running broker.

    Attributes:
        port: The loopback port that clients use, without security.
        sasl_port: One where they log in (PLAIN, SCRAM-SHA-256, unsigned tokens) as :data:`USER`.
        tls_port: One where they do so by TLS.
        certificate: The file with the certificate (PEM) that they have to trust there.
    """

    port: int
    sasl_port: int
    tls_port: int
    certificate: Path

    @property
    def bootstrap(self) -> str:
        """``host:port``, for ``kafka.bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"

    def admin(self) -> KafkaAdminClient:
        """Return a client for topics; a context manager."""
        return KafkaAdminClient(bootstrap_servers=self.bootstrap, bootstrap_timeout_ms=PATIENCE_MS)

    def make_topic(self, name: str, partitions: int = 1) -> None:
        """Make a topic, and wait until its partitions have leaders."""
        with self.admin() as admin:
            admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 1}})
            admin.wait_for_topics([name])

    def drop_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        with self.admin() as admin:
            admin.delete_topics([name])
            deadline = time.monotonic() + PATIENCE_MS / 1000
            while name in admin.list_topics():
                assert time.monotonic() < deadline, f"topic {name} is still there"
                time.sleep(0.05)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic so many partitions in all."""
        with self.admin() as admin:
            admin.create_partitions({name: partitions})
            admin.wait_for_topics([name])

    def forget_rows(self, name: str, partition: int, before: int) -> None:
        """Delete the rows of a partition below an offset, as retention does."""
        with self.admin() as admin:
            admin.delete_records({TopicPartition(name, partition): before})

    def write(self, name: str, partition: int, rows: Iterable[tuple[int, bytes]]) -> None:
        """Write rows, each a time in milliseconds and a value, to a partition."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all")
        try:
            sent = [
                producer.send(name, value, partition=partition, timestamp_ms=time_ms)
                for time_ms, value in rows
            ]
            for each in sent:
                each.get(timeout=PATIENCE_MS / 1000)
        finally:
            producer.close()

    def ends(self, name: str) -> dict[int, int]:
        """Return the next offset of each partition of a topic."""
        with self.admin() as admin:
            (topic,) = admin.describe_topics([name])
            places = [TopicPartition(name, p["partition_index"]) for p in topic["partitions"]]
            found = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        return {place.partition: each.offset for place, each in sorted(found.items())}

    def read(self, name: str) -> list[bytes]:
        """Return the values of all rows that a topic has now, by partition and offset."""
        ends = self.ends(name)
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest")
        found: dict[tuple[int, int], bytes] = {}
        try:
            places = [TopicPartition(name, number) for number in ends]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            deadline = time.monotonic() + PATIENCE_MS / 1000
            while any(consumer.position(place) < ends[place.partition] for place in places):
                assert time.monotonic() < deadline, f"{name} cannot be read up to {ends}"
                for rows in consumer.poll(timeout_ms=200).values():
                    found.update({(row.partition, row.offset): row.value for row in rows})
        finally:
            consumer.close()
        return [found[place] for place in sorted(found)]


def _settings(directory: Path, server: KafkaServer, controller: int, keys: Path) -> str:
    places = {
        "PLAINTEXT": server.port,
        "SASL_PLAINTEXT": server.sasl_port,
        "SASL_SSL": server.tls_port,
    }
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in places.items())
    login = "org.apache.kafka.common.security"
    secured = {
        f"listener.name.{name}.{key}": value
        for name in ("sasl_plaintext", "sasl_ssl")
        for key, value in (
            (
                "plain.sasl.jaas.config",
                f'{login}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
            ),
            ("scram-sha-256.sasl.jaas.config", f"{login}.scram.ScramLoginModule required;"),
            (
                "oauthbearer.sasl.jaas.config",
                f"{login}.oauthbearer.OAuthBearerLoginModule required "
                f'unsecuredLoginStringClaim_sub="{USER}";',
            ),
        )
    }
    settings = {
        **secured,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.sasl_ssl.ssl.keystore.type": "PEM",
        "listener.name.sasl_ssl.ssl.keystore.location": str(keys),
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join(
            [*(f"{name}:{name}" for name in places), "CONTROLLER:PLAINTEXT"]
        ),
        "log.dirs": str(directory / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "auto.create.topics.enable": "false",  # else asking for a topic could make it
        "log.retention.ms": "-1",  # rows have any time that a test gives them
        "group.initial.rebalance.delay.ms": "0",
        # The cleaner's buffer is half of the heap otherwise.
        "log.cleaner.dedupe.buffer.size": "2097152",
        "controlled.shutdown.enable": "false",
        "initial.broker.registration.timeout.ms": "60000",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


@contextmanager
def kafka(directory: Path) -> Iterator[KafkaServer]:
    """Run a broker that keeps all below ``directory``.

    Raises:
        tests.support.servers.jars.Unavailable: Java or the jars cannot be had.
    """
    directory.mkdir(parents=True, exist_ok=True)
    logging = directory / "log4j2.properties"
    logging.write_text(LOG4J2)
    settings = directory / "server.properties"
    keys = _make_keys(directory)
    server = KafkaServer(free_port(), free_port(), free_port(), keys)
    settings.write_text(_settings(directory, server, free_port(), keys))
    class_path = os.pathsep.join(str(path) for path in jars.jars("kafka"))
    java = [
        jars.java(),
        *SERVER_OPTIONS,
        f"-Dlog4j2.configurationFile={logging}",
        "-cp",
        class_path,
    ]
    _format(java, settings, directory / "format.log")
    command = [*java, "kafka.Kafka", str(settings)]
    with running("kafka", command, directory / "kafka.log", lambda: _serves(server)):
        yield server


def _serves(server: KafkaServer) -> bool:
    """Whether the broker has joined itself: it takes connections before topics can be made."""
    if not accepts(server.port):
        return False
    try:
        with server.admin() as admin:
            return bool(admin.describe_cluster()["brokers"])
    except KafkaError:
        return False  # it is still starting


def _format(java: list[str], settings: Path, log: Path) -> None:
    """Prepare the broker's directory, once in its life."""
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    command = [*java, "kafka.tools.StorageTool", "format"]
    command += [f"--cluster-id={cluster}", "-c", str(settings)]  # it may begin with -
    command += ["--add-scram", f'SCRAM-SHA-256=[name={USER},password="{PASSWORD}"]']
    run_once(command, log)


def _make_keys(directory: Path) -> Path:
    """Make a private key and a certificate for 127.0.0.1, and return the file with both.

    Raises:
        tests.support.servers.jars.Unavailable: There is no OpenSSL.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        raise jars.Unavailable("OpenSSL (Debian: apt-get install openssl)")
    key, certificate, both = (directory / name for name in ("key.pem", "cert.pem", "both.pem"))
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"]
    command += ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    run_once(command, directory / "openssl.log")
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both
