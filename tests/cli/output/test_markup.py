"""Elements of HTML and SVG: nothing but their own markup is markup."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from flinkish.cli.output.markup import element, joined, safe

HOSTILE = "</p><script>alert(1)</script>\"' onload=x \x00\x1b[31m\u202e&amp;"


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, str | None] = {}
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def _read(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader


def test_a_text_stays_text_in_content_and_in_attributes() -> None:
    shown = HOSTILE.replace("\x00\x1b[31m\u202e", "\\x00\\x1b[31m\\u202e")
    read = _read(element("p", HOSTILE, title=HOSTILE).text)
    assert read.tags == ["p"]
    assert read.attributes == {"title": shown}
    assert read.text == shown


def test_elements_nest_and_none_is_left_out() -> None:
    drawn = element("p", "a", None, element("br"), class_="x", id=None, stroke_width=1.50)
    assert drawn.text == '<p class="x" stroke-width="1.5">a<br></p>'
    assert joined("<", drawn).text == f"&lt;{drawn.text}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://user:secret@bucket/x", "s3://user:******@bucket/x"),
        ("x" * 5000, "x" * 1000 + "…"),
        ("\ud800", "\\ud800"),
    ],
)
def test_a_text_is_masked_short_and_encodable(text: str, shown: str) -> None:
    assert safe(text) == shown
