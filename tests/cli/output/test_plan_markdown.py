"""A plan for reviewers, as the readers of Markdown and of GitHub's commands understand it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from flinkish.cli.output.plan_markdown import (
    ANNOTATIONS,
    PAGE,
    failure_annotation,
    failure_markdown,
    github_log,
    in_repository,
    markdown,
)
from flinkish.errors import SavepointNotFound
from flinkish.messages.plan import (
    Check,
    OperatorRow,
    PinRow,
    RestoreOutcome,
    RestorePlan,
    SourceRow,
    SparkVersions,
)
from tests.restore.plan.test_restore_planner import planner_of
from tests.support.restore.query_builders import AGG, new, old, saved_query, starting

#: What others could name an operator to get markup, mentions or commands into a review.
HOSTILE = (
    "a|b\\|c",
    "`x` ``y``",
    "</code><img src=x onerror=y>",
    "[link](http://evil)",
    "@team and #12 !3",
    "**bold** _it_ ~~gone~~",
    "&lt;script&gt;",
    "one\ntwo\r\n::error::three",
    "::set-output name=x::y",
    "50%0A::warning::z",
    "##[error]x",
    "a,b:c%2C",
    "see www.evil.example, WWW.evil.example or ftp://evil.example/x",
    "mail me@evil.example, GH-12",
)
#: What GitHub and GitLab make links of in a text, as GFM's extension for autolinks says.
LINKS = re.compile(r"www\.|://|GH-\d|[\w.+-]@[\w-]+\.", re.IGNORECASE)


#: What a page is made of.
TAGS = {"h3", "h4", "p", "strong", "ul", "li", "code", "table", "thead", "tbody", "tr", "th", "td"}


class Reading(HTMLParser):
    """The tags of a page, and the texts of its cells, headings, items and paragraphs."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.loose = ""
        #: The texts as a parser of Markdown has them: comments and tags end one.
        self.pieces: list[str] = []
        self._codes = 0
        self.feed(html)
        self.texts = [text.strip() for text in self.texts]

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag in ("td", "th", "h3", "h4", "li", "p"):
            self.texts.append("")
        self._codes += tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self._codes -= tag == "code"

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)
        if self.texts:
            self.texts[-1] += data
        if not self._codes:
            self.loose += data


def read(text: str) -> Reading:
    return Reading(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))


@pytest.fixture
def plan() -> RestorePlan:
    """An operator of another kind, one that nobody takes, and one that stays."""
    planner = planner_of(saved_query(old("kept"), old("gone", 1), old("stays", 2)))
    planner.plan(starting(new("kept", kind=AGG), new("stays", 1)), {})
    return replace(planner.restore_plan(complete=True), savepoint="/sp/savepoint-1")


def named(plan: RestorePlan, name: str) -> RestorePlan:
    """The plan with everything called by a name that somebody else has chosen."""
    version = SparkVersions(name, f"{name}2", "full")
    row = replace(plan.operators[0], uid=name, query=name, text=name, advice=name, reason=name)
    gone = replace(plan.operators[-1], uid=name, query=name, text=f"`{name}`")
    pin = PinRow(name, name, name, name, name, "pinned", name)
    check = Check(name, RestoreOutcome.CONSENT, name, name)
    query = replace(plan.queries[0], name=name)
    return replace(
        plan,
        queries=(query,),
        operators=(row, gone),
        pins=(pin,),
        checks=(check,),
        savepoint=name,
        version=version,
    )


