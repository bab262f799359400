"""The report on a directory of savepoints as one page of HTML, which loads nothing. Pure.

All that the page shows is escaped (:mod:`flinkish.cli.output.markup`). Its content security policy
allows only its own style: no script, no request to any address, no form.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence

from flinkish import __version__
from flinkish.cli.output.charts import line_chart, lineage_svg
from flinkish.cli.output.markup import Content, Markup, element, joined
from flinkish.cli.output.report_style import STYLE
from flinkish.cli.output.text import columns_text, utc_time
from flinkish.client.catalog import state_of
from flinkish.client.report import Growth, Point, Report, Reported, SparkAnswer
from flinkish.compat.model import CompatVerdict
from flinkish.storage import base_name
from flinkish.units import counted, first_of, size_text

#: Maximum numbers of charts, of operators, of queries per savepoint and of stores per operator:
#: savepoints may have any number of them.
_CHARTS, _OPERATORS, _QUERIES, _STORES = 40, 200, 5, 8

_CLASSES = {
    CompatVerdict.OK.value: "good",
    CompatVerdict.OK_WITH_LIMITATIONS.value: "fair",
    CompatVerdict.NEEDS_MIGRATION.value: "fair",
    CompatVerdict.FAILS.value: "bad",
}
#: A column: its title, and its class.
_Head = tuple[str, str | None]
_PLAIN, _SHORT, _NUMBER, _WORD = None, "short", "number", "word"


def report_page(report: Report) -> str:
    """Return the report as one page of HTML."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = f"Savepoints in {report.location}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        Markup(f"<style>{STYLE}</style>"),
    )
    body = element(
        "body",
        element(
            "header",
            element("h1", "Savepoints"),
            element("p", report.location, class_="path"),
        ),
        element("main", *_sections(report)),
        element(
            "footer",
            f"Written by flinkish {__version__} at {utc_time(report.created)} UTC. All times are "
            "in UTC; those of savepoints come from their metadata.",
        ),
    )
    page = element("html", head, body, lang="en")
    return f"<!DOCTYPE html>\n{page.text}\n"


def _sections(report: Report) -> Iterable[Content]:
    yield _summary(report)
    yield from _trouble(report)
    if not report.savepoints:
        return
    yield _section("savepoints", "Savepoints", _savepoints(report))
    yield _section("growth", "Growth", *_growth(report.growth))
    yield _section("operators", "Operators and schemas", *_operators(report.growth))
    yield _section("lineage", "Lineage", _lineage(report.savepoints))
    yield _section("verdicts", "Resuming the newest intact savepoint", *_answers(report.savepoints))


def _section(name: str, title: str, *content: Content) -> Markup:
    return element("section", element("h2", title), *content, id=name)


def _summary(report: Report) -> Markup:
    newest = report.savepoints[0] if report.savepoints else None
    damaged = sum(each.damage is not None for each in report.savepoints)
    facts = [
        ("savepoints", str(len(report.savepoints) + report.omitted)),
        ("damaged or unreadable", str(damaged + len(report.unreadable))),
        ("newest", "-" if newest is None else utc_time(newest.entry.header.created)),
        ("size of the newest", "-" if newest is None else size_text(newest.entry.bytes)),
    ]
    cards = (element("div", element("b", value), name, class_="card") for name, value in facts)
    return element("section", element("div", *cards, class_="cards"), id="summary")


def _trouble(report: Report) -> Iterable[Content]:
    """Yield the list of problems and omissions, if there are any."""
    bad = [(e.entry.path, e.damage.message) for e in report.savepoints if e.damage is not None]
    bad += [(each.path, each.error.message) for each in report.unreadable]
    items = [
        element("li", None if path in why else joined(_path(path), ": "), why) for path, why in bad
    ]
    items += [element("li", text) for text in report.warnings]
    if report.unfinished:
        items.append(element("li", f"Directories without metadata: {report.unfinished}"))
    if report.omitted:
        items.append(element("li", f"{counted(report.omitted, 'older savepoint')} not shown"))
    if items:
        yield _section(
            "trouble", "To look at", element("div", element("ul", *items), class_="wide")
        )


