"""The page about a directory of savepoints: its parts, hostile texts, how a browser shows it."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.cli.output.charts import ROW
from flinkish.cli.output.report_page import report_page
from flinkish.cli.output.report_style import STYLE
from flinkish.client.report import Report, Reported, SparkAnswer, growth_of
from flinkish.errors import Corrupt
from flinkish.messages.plan import SparkLimitation, SparkVersions
from flinkish.savepoint.directory.catalog import CatalogEntry, Unreadable
from flinkish.savepoint.format.contents import Header, OperatorRecord
from tests.support.savepoint.small_savepoints import header, operator, query

SECTIONS = ["summary", "trouble", "savepoints", "growth", "operators", "lineage", "verdicts"]
HOSTILE = (
    "</title></style><script>document.title='taken'</script><img src=x onerror=taken()>"
    "\"'><svg onload=taken()>&lt;\x1b[2J\u202e${x}{{y}}"
)


class Page(HTMLParser):
    """What a browser would find: elements with their attributes, and the text of each section."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.section = ""
        self.texts: dict[str, str] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], "an element is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "section":
            self.section = dict(attrs)["id"] or ""
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts[self.section] = f"{self.texts.get(self.section, '')}{data}\n"

    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]

    def sections(self) -> list[str | None]:
        return [attributes["id"] for tag, attributes in self.elements if tag == "section"]


def _answers(verdict: str, text: str = "why") -> tuple[SparkAnswer, ...]:
    limits = (SparkLimitation("x", text),)
    return tuple(
        SparkAnswer(SparkVersions("4.2.1", spark, verdict, limits), text, text)
        for spark in ("4.2", "4.3")
    )


def _reported(created: float, rows: int, text: str = "flights") -> Reported:
    path = f"/sp/savepoint-012345-{created:012.0f}"
    schema = {"type": "struct", "fields": [{"name": text, "type": "string"}]}
    counts = operator(0, text, rows)
    state = replace(counts.state, kind=text, stores=(StoreInfo(text, schema, schema),))
    saved = query("q", OperatorRecord(state, counts.facts))
    entry = CatalogEntry(path, header(created, name=text), (replace(saved, name=text),))
    return Reported(entry, None, None, False, _answers("ok"))


def _report(*savepoints: Reported, **more: Any) -> Report:
    fields: dict[str, Any] = {
        "location": "/sp",
        "created": 1e9,
        "savepoints": savepoints,
        "growth": growth_of([each.entry for each in savepoints]),
        "unreadable": (),
        "unfinished": 0,
        "omitted": 0,
        "warnings": (),
    }
    return Report(**{**fields, **more})


def _lived() -> Report:
    """Three savepoints of one run, one of them damaged."""
    third, second, first = (_reported(86_400.0 * day, 1000 * day) for day in (3, 2, 1))
    return _report(
        replace(third, parent=second.entry.path, parent_here=True, answers=_answers("fails")),
        replace(second, damage=Corrupt("its log is damaged"), answers=(), parent="s3://u:pw@b/x"),
        first,
        omitted=7,
        unreadable=(Unreadable("/sp/junk", Corrupt("/sp/junk is no savepoint")),),
    )


def _hostile() -> Report:
    one = _reported(86_400.0, 5, HOSTILE)
    entry = one.entry
    job = replace(entry.header.job, job_id=HOSTILE, spark_version=HOSTILE)
    entry = replace(entry, path=f"/sp/{HOSTILE}", header=Header(job, 1.0, HOSTILE, HOSTILE))
    bad = replace(one, damage=Corrupt(HOSTILE), parent=HOSTILE, answers=_answers(HOSTILE, HOSTILE))
    return _report(
        replace(bad, entry=entry),
        location=HOSTILE,
        warnings=(HOSTILE,),
        unreadable=(Unreadable(HOSTILE, Corrupt(HOSTILE)),),
    )


def test_the_page_has_its_sections_and_their_facts() -> None:
    page = Page(report_page(_lived()))
    assert page.sections() == SECTIONS
    facts = {
        "summary": ["10", "2", "1970-01-04 00:00:00"],
        "trouble": ["its log is damaged", "/sp/junk is no savepoint", "7 older savepoints"],
        "savepoints": ["savepoint-012345-000000259200", "complete", "damaged", "fails", "ok"],
        "growth": ["flights/flights", "1,000 → 3,000", "1970-01-02", "1970-01-04"],
        "operators": ["flights: (flights string) → (flights string)"],
        "lineage": [
            "after savepoint-012345-000000172800",
            "after s3://u:******@b/x, which is not in this report",
        ],
        "verdicts": ["Spark 4.3: ", "why"],
    }
    missing = {
        (name, text) for name, texts in facts.items() for text in texts
        if text not in page.texts[name]
    }  # fmt: skip
    assert missing == set()
    dots = [a for tag, a in page.elements if tag == "circle" and a.get("r") == "3"]
    assert len(dots) == 6, "three savepoints: sizes and rows"