def test_the_reviewer_sees_the_verdict_what_to_do_and_every_operator(plan: RestorePlan) -> None:
    page = read(markdown(plan, "jobs/app.py"))
    assert page.tags >= {"table", "code", "h3", "h4", "ul"}
    assert page.texts[0] == "❌ incompatible: the savepoint cannot be restored like this"
    assert page.texts[1] == "jobs/app.py from /sp/savepoint-1"
    cells = page.texts
    at = cells.index("kept stateStoreSave")
    assert cells[at + 1 : at + 3] == ["120 rows", "incompatible"]
    at = cells.index("stays dedupe")
    assert cells[at + 1 : at + 4] == ["120 rows", "renumbered", "operator 2 is now 1"]
    assert "the state of gone: 120 rows" in cells  # what would be lost
    nothing, unknown = (SourceRow("q", "in", lost_rows=rows) for rows in (0, None))
    assert markdown(replace(plan, sources=(nothing,))) == markdown(
        replace(plan, sources=(unknown,))
    )
    at = cells.index("gone dedupe")
    assert cells[at + 3] == "no operator of the program takes this state"
    assert cells[at + 1] == "q"
    (asked,) = [text for text in cells if text.startswith("gone (no-operator): ")]
    assert "use -n to drop it, or name the operator" in asked
    # what stops comes before what continues
    assert cells.index("kept stateStoreSave") < cells.index("stays dedupe")
    # the one query of a plain checkpoint has no name
    left = replace(plan.operators[-1], query=None)
    page = read(
        markdown(replace(plan, operators=(left,), sources=(SourceRow("", "s", verdict="dropped"),)))
    )
    for what in ("gone dedupe", "s"):
        assert page.texts[page.texts.index(what) + 1] == "-"


@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_names_in_markdown(plan: RestorePlan, name: str) -> None:
    text = markdown(named(plan, name), name)
    page = read(text)
    assert page.tags <= TAGS
    shown = name.replace("\r", "\\r").replace("\n", "\\n")
    assert f"{shown} stateStoreSave" in page.texts  # a cell of its own, with all of the name
    assert page.texts[1] == f"{shown} from {shown} from Spark {shown} to {shown}2"
    assert not LINKS.search(page.loose.replace("savepoint:", ""))
    assert not re.search(r"[@#][A-Za-z0-9]", page.loose)  # no mention outside of <code>
    assert all(line[:1] in "|#-*<…" for line in text.splitlines() if line)
    assert not re.search(r"\bwww\.|://", text)  # GFM looks for these in the source, in tags too
    assert not any(re.search(r"\w@\w", piece) for piece in page.pieces)
    of_job = read(markdown(replace(plan, job_id="1", name=name, state=name), name))
    assert of_job.tags <= TAGS
    assert of_job.texts[1] == f"{shown} from the job {shown} ({shown})"


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """What GitHub's runner reads: commands with their properties, up to ``stop-commands``.

    As ``ActionCommand.TryParseV2`` of actions/runner does it; it knows ``##[`` anywhere, too.
    """
    seen, stopped = [], ""
    for line in text.split("\n"):
        matched = re.fullmatch(r"::([a-z-]+)(?: (.*?))?::(.*)", line.lstrip())
        if matched is None:
            assert stopped or "##[" not in line
            continue
        name, rest, data = matched.groups()
        if stopped:
            stopped = "" if name == stopped else stopped
        elif name == "stop-commands":
            stopped = data
        else:
            pairs = (each.partition("=") for each in (rest or "").split(","))
            seen.append((name, {k: plain(v) for k, _, v in pairs}, plain(data)))
    return seen


def plain(text: str) -> str:
    for escaped, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ",")):
        text = text.replace(escaped, character)
    return text.replace("%25", "%")


def test_annotations_name_the_file_and_the_reason(plan: RestorePlan) -> None:
    first, *rest = commands(github_log(plan, "jobs/app.py"))
    verdict = "verdict: incompatible: the savepoint cannot be restored like this"
    assert first == ("error", {"file": "jobs/app.py", "title": "flinkish check"}, verdict)
    assert [each[1]["title"].partition(": ")[2] for each in rest] == ["other-kind", "no-operator"]
    assert rest[1][2].splitlines()[0] == "gone: no operator of the program takes this state"
    assert "--uid-map OLD=NEW" in rest[1][2]
    fine = replace(plan, verdict="ok", exit_code=0, operators=plan.operators[1:2], queries=())
    ((level, named, _),) = commands(github_log(fine))
    assert (level, named) == ("notice", {"title": "flinkish check"})