def _path(text: str) -> Markup:
    return element("span", text, class_="path")


def _table(head: Sequence[_Head], rows: Iterable[Sequence[Content]]) -> Markup:
    titles = (element("th", name, class_=kind) for name, kind in head)
    drawn = (
        element(
            "tr",
            *(
                element(
                    "td",
                    # The contents are one element, because a narrow window shows a label beside it.
                    element("div", cell),
                    class_=kind,
                    data_label=name,
                )
                for (name, kind), cell in zip(head, row, strict=True)
            ),
        )
        for row in rows
    )
    return element("table", element("thead", element("tr", *titles)), element("tbody", *drawn))


def _savepoints(report: Report) -> Markup:
    sparks = [each.versions.running or "" for each in _first_answers(report.savepoints)]
    head = [
        *(("Taken", _PLAIN), ("Job", _PLAIN), ("By", _SHORT), ("Spark", _SHORT)),
        *(("Queries", _PLAIN), ("Size", _NUMBER), ("State", _SHORT), ("Savepoint", _PLAIN)),
        *((f"On Spark {spark}", _SHORT) for spark in sparks),
    ]
    largest = max((each.entry.bytes for each in report.savepoints), default=0)
    return _table(head, (_savepoint(each, largest, len(sparks)) for each in report.savepoints))


def _savepoint(reported: Reported, largest: int, sparks: int) -> Sequence[Content]:
    entry = reported.entry
    job = entry.header.job
    queries = [f"{query.name} at {query.batch_id}" for query in entry.queries]
    state = state_of(reported.damage)
    canonical = "" if entry.header.format == "native" else f", {entry.header.format}"
    answers: list[Content] = [_verdict(each.versions.verdict) for each in reported.answers]
    return (
        utc_time(entry.header.created),
        joined(job.name, element("div", job.job_id[:6], class_="soft path")),
        entry.header.trigger,
        job.spark_version or "-",
        first_of(queries, limit=_QUERIES),
        joined(size_text(entry.bytes), _bar(entry.bytes, largest)),
        element("span", f"{state}{canonical}", class_=_state_class(reported)),
        _path(base_name(entry.path)),
        *(answers or ["-"] * sparks),
    )


def _state_class(reported: Reported) -> str:
    return f"verdict {'good' if reported.damage is None else 'bad'}"


def _verdict(verdict: str) -> Markup:
    return element("span", verdict, class_=f"verdict {_CLASSES.get(verdict, 'none')}")


