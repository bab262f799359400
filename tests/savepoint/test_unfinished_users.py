"""Files of a savepoint that another one uses which is still being written."""

from __future__ import annotations

import os
import time
from pathlib import Path

from flinkish import storage
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.directory.catalog import new_name
from flinkish.savepoint.directory.dispose import dispose
from tests.support.savepoint.small_savepoints import JOB_ID, make_savepoint

FILE = "0-counts/metadata"


def used_by_one_being_written(directory: Path) -> tuple[str, str]:
    """A savepoint, and the name of another that has said that it uses its file, and no more."""
    holder = make_savepoint(str(directory), time.time())
    user = new_name(JOB_ID)
    sharing.write_references(holder, user, [FILE])
    return holder, user


def test_they_stay_when_the_savepoint_is_disposed_of(tmp_path: Path) -> None:
    holder, user = used_by_one_being_written(tmp_path)
    done = dispose(holder)
    assert (done.users, done.kept, done.gone) == ((user,), 1, False)
    assert storage.exists(storage.join(holder, FILE))


def test_one_that_never_became_complete_counts_for_an_hour(tmp_path: Path) -> None:
    holder, user = used_by_one_being_written(tmp_path)
    written = time.time() - 1800
    os.utime(Path(holder) / "_refs" / user, (written, written))
    assert sharing.live_users(holder, written + 3500) == (user,)
    assert sharing.live_users(holder, written + 3700) == ()
    assert dispose(holder).users == (user,)


def test_after_that_its_files_go(tmp_path: Path) -> None:
    holder, user = used_by_one_being_written(tmp_path)
    written = time.time() - 3700
    os.utime(Path(holder) / "_refs" / user, (written, written))
    assert dispose(holder).gone
    assert not storage.exists(holder)


def test_a_list_that_leads_nowhere_is_judged_by_its_savepoint(tmp_path: Path) -> None:
    holder, user = used_by_one_being_written(tmp_path)
    path = Path(holder) / "_refs" / user
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    assert sharing.users_of(holder) == {user: 0.0}
    assert sharing.live_users(holder, time.time()) == ()
    (tmp_path / user).mkdir()
    (tmp_path / user / "_metadata").touch()
    assert sharing.live_users(holder, time.time()) == (user,)