@pytest.mark.parametrize("name", HOSTILE)
def test_names_give_no_commands(plan: RestorePlan, name: str) -> None:
    text = github_log(named(plan, name), name)
    seen = commands(text)
    assert {each[0] for each in seen} == {"error"}
    shown = name.replace("\r", "\\r").replace("\n", "\\n")
    assert {each[1]["file"] for each in seen} == {shown}
    assert len(seen) == 1 + 3  # the verdict, the check, two rows
    token = re.findall("^::stop-commands::([0-9a-f]{32})$", text, re.M)
    assert token == re.findall("^::([0-9a-f]{32})::$", text, re.M)
    assert text.count(token[0]) == 2


def test_a_long_plan_is_bounded(plan: RestorePlan) -> None:
    fine = OperatorRow("q", "fine", "fine", bytes=1, text="x" * 9000)
    bad = [replace(plan.operators[0], uid=f"bad{n}", reason=f"r{n}") for n in range(3000)]
    long = replace(plan, operators=(*(fine,) * 3000, *bad, *(plan.operators[-1],) * 3000))
    text = markdown(long)
    assert len(text) < 300_000
    assert "bad0" in text
    assert "fine" not in text  # what needs attention comes first
    assert "and 5900 more" in text
    assert len(commands(github_log(long))) == ANNOTATIONS + 1


def test_a_page_is_shorter_than_what_github_and_gitlab_take(plan: RestorePlan) -> None:
    long = named(plan, "|" * 700)
    queries = tuple(replace(long.queries[0], name=f"{n}{'|' * 700}") for n in range(200))
    rows = tuple(
        replace(long.operators[0], query=each.name) for each in queries for _ in range(100)
    )
    text = markdown(replace(long, queries=queries, operators=rows))
    assert 800_000 < len(text.encode()) <= PAGE + 100
    assert text.startswith("### ❌ incompatible")
    assert text.endswith("\n\n… the rest is left out: the plan is too long for a page\n")
    pins = (PinRow(plan.queries[0].name, "k", "n", "1", "2", "pinned", "x"),) * 300
    assert "… and 200 more" in markdown(replace(plan, pins=pins))


def test_no_plan_is_told_too() -> None:
    error = SavepointNotFound("there is no savepoint at s3://me:pass@bucket/x")
    page = read(failure_markdown(error, "app.py"))
    assert page.texts[0] == "❌ the restore of app.py could not be checked"
    assert "pass" not in " ".join(page.texts)
    # GitLab obeys lines that begin with a slash ("quick actions").
    for message in ("/close", "  /merge", "`/close`\n/close"):
        text = failure_markdown(SavepointNotFound(message, hint="/approve"))
        assert not re.search(r"^\s*/", text, re.MULTILINE)
        assert read(text).texts[1:] == [
            message.strip().replace("`", "").replace("\n", "\\n"),
            "/approve",
        ]
    ((level, named, text),) = commands(failure_annotation(error, "app.py"))
    assert (level, named["title"]) == ("error", f"flinkish check: {error.id}")
    assert text.startswith("there is no savepoint at s3://")
    assert "pass" not in text


def test_annotations_belong_to_files_of_the_repository(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path_factory.mktemp("checkout")
    (checkout / "jobs").mkdir()
    monkeypatch.chdir(checkout / "jobs")
    environ = {"GITHUB_WORKSPACE": str(checkout)}
    assert in_repository("app.py", environ) == "jobs/app.py"
    assert in_repository(str(checkout / "x.py"), environ) == "x.py"
    assert in_repository("../../elsewhere/x.py", environ) is None
    assert in_repository("s3://bucket/x.py", environ) is None
    assert in_repository(None, environ) is None
    assert in_repository("app.py", {}) == "app.py"