def _bar(size: int, largest: int) -> Markup:
    share = 100 * size / largest if largest else 0
    track = element("rect", class_="track", width=100, height=6)
    bar = element("rect", class_="bar", width=share, height=6)
    return element(
        "svg",
        track,
        bar,
        class_="size",
        viewBox="0 0 100 6",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def _growth(growth: Sequence[Growth]) -> Iterable[Content]:
    if not growth:
        yield element("p", "No savepoint has a stateful operator.", class_="soft")
        return
    yield element("div", *(_charts(each) for each in growth[:_CHARTS]), class_="charts")
    if len(growth) > _CHARTS:
        yield element("p", f"The {_CHARTS} largest of {len(growth)} operators.", class_="soft")


def _charts(growth: Growth) -> Markup:
    points = growth.points
    times = [_time(point) for point in points]
    sizes = [(p.created, float(p.bytes)) for p in points]
    rows = [(p.created, None if p.rows is None else float(p.rows)) for p in points]
    size_labels = [f"{when}: {size_text(p.bytes)}" for when, p in zip(times, points, strict=True)]
    row_labels = [f"{when}: {_count(p.rows)} rows" for when, p in zip(times, points, strict=True)]
    first, last = points[0], points[-1]
    return element(
        "div",
        element("h3", growth.address),
        element(
            "p", f"{growth.operator.state.kind or 'operator'} of {growth.job_name}", class_="soft"
        ),
        _change("Size", size_text(first.bytes), size_text(last.bytes), len(points)),
        line_chart(sizes, size_labels, f"Size of {growth.address}"),
        _change("Rows", _count(first.rows), _count(last.rows), len(points)),
        line_chart(rows, row_labels, f"Rows of {growth.address}"),
        element("div", *(element("span", when[:10]) for when in _ends(times)), class_="span"),
        class_="card",
    )


def _change(name: str, first: str, last: str, number: int) -> Markup:
    text = last if number == 1 or first == last else f"{first} → {last}"
    return element("div", element("span", name), element("span", text), class_="span")


def _ends(times: Sequence[str]) -> Sequence[str]:
    return times if len(times) == 1 else (times[0], times[-1])


def _time(point: Point) -> str:
    return utc_time(point.created)


def _count(rows: int | None) -> str:
    return "-" if rows is None else f"{rows:,}"


def _operators(growth: Sequence[Growth]) -> Iterable[Content]:
    """Yield the table of operators, each as described by the newest savepoint that has it."""
    head = [
        *(("Operator", _PLAIN), ("Kind", _WORD), ("Operator id", _PLAIN)),
        *(("Partitions", _NUMBER), ("Rows", _NUMBER), ("Size", _NUMBER), ("Backend", _SHORT)),
        ("Stores", _WORD),
    ]
    if growth:
        yield _table(head, (_operator(each) for each in growth[:_OPERATORS]))
    if len(growth) > _OPERATORS:
        more = len(growth) - _OPERATORS
        yield element("p", f"{more} smaller operators are not shown.", class_="soft")


def _operator(growth: Growth) -> Sequence[Content]:
    operator, state = growth.operator, growth.operator.state
    stores = [
        element(
            "li",
            f"{store.name}: ({columns_text(store.key_schema)}) → "
            f"({columns_text(store.value_schema)})",
        )
        for store in state.stores[:_STORES]
    ]
    more = len(state.stores) - len(stores)
    if more > 0:
        stores.append(element("li", f"and {more} more"))
    schemas = element(
        "details",
        element("summary", counted(len(state.stores), "schema")),
        element("ul", *stores, class_="path"),
    )
    return (
        growth.address,
        state.kind or "-",
        _path(operator.operator_id or "-"),
        str(state.partitions),
        _count(operator.facts.rows),
        size_text(state.bytes),
        growth.query.backend or "-",
        schemas if state.stores else "-",
    )


def _lineage(savepoints: Sequence[Reported]) -> Markup:
    index = {each.entry.path: row for row, each in enumerate(savepoints)}
    parents = [index.get(each.parent or "") if each.parent_here else None for each in savepoints]
    has_origin = [each.parent is not None for each in savepoints]
    rows = (
        element(
            "li",
            element("span", f"{utc_time(each.entry.header.created)}  {base_name(each.entry.path)}"),
            element("span", _parent_text(each), class_="soft"),
        )
        for each in savepoints
    )
    return element(
        "div",
        lineage_svg(parents, has_origin),
        element("ol", *rows),
        class_="wide tree",
    )


def _parent_text(reported: Reported) -> str:
    job = reported.entry.header.job
    run = f"{job.name} {job.job_id[:6]}"
    if reported.parent is None:
        return f"{run}, started without a savepoint"
    if reported.parent_here:
        return f"{run}, after {base_name(reported.parent)}"
    return f"{run}, after {reported.parent}, which is not in this report"


def _first_answers(savepoints: Sequence[Reported]) -> Sequence[SparkAnswer]:
    return next((each.answers for each in savepoints if each.answers), ())


def _answers(savepoints: Sequence[Reported]) -> Iterable[Content]:
    newest = next((each for each in savepoints if each.answers), None)
    if newest is None:
        yield element("p", "No savepoint is whole.", class_="soft")
        return
    yield element("p", base_name(newest.entry.path), class_="path")
    for answer in newest.answers:
        limits = (element("li", each.text) for each in answer.versions.limitations)
        yield element(
            "div",
            element("h3", f"Spark {answer.versions.running}: ", _verdict(answer.versions.verdict)),
            element("p", answer.text),
            element("ul", *limits) if answer.versions.limitations else None,
            element("p", answer.hint, class_="soft") if answer.hint else None,
            class_="wide",
        )
