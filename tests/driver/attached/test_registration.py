"""Which ended job a program goes on from that its launcher starts again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.driver.attached.registration import goes_on_from
from flinkish.launch.restoring import RECOVERY_PATH
from flinkish.messages.launch import ExternalLauncher, Launch, RestoreSpec
from flinkish.registry.jobs import JobRecord, JobState

EXTERNAL = ExternalLauncher("python", "0.1.0")
PLAIN = Launch("/app.py", external=EXTERNAL, named=True)
RESTORED = replace(PLAIN, restore=RestoreSpec("/sp/1"))
OTHER = replace(PLAIN, restore=RestoreSpec("/sp/2"))
#: The link that the program named led to /sp/1, then to /sp/2, then nowhere.
LATEST = replace(RESTORED, options={RECOVERY_PATH: "latest"}, working_directory="/sp")
AGAIN = replace(LATEST, restore=RestoreSpec("/sp/2"), options={RECOVERY_PATH: "/sp/latest"})
GONE = replace(AGAIN, restore=RestoreSpec("/sp/latest"))
OURS = Launch("/app.py", restore=RestoreSpec("/sp/1"), named=True)


def jobs(*launches: Launch) -> list[JobRecord]:
    return [
        JobRecord(f"{number:032x}", "job", JobState.FAILED, float(number), launch)
        for number, launch in enumerate(launches)
    ]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ([], RESTORED, None),
        ([RESTORED], RESTORED, 0),  # the launcher's next try, with the same settings
        ([RESTORED], PLAIN, 0),  # the setting was removed: its state is where it was restored
        ([LATEST], AGAIN, 0),
        ([LATEST], GONE, 0),
        ([RESTORED], OTHER, None),  # another savepoint is another job
        ([PLAIN], PLAIN, None),  # goes on in the location that the program names
        ([PLAIN], RESTORED, None),
        ([RESTORED, PLAIN], PLAIN, None),
        ([RESTORED, OURS], RESTORED, 0),  # flinkish restarts its own jobs itself
        ([replace(RESTORED, named=False)], RESTORED, None),
        ([replace(RESTORED, named=False)], replace(RESTORED, named=False), 0),
        (
            [replace(RESTORED, named=False, application="/other.py")],
            replace(RESTORED, named=False),
            None,
        ),
    ],
)
def test_a_restored_job_goes_on(before: list[Launch], now: Launch, expected: int | None) -> None:
    known = jobs(*before)
    assert goes_on_from(known, now) == (None if expected is None else known[expected])