def test_cells_have_the_labels_that_narrow_windows_show() -> None:
    page = Page(report_page(_lived()))
    titles = [tag for tag in page.tags() if tag == "th"]
    labels = {a["data-label"] for tag, a in page.elements if tag == "td"}
    assert len(titles) == len(labels) + 1, "two tables share the title Size"
    assert None not in labels


def test_the_policy_allows_the_style_of_the_page_and_nothing_else() -> None:
    text = report_page(_lived())
    page = Page(text)
    [policy] = [
        str(a["content"]) for _, a in page.elements
        if a.get("http-equiv") == "Content-Security-Policy"
    ]  # fmt: skip
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/]{43}='; base-uri 'none'; form-action 'none'",
        policy,
    )
    assert text.count("<style>") == 1
    assert "url(" not in STYLE
    assert "@import" not in STYLE
    assert not {"script", "link", "img", "iframe", "form", "a", "object"} & set(page.tags())
    loading = {"src", "href", "style", "xlink:href", "action"}
    assert [a for _, a in page.elements if loading & set(a)] == []


def test_hostile_texts_stay_texts() -> None:
    harmless = Page(report_page(_report(_lived().savepoints[1], unreadable=_lived().unreadable)))
    text = report_page(_hostile())
    page = Page(text)
    assert set(page.tags()) <= set(harmless.tags()) | {"ul"}
    assert [a for _, a in page.elements if any(name.startswith("on") for name in a)] == []
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "<script>document" in page.texts["savepoints"], "it is shown"


def test_the_page_stays_small_whatever_the_savepoints_say(monkeypatch: pytest.MonkeyPatch) -> None:
    long = _reported(1.0, 5, "x" * 1_000_000)
    [saved] = long.entry.queries
    [counts] = saved.operators
    many = replace(counts, state=replace(counts.state, stores=counts.state.stores * 1000))
    operators = tuple(
        replace(many, facts=replace(many.facts, identity=operator(0, f"u{number}").identity))
        for number in range(1000)
    )
    queries = (replace(saved, operators=operators), *(saved,) * 500)
    page = report_page(_report(replace(long, entry=replace(long.entry, queries=queries))))
    assert len(page) < 8 << 20
    assert "The 40 largest of 1001 operators." in page
    assert "801 smaller operators are not shown." in page
    assert "and 992 more" in page


def test_a_directory_without_savepoints_or_state() -> None:
    assert Page(report_page(_report())).sections() == ["summary"]
    stateless = _reported(1.0, 1)
    queries = tuple(replace(each, operators=()) for each in stateless.entry.queries)
    report = _report(replace(stateless, entry=replace(stateless.entry, queries=queries)))
    assert "No savepoint has a stateful operator." in Page(report_page(report)).texts["growth"]


def test_the_rows_of_the_lineage_are_as_high_as_their_drawing() -> None:
    assert f".tree li {{ height: {ROW}px" in STYLE


#: Shows the page in a frame, and replaces itself by what it finds there.
MEASURE = """<body><iframe width=%d height=900 src=page.html></iframe><script>
onload = () => {
  const page = document.querySelector("iframe").contentDocument, root = page.documentElement;
  const boxes = [...page.querySelectorAll("h1, .card, td, svg.chart, .tree, .wide")];
  const found = {
    scroll: root.scrollWidth, sections: [...page.querySelectorAll("section")].map(s => s.id),
    outside: boxes.filter(b => b.getBoundingClientRect().right > root.clientWidth + 1).length,
    unseen: boxes.filter(b => b.getBoundingClientRect().height < 1).length,
    margin: page.defaultView.getComputedStyle(page.body).margin, title: page.title,
    heads: page.querySelector("thead") && page.querySelector("thead").offsetHeight,
  };
  document.body.textContent = "FOUND" + JSON.stringify(found) + "END";
};
</script></body>"""


@contextmanager
def _served(directory: Path) -> Iterator[str]:
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.deep
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("report", [_lived(), _hostile()], ids=["lived", "hostile"])
def test_in_a_browser(report: Report, width: int, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("needs chromium")
    (tmp_path / "page.html").write_text(report_page(report), "utf-8")
    (tmp_path / "index.html").write_text(MEASURE % width)
    with _served(tmp_path) as address:
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        out = subprocess.run(
            [*command, profile, "--window-size=1600,1000", f"{address}/index.html"],
            capture_output=True,
            text=True,
            timeout=200,
            check=True,
        ).stdout
    match = re.search("FOUND(.*)END", out)
    assert match is not None, out
    found = json.loads(match[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert found["sections"] == SECTIONS
    assert found["scroll"] <= width, "nothing needs to be scrolled sideways"
    assert (found["outside"], found["unseen"]) == (0, 0)
    assert found["margin"] == "0px", "the policy lets the style in"
    assert found["title"].startswith("Savepoints in ")
    assert (found["heads"] > 0) == (width == 1400), "a narrow window has labels instead"
