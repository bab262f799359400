"""Secrets: how they are recognised by name or form, and how they are masked.

The names are those that Spark and Flink treat as secret, and some more. A secret word in a value
does not make the value secret: ``spark.jars`` may name ``spark-token-provider-kafka``. Masking too
much has a cost: the registry does not store the value, and whoever restarts the job must give the
value again.
Every command imports this module, so it must be light.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "******"

#: Parts of secret names: those of ``GlobalConfiguration.SENSITIVE_KEYS`` of Flink, then those of
#: the default of ``spark.redaction.regex`` of Spark 4.3, and some more.
_PARTS = (
    r"api[-_.]?key|auth-params|service[-_.]?key|basic-auth|jaas\.config|http-headers"
    r"|secret|password|passwd|pwd|passphrase|token(?!i[sz])|credential"
    r"|(?:access|account|private|encryption|signing)[-_.]?key"
)
_SECRET = re.compile(rf"(?i){_PARTS}")
_URL_PASSWORD = re.compile(r"(://[^\s:/@]*):[^\s]*@")
#: A token in place of the user of an HTTP URL, with 16 characters at least. Shorter text, and the
#: user in URLs of other schemes, counts as a user name.
_URL_TOKEN = re.compile(r"(?i)(\bhttps?://)[^\s:/@]{16,}@")
#: The signature in a URL of Azure, Google or Amazon.
_URL_SIGNATURE = re.compile(r"(?i)([?&](?:x-(?:amz|goog)-)?sig(?:nature)?=)[^&\s]+")
_BEARER = re.compile(r"(?i)(\bbearer\s+)[\w.~+/-]{16,}=*")
_BASIC = re.compile(r"(?i)(\bbasic\s+)([\w+/-]{4,}=*)")
#: The user and password that a shell line gives curl.
_CURL_USER = re.compile(
    r"""(\bcurl\s(?:[^\n]{0,300}?\s)?(?:-u\s*|--user[\s=]+))"""
    r"""(?:'[^'\n]*'|"[^"\n]*"|[^\s:'"]+:\S+)"""
)
#: libpq accepts blanks as they are, so a password may contain some.
_POSTGRES_PASSWORD = re.compile(r"(postgres(?:ql)?://[^:/@\n]*):(?:(?!://)[^\n])*@")
_POSTGRES_PARAMETER = re.compile(r"(?i)(postgres(?:ql)?://\S*[?&][\w.-]*password=)[^&\n]*")
#: A value ends at a blank, or at a separator before the next name or blank. JDBC URLs of SQL Server
#: have a value with separators in braces.
_ASSIGNMENT = re.compile(
    rf"(?i)\b(?P<before>(?P<key>[\w.-]*(?:{_PARTS})[\w.-]*)\s*=\s*)"
    r"""(?P<value>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\{(?:[^}\n]|\}\})*\}"""
    r"""|(?:[^\s&;,]|[&;,](?![\w.-]+\s*=|\s|$))+)"""
)
#: Oracle's ``jdbc:oracle:thin:USER/PASSWORD@HOST``.
_ORACLE_PASSWORD = re.compile(r"(?i)(jdbc:oracle:\w+:[^\s/@]*)/\S+@")
#: A word of a command line that is an option rather than the value of the option before.
_OPTION = re.compile(r"--[a-z][A-Za-z_.-]*(=|$)")
#: A field of a JSON document.
_FIELD = re.compile(
    rf"""(?i)(?P<before>"(?P<key>[\w.-]*(?:{_PARTS})[\w.-]*)"\s*:\s*)"""
    r"""(?P<value>"(?:[^"\\]|\\.)*"|[^\s"{\[,}][^\s,}]*)"""
)
#: An item of a dictionary as ``str`` writes it. Only a quoted value counts, because text after a
#: colon that is not quoted may be prose.
_ITEM = re.compile(
    rf"""(?i)(?P<before>'(?P<key>[\w.-]*(?:{_PARTS})[\w.-]*)'\s*:\s*)"""
    r"""(?P<value>b?'(?:[^'\\]|\\.)*'|b?"(?:[^"\\]|\\.)*")"""
)
#: Names in which the secret word says what the value is about, not that the value is secret.
_SWITCHES = re.compile(
    r"spark\.security\.credentials\."  # which tokens Spark gets, and when
    r"|spark\.kubernetes\.(driver|executor)\.(secrets|secretKeyRef)\."  # mounts, names
)
_NAMES_CLASS = re.compile(r"(?i)(provider|class|type|mechanism|factory|handler)(s|es|\.?name)?$")
_NAMES_PLACE = re.compile(r"(?i)(file|path|location|dir|directory)s?$")
_CLASSES = re.compile(r"[A-Za-z_][\w$]*(\.[A-Za-z_][\w$]*)+")
_PLACE = re.compile(r"(file:|[\w.~-]*/|[a-z][\w.+-]*://)[\w.~/:=@%+ -]*")
_NAMES_NUMBER = re.compile(
    r"(?i)(^|[-_.])(max|min|num)[-_.]"
    r"|(tokens|count|size|length|limit|ttl|timeout|interval|ratio|lifetime)$"
)
_NUMBER = re.compile(r"\d{1,7}(\.\d+)? ?(ms|s|m|min|h|d)?")
#: A Maven coordinate.
_COORDINATES = re.compile(r"[\w.-]+(:[\w.-]+){2,4}")


