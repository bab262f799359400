"""S3 servers: moto's, s3proxy, and one that answers late; and how clients are pointed at them."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.jvm import SERVER_OPTIONS
from tests.support.servers import jars
from tests.support.servers.process import accepts, answers, free_port, running

ACCESS_KEY = "FLINKISHACCESSKEY"
SECRET_KEY = "flinkish-secret-key-for-tests"
"""Distinctive, so that a test can look for them where credentials must not be."""


@dataclass(frozen=True)
class S3Server:
    """A running S3 server, and all that a client needs to use it.

    Attributes:
        name: The implementation: ``moto`` or ``s3proxy``.
        port: Its loopback port.
    """

    name: str
    port: int
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY
    region: str = "us-east-1"

    @property
    def endpoint(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """Return the variables that point every AWS client at the server, s3fs among them.

        botocore reads them when it makes a client, so they work for child processes and, with
        ``configured``, in this one. The empty files keep a developer's own settings out.
        """
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    @contextmanager
    def configured(self) -> Iterator[None]:
        """Point this process's fsspec at the server for the time of the context.

        fsspec keeps file systems by their arguments, which are the same for every server: the
        ones that were made are forgotten on both sides, and so are flinkish's stores.
        """
        from s3fs import S3FileSystem

        from flinkish.storage.stores import forget_stores

        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment().items():
                patch.setenv(name, value)
            patch.delenv("AWS_PROFILE", raising=False)
            S3FileSystem.clear_instance_cache()
            forget_stores()
            try:
                yield
            finally:
                S3FileSystem.clear_instance_cache()
                forget_stores()

    @contextmanager
    def configured_for(self, bucket: str) -> Iterator[str]:
        """Point one bucket's store at the server, beside another one; yield its URL."""
        from fsspec.config import conf

        url = self.create_bucket(bucket)
        options = {
            "endpoint_url": self.endpoint,
            "key": self.access_key,
            "secret": self.secret_key,
            "client_kwargs": {"region_name": self.region},
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(conf, "flinkish", {**conf.get("flinkish", {}), url: options})
            yield url

    def create_bucket(self, bucket: str) -> str:
        """Make a bucket, which may exist, and return its ``s3://`` URL."""
        import botocore.session
        from botocore.config import Config

        client = botocore.session.Session().create_client(
            "s3",
            region_name=self.region,
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(s3={"addressing_style": "path"}),
        )
        try:
            client.create_bucket(Bucket=bucket)
        except client.exceptions.BucketAlreadyOwnedByYou:
            pass  # in us-east-1, S3 itself answers 200 here
        finally:
            client.close()
        return f"s3://{bucket}"

    def spark_settings(self, bucket: str | None = None) -> dict[str, str]:
        """Return the Spark settings that make ``s3a://`` this server (``S3AFileSystem``).

        The jars come from ``tests.support.servers.jars.spark_s3_jars``.

        Args:
            bucket: For this bucket only, so that one Spark can use several servers.
        """
        prefix = "spark.hadoop.fs.s3a." + (f"bucket.{bucket}." if bucket else "")
        settings = {
            "endpoint": self.endpoint,
            "endpoint.region": self.region,
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "access.key": self.access_key,
            "secret.key": self.secret_key,
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        }
        return {f"{prefix}{key}": value for key, value in settings.items()}


@contextmanager
def moto(directory: Path) -> Iterator[S3Server]:
    """Run moto's server (``motoserver.py``); it keeps all in memory.

    Skips when moto is not installed.
    """
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask") is None:
        pytest.skip("needs moto and Flask (they are in the extra `dev`)")
    server = S3Server("moto", free_port())
    script = Path(__file__).with_name("motoserver.py")
    command = [sys.executable, str(script), str(server.port)]
    with running("moto_s3", command, directory / "moto.log", lambda: answers(server.endpoint)):
        yield server


_S3PROXY = """\
s3proxy.endpoint={endpoint}
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity={access_key}
s3proxy.credential={secret_key}
jclouds.provider=filesystem-nio2
jclouds.filesystem.basedir={directory}
jclouds.identity=unused
jclouds.credential=unused
"""
_LOGBACK = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level %logger{0}: %msg%n</pattern></encoder>
  </appender>
  <root level="info"><appender-ref ref="out"/></root>
</configuration>
"""


@contextmanager
def s3proxy(directory: Path) -> Iterator[S3Server]:
    """Run s3proxy, a Java program that shares no code with moto; it keeps all in files.

    It checks signatures and checksums, which moto does not.

    Raises:
        tests.support.servers.jars.Unavailable: Java or the jars cannot be had.
    """
    server = S3Server("s3proxy", free_port())
    data, settings, logging = directory / "data", directory / "conf", directory / "logback.xml"
    data.mkdir()
    logging.write_text(_LOGBACK)
    settings.write_text(
        _S3PROXY.format(
            endpoint=server.endpoint,
            access_key=server.access_key,
            secret_key=server.secret_key,
            directory=data,
        )
    )
    class_path = os.pathsep.join(str(jar) for jar in jars.jars("s3proxy"))
    command = [
        *(
            jars.java(),
            *SERVER_OPTIONS,
            f"-Dlogback.configurationFile={logging}",
            "-cp",
            class_path,
        ),
        *("org.gaul.s3proxy.Main", "--properties", str(settings)),
    ]
    log = directory / "s3proxy.log"
    with running("second_s3", command, log, lambda: answers(server.endpoint)):
        yield server


@contextmanager
def delayed(server: S3Server, latency: float, directory: Path) -> Iterator[S3Server]:
    """Put a server behind ``delay.py``: requests reach it ``latency`` s late."""
    late = replace(server, port=free_port())
    command = [
        *(sys.executable, str(Path(__file__).with_name("delay.py"))),
        *(str(late.port), str(server.port), str(latency)),
    ]
    name = f"slow_s3#{late.port}"
    with running(name, command, directory / f"delay-{late.port}.log", lambda: accepts(late.port)):
        yield late
