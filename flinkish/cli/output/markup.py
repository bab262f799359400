"""Elements of HTML and SVG in which every text is escaped. Pure.

What a page shows comes from elsewhere: names, paths, schemas, messages. Only :func:`element`
builds elements, and it treats any ``str`` as text, never as markup.
"""

from __future__ import annotations

from html import escape

from flinkish.config import mask_secrets
from flinkish.units import visible

#: Elements without an end tag.
_VOID = frozenset({"meta", "br"})
#: Maximum length of a text in characters: a savepoint's metadata may have any length.
_MOST = 1000


class Markup:
    """Finished markup."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


#: What an element may contain; None is left out.
Content = Markup | str | None


def element(name: str, /, *content: Content, **attributes: Content | float) -> Markup:
    """Return an element, without attributes that are None; Markup values are not escaped again.

    In attribute names ``_`` stands for ``-``; a final ``_`` only avoids a keyword (``class_``).
    """
    names = (
        f' {key.rstrip("_").replace("_", "-")}="{_number(value)}"'
        if isinstance(value, (int, float))
        else f' {key.rstrip("_").replace("_", "-")}="{joined(value).text}"'
        for key, value in attributes.items()
        if value is not None
    )
    start = f"<{name}{''.join(names)}>"
    return Markup(start if name in _VOID else f"{start}{joined(*content).text}</{name}>")


def joined(*content: Content) -> Markup:
    """Return several pieces as one."""
    return Markup(
        "".join(
            each.text if isinstance(each, Markup) else safe(each)
            for each in content
            if each is not None
        )
    )


def safe(text: str) -> str:
    """Return a text as it stands in markup: one line, shortened, masked, escaped."""
    # A secret is masked only if it is whole, so the cut is far beyond the part that is shown.
    line = visible(mask_secrets(text[: 16 * _MOST]))
    return escape(line if len(line) <= _MOST else f"{line[:_MOST]}…")


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