def is_secret(key: str) -> bool:
    """Return whether the name of a key says that its value must not be shown."""
    return _SECRET.search(key) is not None


def holds_secret(key: str, value: str) -> bool:
    """Return whether a key's name makes its value secret, or the value contains a secret."""
    if is_secret(key) and not _is_about_secrets(key, value):
        return True
    return mask_secrets(value) != value


def is_reference(value: str) -> bool:
    """Return whether a value is a list of paths, URLs, coordinates or classes, and nothing else."""
    forms = (_PLACE, _COORDINATES, _CLASSES)
    parts = [part.strip() for part in value.split(",")]
    return all(any(form.fullmatch(part) for form in forms) for part in parts)


def _is_about_secrets(key: str, value: str) -> bool:
    """Return whether a key with a secret name has a harmless value, such as a switch.

    In doubt the value counts as secret: a password may have any form, so a harmless value must have
    the form that its name implies.
    """
    if value.lower() in ("", "true", "false") or _SWITCHES.search(key):
        return True
    parts = [part.strip() for part in value.split(",")]
    if _NAMES_CLASS.search(key):
        plain = re.compile(r"[A-Z][A-Za-z0-9]*(-[A-Z0-9]+)*")  # SCRAM-SHA-512, OAuth
        return all(_CLASSES.fullmatch(part) or plain.fullmatch(part) for part in parts)
    if _NAMES_PLACE.search(key):
        return all(_PLACE.fullmatch(part) for part in parts)
    return bool(_NAMES_NUMBER.search(key)) and _NUMBER.fullmatch(value) is not None


def _masked(match: re.Match[str]) -> str:
    if _is_about_secrets(match["key"], match["value"].strip("\"'")):
        return match[0]
    return match["before"] + MASK


def _masked_basic(match: re.Match[str]) -> str:
    """Mask HTTP's Basic credentials, which are ``USER:PASSWORD`` in base64, but no other word."""
    from binascii import a2b_base64

    word = match[2].rstrip("=")
    try:
        text = a2b_base64(word + "=" * (-len(word) % 4)).decode()
    except ValueError:
        return match[0]
    # Four letters of an ordinary word decode to three arbitrary bytes, which seldom pass this test.
    return match[1] + MASK if ":" in text and text.isprintable() else match[0]


def mask_secrets(text: str) -> str:
    """Return ``text`` with its secrets masked: passwords, tokens, signatures and credentials.

    They are found in URLs, connection strings, JSON, dicts, curl commands and HTTP's authorization.
    In doubt too much is hidden: everything from the first colon after a URL's user name to the last
    ``@`` before the next blank; in a PostgreSQL URL, to the last ``@`` of the line.
    """
    if "://" in text:
        if "postgres" in text:
            text = _POSTGRES_PASSWORD.sub(rf"\1:{MASK}@", text)
            text = _POSTGRES_PARAMETER.sub(rf"\g<1>{MASK}", text)
        text = _URL_PASSWORD.sub(rf"\1:{MASK}@", text)
        text = _URL_TOKEN.sub(rf"\1{MASK}@", text)
    if "oracle:" in text.lower():
        text = _ORACLE_PASSWORD.sub(rf"\1/{MASK}@", text)
    if "=" in text:
        text = _URL_SIGNATURE.sub(rf"\g<1>{MASK}", text)
        text = _ASSIGNMENT.sub(_masked, text)
    if '"' in text:
        text = _FIELD.sub(_masked, text)
    if "'" in text:
        text = _ITEM.sub(_masked, text)
    if "curl" in text:
        text = _CURL_USER.sub(rf"\g<1>{MASK}", text)
    lowered = text.lower()
    if "basic" in lowered:
        text = _BASIC.sub(_masked_basic, text)
    return _BEARER.sub(rf"\g<1>{MASK}", text) if "earer" in lowered else text


def mask_words(words: Sequence[str], also: re.Pattern[str] | None = None) -> tuple[str, ...]:
    """Return the words of a command line, masked for display.

    The value of an option with a secret name (``--password X``, ``--password=X``) is masked, and so
    is everything that :func:`mask_secrets` masks. ``also`` is a pattern of additional secret names.
    """

    def secret(name: str, value: str) -> bool:
        own = also is not None and also.search(name) is not None
        return own or (is_secret(name) and not _is_about_secrets(name, value))

    masked, option = [], ""
    for word in words:
        name, equals, value = word.partition("=")
        if option and not _OPTION.match(word) and secret(option, word):
            masked.append(MASK)
            option = ""
        elif equals and re.fullmatch(r"-{0,2}[\w.-]+", name) and secret(name, value):
            masked.append(f"{name}={MASK}")
            option = ""
        else:
            masked.append(mask_secrets(word))
            option = word if word.startswith("-") and not equals else ""
    return tuple(masked)


def passwords_of(url: str) -> list[str]:
    """Return the passwords in a database URL, as they are written in it."""
    match = re.search(r"://[^:/@\n]*:(.*)@", url, re.DOTALL)
    of_user = [match.group(1)] if match else []
    return [p for p in [*of_user, *re.findall(r"(?i)[?&][\w.-]*password=([^&]*)", url)] if p]
