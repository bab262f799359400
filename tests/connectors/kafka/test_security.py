"""Logging in to a broker as Spark does: a real one with SASL and TLS, and what cannot be done."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import replace

import pytest

from flinkish.connectors.kafka.reading import Available, BrokerAnswer
from flinkish.connectors.kafka.security import CannotLogIn, client_settings
from flinkish.connectors.kafka.topics import ask_for
from tests.support.restore.query_builders import reads
from tests.support.servers.kafka import PASSWORD, USER, KafkaServer

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def login(protocol: str, mechanism: str, module: str, password: str = PASSWORD) -> dict[str, str]:
    config = f'{module} required username="{USER}" password="{password}";'
    return {
        "kafka.security.protocol": protocol,
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": config,
    }


def asked(kafka: KafkaServer, port: int, options: Mapping[str, str]) -> BrokerAnswer:
    given = {"subscribe": "secured", "kafka.bootstrap.servers": f"127.0.0.1:{port}", **options}
    source = replace(reads("kafka[subscribe=secured]"), options=given)
    assert PASSWORD not in repr(source)
    return ask_for(source, {"secured": {0: 0}}, at_ms=1_000)


@pytest.mark.servers
def test_a_broker_with_passwords_and_tls(kafka: KafkaServer) -> None:
    kafka.make_topic("secured")
    kafka.write("secured", 0, [(1_000, b"x")])
    there = BrokerAnswer({"secured": {0: Available(0, 1)}}, at={"secured": {0: 0}})
    trusted = {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(kafka.certificate),
    }
    for mechanism, module in (("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM)):
        plain = login("SASL_PLAINTEXT", mechanism, module)
        assert asked(kafka, kafka.sasl_port, plain) == there
        tls = {**login("SASL_SSL", mechanism, module), **trusted}
        assert asked(kafka, kafka.tls_port, tls) == there
    inline = {"kafka.ssl.truststore.certificates": kafka.certificate.read_text()}
    assert asked(kafka, kafka.tls_port, {**login("sasl_ssl", "plain", PLAIN), **inline}) == there

    wrong = asked(kafka, kafka.sasl_port, login("SASL_PLAINTEXT", "PLAIN", PLAIN, "guessed"))
    assert wrong.topics is None
    assert "guessed" not in wrong.why


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kafka.security.protocol": "MAGIC"}, "uses MAGIC"),
        ({"kafka.security.protocol": "SASL_SSL"}, "by GSSAPI"),
        (login("SASL_SSL", "OAUTHBEARER", "x"), "by OAUTHBEARER"),
        (login("SASL_SSL", "PLAIN", SCRAM), "has no username and password for PlainLoginModule"),
        (
            {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"},
            "has no username and password",
        ),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/t.jks"},
            "its truststore is of type JKS, but only PEM",
        ),
        (
            {
                "kafka.security.protocol": "SSL",
                "kafka.ssl.keystore.location": "/k.p12",
                "kafka.ssl.keystore.type": "PKCS12",
            },
            "its keystore is of type PKCS12",
        ),
        (
            {
                "kafka.security.protocol": "SSL",
                "kafka.ssl.truststore.location": "/no/such.pem",
                "kafka.ssl.truststore.type": "PEM",
            },
            "cannot read its certificates",
        ),
    ],
)
def test_what_a_client_in_python_cannot_do(options: dict[str, str], says: str) -> None:
    with pytest.raises(CannotLogIn, match=says) as raised:
        client_settings(options)
    assert PASSWORD not in str(raised.value)


def test_names_and_passwords_are_as_java_reads_them() -> None:
    config = f'{PLAIN} required\n username=\'bob\'  password="a\\"b\\\\c" other=1;'
    given = {**login("SASL_PLAINTEXT", "PLAIN", PLAIN), "kafka.sasl.jaas.config": config}
    assert client_settings(given) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "bob",
        "sasl_plain_password": 'a"b\\c',
    }
    assert client_settings({}) == {"security_protocol": "PLAINTEXT"}


def test_the_name_of_the_broker_is_checked_unless_spark_does_not() -> None:
    tls = {"kafka.security.protocol": "SSL"}
    context = client_settings(tls)["ssl_context"]
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    off = {**tls, "kafka.ssl.endpoint.identification.algorithm": ""}
    assert not client_settings(off)["ssl_context"].check_hostname
