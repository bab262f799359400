"""The pages: what each one's commands find, and in which order they are typed.

A page's block that is new, or gone, does not fit its scenario, which fails.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.cli.command import PATIENCE
from tests.support.guides.blocks import (
    Block,
    Step,
    blocks,
    is_script,
    joined,
    steps,
    text_of,
)
from tests.support.guides.desk import Desk, desk
from tests.support.guides.transcripts import Comparison

DEMO = "flinkish.examples.flights.demo"
#: Where the README's tour is said to have been run.
DEMO_PLACE = "/srv/flights-demo"


def typed(page: str) -> list[Block]:
    """Return the blocks of a page whose commands are typed and have to succeed.

    Those of make are not: the demo has a test of its own, and the tests cannot run themselves.
    """
    return [
        block
        for block in blocks(page, "bash")
        if not is_script(block) and not block.text.startswith("make ")
    ]


def readme(desk: Desk, found: list[Block]) -> None:
    own_program, come_back = found
    desk.script(own_program)
    desk.script(come_back, before={"flinkish recover": desk.kill})


def operating(desk: Desk, found: list[Block]) -> None:
    died, comes_back, waiting, logs = found
    desk.start("rides.py")
    desk.kill("java")
    desk.flinkish.wait_for_state("rides", "FAILED")
    desk.script(died)
    desk.script(comes_back)
    desk.script(waiting)
    desk.script(logs)


def rewriting_state(desk: Desk, found: list[Block]) -> None:
    rewrite, canonical, data = found
    desk.start("app.py")
    desk.flinkish.ok("stop", "app", "-p", "sp")
    desk.script(rewrite)  # the first of them is an attached run, which goes on
    desk.script(canonical)
    desk.script(data)


def plain_checkpoints(desk: Desk, found: list[Block]) -> None:
    (export,) = found
    desk.start("app.py")
    desk.flinkish.ok("stop", "app", "-p", "sp")
    desk.script(export)


def security(desk: Desk, found: list[Block]) -> None:
    (secrets,) = found
    desk.script(secrets)


def storage(desk: Desk, found: list[Block]) -> None:
    (s3,) = found
    desk.script(s3)


def upgrading_in_place(desk: Desk, found: list[Block]) -> None:
    in_place, shadow, rehearsal = found
    desk.start("rides.py")
    with desk.fed():  # a new program has to commit batches
        desk.script(in_place)
        desk.script(shadow)
        desk.script(rehearsal)


def continuous_integration(desk: Desk, found: list[Block]) -> None:
    (elsewhere,) = found
    desk.start("rides.py", "--name", "rides")
    desk.flinkish.ok("stop", "rides", "-p", "savepoints")
    desk.script(elsewhere)
    plan = (desk.directory / "plan.md").read_text()
    assert plan.startswith("### ✅ ok: the savepoint can be restored")


def upgrading_spark(desk: Desk, found: list[Block]) -> None:
    (upgrade,) = found
    desk.start("rides.py")
    desk.script(upgrade)


def ten_minutes_shell(desk: Desk, found: list[Block]) -> None:
    (program,) = blocks("docs/ten-minutes-shell.md", "python")
    (desk.directory / "rides.py").write_text(program.text)
    second = program.text.replace('uid("rides"))', 'uid("rides")).filter("count > 1")')
    (desk.directory / "rides_v2.py").write_text(second)
    for block in found:
        desk.script(block)


def ten_minutes_ci(desk: Desk, found: list[Block]) -> None:
    desk.start("rides.py", "--name", "rides")
    desk.flinkish.ok("stop", "rides", "-p", "savepoints")
    for block in found:
        desk.script(block)


def ten_minutes_cron(desk: Desk, found: list[Block]) -> None:
    desk.start("rides.py", "--name", "rides")
    for block in found:
        desk.script(block)


#: Pages with bash blocks.
SCENARIOS: dict[str, Callable[[Desk, list[Block]], None]] = {
    "README.md": readme,
    "docs/continuous-integration.md": continuous_integration,
    "docs/operating.md": operating,
    "docs/plain-checkpoints.md": plain_checkpoints,
    "docs/rewriting-state.md": rewriting_state,
    "docs/security.md": security,
    "docs/storage.md": storage,
    "docs/ten-minutes-ci.md": ten_minutes_ci,
    "docs/ten-minutes-cron.md": ten_minutes_cron,
    "docs/ten-minutes-shell.md": ten_minutes_shell,
    "docs/upgrading-a-program.md": upgrading_in_place,
    "docs/upgrading-spark.md": upgrading_spark,
}


def demo(directory: Path, found: list[Block]) -> list[Step]:
    """Run the demo, which compares every row it wrote."""
    done = subprocess.run(
        [sys.executable, "-m", DEMO, "--directory", str(directory / "demo")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    shown = done.stdout.partition("\nDemo passed")[0]  # how long it took is nothing to read
    return steps(shown.replace(str(directory / "demo"), DEMO_PLACE))


def upgrading_a_program(directory: Path, found: list[Block]) -> list[Step]:
    """Type the commands on savepoints of the programs' first versions."""
    refused, checked = found
    with desk(directory) as here:
        shown = []
        for block, program in ((refused, "counts.py"), (checked, "totals.py")):
            job = here.start(program)
            here.flinkish.ok("stop", job, "-p", "savepoints")
            shown += here.console(block)
        return shown


@dataclass(frozen=True)
class Run:
    """How the console blocks of a page come about.

    Parameters
    ----------
    moment
        The numbers depend on how far the job was.
    """

    steps: Callable[[Path, list[Block]], list[Step]]
    moment: bool = False


#: Pages with console blocks.
RUNS = {
    "README.md": Run(demo, moment=True),
    "docs/upgrading-a-program.md": Run(upgrading_a_program),
}


@dataclass(frozen=True)
class Outcome:
    """Where a page differs from a run, and its text with the run's output in its place."""

    differences: list[str]
    text: str


def run_page(page: str, directory: Path) -> Outcome:
    """Do what the console blocks of a page show, and compare."""
    found, run = blocks(page, "console"), RUNS[page]
    return compare(page, found, run.steps(directory, found), moment=run.moment)


def compare(page: str, found: list[Block], real: list[Step], *, moment: bool) -> Outcome:
    """Hold a page's console blocks against a run of all of them."""
    shown = [steps(block.text) for block in found]
    every = [step for part in shown for step in part]
    text = text_of(page)
    differences = list(Comparison(moment).differences(every, real))
    if differences:
        new: Iterator[Step] = iter(Comparison(moment).renewed(every, real))
        for block, part in zip(found, shown, strict=True):
            text = text.replace(block.text, joined([next(new) for _ in part]))
    return Outcome(differences, text)
