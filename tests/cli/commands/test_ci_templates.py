"""The GitHub Action and the GitLab job of ``ci/``: their steps are run as the runners run them.

The driver is a real one up to the program, which starts no query of Spark, as in ``test_check``.
"""

from __future__ import annotations

import http.server
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from flinkish.messages.queries import QueryStatus
from flinkish.savepoint.format.contents import SavepointJob
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.query_records import query_source
from flinkish.savepoint.write.writer import write_savepoint
from tests.cli.commands.test_check import JOB, SUBMIT, facts_for
from tests.cli.conftest import PATIENCE, ROOT, Command
from tests.support.checkpoints.recorded import unpack
from tests.support.guides.blocks import blocks
from tests.support.launcher_fakes import make_spark

ACTION = yaml.safe_load((ROOT / "ci/github/action.yml").read_text())
GITLAB = yaml.safe_load((ROOT / "ci/gitlab/flinkish-check.yml").read_text())
CHECK, COMMENT = GITLAB[".flinkish-check"], GITLAB[".flinkish-comment"]
TOKEN = "RESTORE_CHECK_TOKEN"
PAGE = "docs/continuous-integration.md"
#: A program whose arguments and whose operators are none that the savepoint knows.
PROGRAM = "import sys\nprint(sys.argv[1:], file=open('arguments', 'w'))\n"


@pytest.fixture
def savepoint(cli: Command, tmp_path: Path) -> str:
    """A savepoint with an operator that the program does not have, and a Spark to check it."""
    (tmp_path / "submit.py").write_text(SUBMIT)
    cli.spark_home = make_spark(
        tmp_path / "describing", f'exec "{sys.executable}" "{tmp_path}/submit.py" "$@"\n'
    )
    cli.program.write_text(PROGRAM)
    root = unpack("spark43-rocksdb-dedup", tmp_path)
    saved = write_savepoint(
        str(tmp_path / "sp"),
        SavepointJob(JOB, "app", spark_version="4.3.0"),
        [query_source(QueryStatus("counts", "id", "r", str(root)), facts_for(root))],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/flinkish").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flinkish "$@"\n')
    (tmp_path / "bin/python").symlink_to(sys.executable)
    (tmp_path / "bin/flinkish").chmod(0o755)
    return saved.path


def environ(tmp_path: Path, more: Mapping[str, str]) -> dict[str, str]:
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "CI": "true", **more}


def test_the_page_uses_what_there_is() -> None:
    first, second = map(yaml.safe_load, (b.text for b in blocks(PAGE, "yaml")))
    (job,) = first["jobs"].values()
    step = job["steps"][-1]
    assert "/ci/github@" in step["uses"]
    required = {name for name, each in ACTION["inputs"].items() if each.get("required")}
    assert required <= step["with"].keys() <= ACTION["inputs"].keys()
    assert second["include"][0]["file"] == "/ci/gitlab/flinkish-check.yml"
    check, comment = (each for each in second.values() if isinstance(each, dict))
    assert (check["extends"], comment["extends"]) == (".flinkish-check", ".flinkish-comment")
    assert check["variables"].keys() <= CHECK["variables"].keys()
    assert second[comment["needs"][0]] == check


