"""Secrets: how they are recognised by name or form, and how they are masked.

The names are those that Spark and Flink treat as secret, and some more. Every command imports this
module, so it must be light.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "******"

#: The default of ``spark.redaction.regex`` of Spark 4.3 (3.5 has the same without credential).
SPARK_REDACTION = re.compile(r"(?i)secret|password|token|access[.]?key|credential")
#: Other parts of secret names (the first line: ``GlobalConfiguration.SENSITIVE_KEYS`` of Flink).
_PARTS = (
    r"api[-_.]?key|auth-params|service[-_.]?key|basic-auth|jaas\.config|http-headers"
    r"|secret|password|passwd|pwd|passphrase|token|credential"
    r"|(?:access|account|private|encryption|signing)[-_.]?key"
)
_SECRET = re.compile(rf"(?i){_PARTS}")
_URL_PASSWORD = re.compile(r"(://[^\s:/@]*):[^\s]*@")
#: libpq accepts blanks as they are, so a password may contain some.
_POSTGRES_PASSWORD = re.compile(r"(postgres(?:ql)?://[^:/@\n]*):(?:(?!://)[^\n])*@")
_POSTGRES_PARAMETER = re.compile(r"(?i)(postgres(?:ql)?://\S*[?&][\w.-]*password=)[^&\n]*")
_ASSIGNMENT = re.compile(
    rf"(?i)\b([\w.-]*(?:{_PARTS})[\w.-]*\s*=\s*)"
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s&;,]+)"""
)


def is_secret(key: str) -> bool:
    """Return whether the name of a key says that its value must not be shown."""
    return _SECRET.search(key) is not None


def mask_secrets(text: str) -> str:
    """Return ``text`` with the passwords in URLs, query strings and connection strings masked.

    In doubt it hides too much: everything from the first colon after a URL's user name to the last
    ``@`` before the next blank; in a PostgreSQL URL, to the last ``@`` of the line.
    """
    if "://" in text:
        if "postgres" in text:
            text = _POSTGRES_PASSWORD.sub(rf"\1:{MASK}@", text)
            text = _POSTGRES_PARAMETER.sub(rf"\g<1>{MASK}", text)
        text = _URL_PASSWORD.sub(rf"\1:{MASK}@", text)
    if "=" in text:
        text = _ASSIGNMENT.sub(rf"\g<1>{MASK}", text)
    return text


def mask_words(words: Sequence[str], also: re.Pattern[str] | None = None) -> tuple[str, ...]:
    """Return the words of a command line, masked for display.

    The value of an option with a secret name (``--password X``, ``--password=X``) is masked, and
    whatever :func:`mask_secrets` masks.

    Parameters
    ----------
    words
        The command line.
    also
        A pattern of additional secret names.
    """

    def secret(name: str) -> bool:
        return is_secret(name) or (also is not None and also.search(name) is not None)

    shown, expected = [], False
    for word in words:
        name, equals, _ = word.partition("=")
        if expected and not word.startswith("--"):
            shown.append(MASK)
            expected = False
        elif equals and re.fullmatch(r"-{0,2}[\w.-]+", name) and secret(name):
            shown.append(f"{name}={MASK}")
            expected = False
        else:
            shown.append(mask_secrets(word))
            expected = word.startswith("-") and not equals and secret(word)
    return tuple(shown)


def passwords_of(url: str) -> list[str]:
    """Return the passwords in a database URL, as they are written in it."""
    match = re.search(r"://[^:/@\n]*:(.*)@", url, re.DOTALL)
    found = [match.group(1)] if match else []
    return [p for p in [*found, *re.findall(r"(?i)[?&][\w.-]*password=([^&]*)", url)] if p]
