"""How a Kafka source logs in, from Spark's options (``kafka.*``) to those of kafka-python.

Understood are TLS with certificates in PEM, or with those of this machine, and SASL with a name and
a password (PLAIN, SCRAM) in ``kafka.sasl.jaas.config``. Kerberos, OAuth, delegation tokens and Java
key stores are not: a client in Python has no use for them. Whoever asks is told what it is.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any

PLAINTEXT = "PLAINTEXT"
_PROTOCOLS = frozenset({PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
#: The mechanisms of a name and a password, with the Java class that has them.
_MECHANISMS = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
}
_ENTRY = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")


class CannotLogIn(Exception):
    """A broker cannot be asked in the way that the source reads it; the message says why."""


def client_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a client of kafka-python that logs in as a source does.

    Parameters
    ----------
    options
        Those of the source, by their names in lower case.

    Raises
    ------
    CannotLogIn
        A client in Python cannot.
    """
    protocol = options.get("kafka.security.protocol", PLAINTEXT).strip().upper()
    if protocol not in _PROTOCOLS:
        raise CannotLogIn(f"it uses {protocol}, which is not supported")
    found: dict[str, Any] = {"security_protocol": protocol}
    if protocol.startswith("SASL"):
        found.update(_sasl(options))
    if protocol.endswith("SSL"):
        found["ssl_context"] = _tls(options)
    return found


def _sasl(options: Mapping[str, str]) -> dict[str, str]:
    mechanism = options.get("kafka.sasl.mechanism", "GSSAPI").strip().upper()
    module = _MECHANISMS.get(mechanism)
    if module is None:
        raise CannotLogIn(
            f"it logs in by {mechanism}, but only {', '.join(_MECHANISMS)} are supported"
        )
    config = options.get("kafka.sasl.jaas.config", "")
    given = {
        m[1]: next(x for x in m.groups()[1:] if x is not None) for m in _ENTRY.finditer(config)
    }
    if module not in config or not {"username", "password"} <= given.keys():
        raise CannotLogIn(
            f"it logs in by {mechanism}, but its option kafka.sasl.jaas.config has no "
            f"username and password for {module}"
        )
    plain = {key: re.sub(r"\\(.)", r"\1", value) for key, value in given.items()}
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": plain["username"],
        "sasl_plain_password": plain["password"],
    }


def _tls(options: Mapping[str, str]) -> ssl.SSLContext:
    inline = options.get("kafka.ssl.truststore.certificates")
    trusted = _pem(options, "truststore")
    own = _pem(options, "keystore")
    try:
        context = ssl.create_default_context(cafile=trusted, cadata=inline)
        if own is not None:
            context.load_cert_chain(own, password=options.get("kafka.ssl.key.password") or "")
    except (OSError, ValueError) as error:
        raise CannotLogIn(f"cannot read its certificates: {error}") from error
    if not options.get("kafka.ssl.endpoint.identification.algorithm", "https").strip():
        context.check_hostname = False
    return context


def _pem(options: Mapping[str, str], store: str) -> str | None:
    """Return the file of a store of certificates, None without one."""
    path = options.get(f"kafka.ssl.{store}.location")
    kind = options.get(f"kafka.ssl.{store}.type", "JKS").strip().upper()
    if path is not None and kind != "PEM":
        raise CannotLogIn(f"its {store} is of type {kind}, but only PEM is supported")
    return path
