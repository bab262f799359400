"""What is secret, by its name or its form, and how it is shown: masked.

Names are those that Spark and Flink take for secret, and some more. Imported by every command,
hence light.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "******"

#: The default of ``spark.redaction.regex`` of Spark 4.3 (3.5 has the same without credential).
SPARK_REDACTION = re.compile(r"(?i)secret|password|token|access[.]?key|credential")
#: What else names of secrets are made of (the first line: ``GlobalConfiguration.SENSITIVE_KEYS`` of
#: Flink).
_PARTS = (
    r"api[-_.]?key|auth-params|service[-_.]?key|basic-auth|jaas\.config|http-headers"
    r"|secret|password|passwd|pwd|passphrase|token|credential"
    r"|(?:access|account|private|encryption|signing)[-_.]?key"
)
_SECRET = re.compile(rf"(?i){_PARTS}")
_URL_PASSWORD = re.compile(r"(://[^\s:/@]*):[^\s]*@")
#: libpq takes blanks as they are, so a password may have some.
_POSTGRES_PASSWORD = re.compile(r"(postgres(?:ql)?://[^:/@\n]*):(?:(?!://)[^\n])*@")
_POSTGRES_PARAMETER = re.compile(r"(?i)(postgres(?:ql)?://\S*[?&][\w.-]*password=)[^&\n]*")
_ASSIGNMENT = re.compile(
    rf"(?i)\b([\w.-]*(?:{_PARTS})[\w.-]*\s*=\s*)"
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s&;,]+)"""
)


def is_secret(key: str) -> bool:
    """True when the name of a key says that its value must not be shown."""
    return _SECRET.search(key) is not None


def mask_secrets(text: str) -> str:
    """``text`` with the passwords of URLs, query strings and connection strings replaced.

    When in doubt it hides too much: everything from the first colon after a URL's user name to
    the last ``@`` before the next blank goes; of a PostgreSQL URL, to the last ``@`` of the line.
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
    """The words of a command line as they may be shown.

    Hidden is what stands behind an option with a secret name (``--password X``,
    ``--password=X``), and what :func:`mask_secrets` hides.

    Parameters
    ----------
    also: a pattern of other secret names.
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
    """The passwords of a database's URL, as they are written in it."""
    match = re.search(r"://[^:/@\n]*:(.*)@", url, re.DOTALL)
    found = [match.group(1)] if match else []
    return [p for p in [*found, *re.findall(r"(?i)[?&][\w.-]*password=([^&]*)", url)] if p]