class GitHub:
    """The runner, as far as it matters here: inputs, variables, and ``shell: bash``."""

    def __init__(self, tmp_path: Path, inputs: Mapping[str, str]) -> None:
        self.place = tmp_path
        self.inputs = {k: v.get("default") for k, v in ACTION["inputs"].items()} | dict(inputs)
        assert self.inputs.keys() == ACTION["inputs"].keys()
        assert None not in self.inputs.values(), "an input that is required"
        self.outputs: dict[str, str] = {}
        self.summary = ""

    def run(self) -> subprocess.CompletedProcess[str]:
        for step in ACTION["runs"]["steps"]:
            assert step["shell"] == "bash"
            assert "${{" not in step["run"], "what an input has would be run"
            asked = re.fullmatch(r"inputs\.([\w-]+) != ''", step.get("if", "inputs.program != ''"))
            assert asked is not None
            if not self.inputs[asked[1]]:
                continue
            done = self._step(step)
            if done.returncode:
                break
        return done

    def _step(self, step: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
        files = {
            name: self.place / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
        }
        for file in files.values():
            file.write_text("")
        variables = {
            name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: self.inputs[m[1]], value)
            for name, value in step["env"].items()
        }
        assert not any("${{" in value for value in variables.values())
        (self.place / "step.sh").write_text(step["run"])
        more = {"GITHUB_WORKSPACE": str(self.place), **{k: str(v) for k, v in files.items()}}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(self.place / "step.sh")],
            env=environ(self.place, {**variables, **more}),
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        lines = files["GITHUB_OUTPUT"].read_text().splitlines()
        self.outputs = dict(line.split("=", 1) for line in lines)
        self.summary = files["GITHUB_STEP_SUMMARY"].read_text()
        return done


def github(cli: Command, savepoint: str, **inputs: str) -> GitHub:
    spark = f"--spark-home\n{cli.spark_home}\n"
    return GitHub(
        cli.directory,
        {
            "savepoint": savepoint,
            "program": "app.py",
            "requirement": "",
            **{name.replace("_", "-"): value for name, value in inputs.items()},
            "options": spark + inputs.get("options", ""),
        },
    )


@pytest.mark.deep
def test_an_action_annotates_and_fails(cli: Command, savepoint: str) -> None:
    asked = github(cli, savepoint)
    done = asked.run()
    assert done.returncode == 5, done.stderr
    assert done.stdout.startswith("::error file=app.py,title=flinkish check::verdict: consent")
    assert asked.summary.startswith("### ⚠️ consent-needed")
    assert asked.outputs == {"verdict": "consent-needed", "savepoint": savepoint}
    assert github(cli, savepoint, allow_consent="true").run().returncode == 0


@pytest.mark.deep
def test_the_newest_savepoint_of_a_directory_and_words_as_they_are(
    cli: Command, savepoint: str
) -> None:
    asked = github(
        cli,
        f"{os.path.dirname(savepoint)}/",
        options="-n",
        arguments="two words\n$(touch run)\n\n`touch run`; touch run",
        requirement="pip",  # is there, so that nothing is fetched
    )
    done = asked.run()
    assert done.returncode == 0, done.stderr
    assert asked.outputs == {"verdict": "ok", "savepoint": savepoint}
    arguments = (cli.directory / "arguments").read_text()
    assert arguments.strip() == str(["two words", "$(touch run)", "`touch run`; touch run"])
    assert not (cli.directory / "run").exists()


@pytest.mark.deep
def test_an_action_without_a_savepoint(cli: Command, savepoint: str) -> None:
    (cli.directory / "empty").mkdir()
    for place, code in (("empty/", 11), ("nothing/", 11), ("/nothing", 11)):
        asked = github(cli, place)
        done = asked.run()
        assert done.returncode == code, done.stderr
        assert asked.outputs["verdict"] == "failed"
    assert done.stdout.startswith("::error file=app.py,title=flinkish check%3A savepoint-not-found")


def gitlab(
    cli: Command, savepoint: str, shell: str = "bash", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the job that checks."""
    given = {f"RESTORE_CHECK_{name.upper()}": value for name, value in variables.items()}
    assert given.keys() <= {*CHECK["variables"], TOKEN}
    given["RESTORE_CHECK_OPTIONS"] = f"--spark-home\n{cli.spark_home}\n" + variables.get(
        "options", ""
    )
    asked = {
        "RESTORE_CHECK_SAVEPOINT": savepoint,
        "RESTORE_CHECK_PROGRAM": "app.py",
        "RESTORE_CHECK_REQUIREMENT": "",
    }
    return gitlab_job(cli.directory, CHECK, shell, {**asked, **given})


def gitlab_job(
    place: Path, job: Mapping[str, Any], shell: str, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a job as the runner does: all lines as one script, which ends at the first error."""
    return subprocess.run(
        [shell, "-c", "\n".join(["set -e", *job.get("before_script", ()), *job["script"]])],
        env=environ(place, {**job["variables"], **variables}),
        cwd=place,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.mark.deep
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a_job_of_gitlab(cli: Command, savepoint: str, shell: str) -> None:
    done = gitlab(cli, savepoint, shell)
    assert done.returncode == 5, done.stderr
    (report,) = CHECK["artifacts"]["paths"]
    text = (cli.directory / report).read_text()
    assert text.startswith("### ⚠️ consent-needed")
    assert done.stdout == text
    place = f"{os.path.dirname(savepoint)}/"
    agreed = gitlab(cli, place, shell, options="-n", arguments="two words\n$(touch run)\n\\n")
    assert agreed.returncode == 0, agreed.stderr
    assert (cli.directory / "arguments").read_text().strip() == str(
        ["two words", "$(touch run)", "\\n"]
    )
    assert not (cli.directory / "run").exists()
    assert gitlab(cli, savepoint, shell, allow_consent="true").returncode == 0
    (cli.directory / "empty").mkdir()
    nothing = gitlab(cli, "empty/", shell)
    assert (nothing.returncode, nothing.stderr.strip()) == (11, "there is no savepoint in empty/")


def comment(place: Path, shell: str, api: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the job that posts the plan which is in ``place``."""
    merge_request = {"CI_API_V4_URL": api, "CI_PROJECT_ID": "7", "CI_MERGE_REQUEST_IID": "12"}
    return gitlab_job(place, COMMENT, shell, {**merge_request, TOKEN: "se cret", **more})


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a_plan_is_posted_to_the_merge_request(tmp_path: Path, shell: str) -> None:
    plan = tmp_path / CHECK["artifacts"]["paths"][0]
    plan.write_text("### \u26a0\ufe0f a/b\n\n/merge\r\n \t/close\n- /fine\n")
    with notes() as (address, posted):
        done = comment(tmp_path, shell, address)
        assert done.returncode == 0, done.stderr
        ((path, token, body),) = posted
        assert (path, token) == ("/projects/7/merge_requests/12/notes", "se cret")
        shown = "### \u26a0\ufe0f a/b\n\n&#47;merge\n \t&#47;close\n- /fine\n"
        assert urllib.parse.parse_qs(body) == {"body": [shown]}
        # What would post this job's environment, and what has nothing to post.
        plan.rename(tmp_path / "secrets")
        plan.symlink_to("secrets")
        for more in ({}, {TOKEN: ""}):
            assert comment(tmp_path, shell, address, **more).returncode == 1
        assert len(posted) == 1
    plan.unlink()
    plan.write_text("x")
    refused = comment(tmp_path, shell, address)  # nobody is there any more
    assert refused.returncode != 0
    assert "cret" not in refused.stdout + refused.stderr


def test_a_program_of_a_change_gets_no_token_that_can_post(tmp_path: Path) -> None:
    """A job that runs it refuses; one that has the token fetches nothing of the change."""
    given = {TOKEN: "secret", "RESTORE_CHECK_REQUIREMENT": ""}
    refused = gitlab_job(tmp_path, CHECK, "bash", given)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "must not reach this job" in refused.stderr
    assert TOKEN not in CHECK["variables"]
    assert COMMENT["variables"]["GIT_STRATEGY"] == "none"
    assert COMMENT["environment"]["name"] in refused.stderr


@contextmanager
def notes() -> Iterator[tuple[str, list[tuple[str, str | None, str]]]]:
    """A server that takes notes; gives its address, and path, token and body of each note."""
    posted: list[tuple[str, str | None, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            posted.append((self.path, self.headers["PRIVATE-TOKEN"], body))
            self.send_response(201)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", posted
        finally:
            server.shutdown()
            thread.join()
