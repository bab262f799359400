from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from flinkish import storage
from flinkish.errors import FlinkishError, Locked, StorageError, UsageError
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.directory.catalog import (
    Catalog,
    CatalogEntry,
    Unfinished,
    find_damage,
    read_catalog,
)
from flinkish.savepoint.directory.dispose import dispose
from flinkish.savepoint.directory.leases import Kind, Lease
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.format.reader import check_files, open_savepoint
from flinkish.savepoint.manage import prune as prune_module
from flinkish.savepoint.manage.candidates import why_needed
from flinkish.savepoint.manage.prune import collect_garbage, judge_garbage, prune
from flinkish.savepoint.manage.retention import Policy
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.savepoint.small_savepoints import JOB_ID, make_savepoint

OTHER = "fedcba9876543210" * 2
LAST = Policy(keep_last=1)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "sp")


def left(place: str) -> set[str]:
    return {entry.path for entry in read_catalog(place, whole=True).savepoints}


def test_what_the_policy_does_not_keep_is_gone(place: str) -> None:
    old, new = make_savepoint(place, 1), make_savepoint(place, 2)
    planned = prune(place, LAST, {}, dry_run=True)
    assert [(o.savepoint.path, o.keep, o.removed, o.bytes) for o in planned.savepoints] == [
        (new, True, False, 0),
        (old, False, False, 10),
    ]
    assert left(place) == {old, new}
    done = prune(place, LAST, {})
    assert [o.removed for o in done.savepoints] == [False, True]
    assert done.savepoints[0].reasons == ("newest", "last 1")
    assert done.errors == ()
    assert done.bytes == 10
    assert os.listdir(place) == [os.path.basename(new)]


@pytest.mark.parametrize("names", [True, False])
def test_a_dry_run_counts_what_goes_with_the_user_before(place: str, names: bool) -> None:
    """By its wrong clock the user of a file is older than the savepoint that holds it."""
    holder = make_savepoint(place, 2)
    held = f"{os.path.basename(holder)}/0-counts/metadata"
    user = make_savepoint(place, 1, held=held, batch_id=3)
    make_savepoint(place, 3, batch_id=9)
    sharing.write_references(holder, os.path.basename(user), ["0-counts/metadata"])
    planned = prune(place, LAST, {}, dry_run=True, names=names)
    assert [(o.bytes, o.shared) for o in planned.savepoints] == [(0, 0), (10, 0), (0, 0)]
    assert any(o.gone for o in planned.savepoints) is names


@pytest.mark.parametrize("above", ["link", "/turned", "hdfs://nn1:8020/sp", "viewfs://c/sp"])
def test_protected_ones_stay_by_any_name_of_the_place(
    place: str, tmp_path: Path, above: str
) -> None:
    """A link may lead elsewhere by now, and two mounts or URLs need not look like one place."""
    old, new = make_savepoint(place, 1), make_savepoint(place, 2)
    (tmp_path / "link").symlink_to(place)
    named = f"{tmp_path / above if above == 'link' else above}/{os.path.basename(old)}"
    assert why_needed(old, {named: "job X needs it"}) == "job X needs it"
    done = prune(place, LAST, {named: "job X needs it"})
    assert done.savepoints[1].reasons == ("job X needs it",)
    assert left(place) == {old, new}


def test_a_name_that_is_not_flinkish_s_does_not_protect(place: str) -> None:
    new = make_savepoint(place, 2)
    os.rename(make_savepoint(place, 1), f"{place}/before")
    prune(place, LAST, {"/elsewhere/before": "job X needs it"})
    assert left(place) == {new}


def test_a_restored_job_goes_on_and_the_newest_of_a_running_one_stays(place: str) -> None:
    first = make_savepoint(place, 1, job_id=OTHER)
    second = make_savepoint(place, 2)
    other = make_savepoint(place, 0, name="another", job_id="ab" * 16)
    done = prune(place, LAST, {}, dry_run=True, running={OTHER})
    assert {o.savepoint.path: o.reasons for o in done.savepoints} == {
        second: ("newest", "last 1"),
        first: ("newest of the running job fedcba",),
        other: ("newest", "last 1"),
    }
    prune(place, LAST, {})
    assert left(place) == {second, other}


def test_only_some_jobs(place: str) -> None:
    others = [make_savepoint(place, n, name="another", job_id=OTHER) for n in range(2)]
    mine = [make_savepoint(place, n) for n in range(2)]
    done = prune(place, LAST, {}, jobs={JOB_ID})
    assert len(done.savepoints) == 2
    assert left(place) == {*others, mine[1]}


def test_only_what_was_agreed_to(place: str) -> None:
    paths = [make_savepoint(place, n) for n in range(3)]
    done = prune(place, LAST, {}, agreed={paths[0]})
    assert left(place) == set(paths[1:])
    assert done.savepoints[1].reasons == ("not agreed to",)


def test_damaged_ones_are_neither_counted_nor_removed(place: str) -> None:
    old, new = make_savepoint(place, 1), make_savepoint(place, 2)
    metadata = Path(new, "_metadata")
    metadata.write_bytes(metadata.read_bytes()[:-1])
    done = prune(place, LAST, {})
    assert [each.path for each in done.unreadable] == [new]
    assert left(place) == {old}, "the newest complete one"
    assert metadata.exists()


def cut(path: str) -> None:
    Path(path, "0-counts/metadata").write_bytes(b"0123")


def test_what_is_not_whole_keeps_nobody_from_being_kept(place: str) -> None:
    old, whole, half, bare, other = (make_savepoint(place, n) for n in range(5))
    cut(half)
    shutil.rmtree(f"{bare}/0-counts")
    Path(other, "0-counts/metadata").write_bytes(b"other text")
    done = prune(place, LAST, {})
    assert {each.path: each.error.message.partition(": ")[2] for each in done.damaged} == {
        half: "0-counts/metadata has 4 bytes instead of 10",
        bare: "0-counts/metadata is missing",
        other: "0-counts/metadata does not have its recorded digest",
    }
    assert {each.savepoint.path: each.reasons for each in done.savepoints} == {
        whole: ("newest", "last 1"),
        old: (),
    }
    assert left(place) == {whole, half, bare, other}, "what is not whole is left alone"
    assert prune(place, LAST, {}).savepoints[0].reasons == ("newest", "last 1")


def test_one_that_is_disposed_of_meanwhile_is_not_called_damaged(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = make_savepoint(place, 1), make_savepoint(place, 2)

    def late(entry: CatalogEntry, level: str) -> FlinkishError | None:
        if entry.path == new:
            dispose(new)
        return find_damage(entry, level)

    monkeypatch.setattr(prune_module, "find_damage", late)
    done = prune(place, LAST, {})
    assert done.damaged == ()
    assert [(each.savepoint.path, each.keep) for each in done.savepoints] == [(old, True)]


def test_a_damaged_one_is_not_looked_at_when_it_goes_anyway(place: str) -> None:
    old, new = make_savepoint(place, 1), make_savepoint(place, 2)
    cut(old)
    assert prune(place, LAST, {}).damaged == ()
    assert left(place) == {new}


def test_links_count_for_nothing_and_keep_what_they_lead_to(place: str, tmp_path: Path) -> None:
    oldest, linked, old, new = (make_savepoint(place, n) for n in range(4))
    # The name sorts before those of savepoints, the way to the target has a link in it, too.
    os.symlink(place, tmp_path / "way")
    os.symlink(f"../way/{os.path.basename(linked)}", f"{place}/a link")
    os.symlink(f"{os.path.basename(linked)}/_metadata", f"{place}/.its metadata")
    os.symlink("nowhere", f"{place}/nowhere")
    os.symlink("circle", f"{place}/circle")
    for directory in (place, f"{tmp_path}/way", f"file://{tmp_path}/way/"):
        done = prune(directory, LAST, {}, dry_run=True)
        kept = {os.path.basename(o.savepoint.path): o.reasons for o in done.savepoints if o.keep}
        assert kept == {
            os.path.basename(new): ("newest", "last 1"),
            os.path.basename(linked): (
                "the link '.its metadata' leads to it",
                "the link 'a link' leads to it",
            ),
            "a link": (f"it is a link to {os.path.basename(linked)}, and counts with it",),
        }
    prune(f"{tmp_path}/way", LAST, {})
    assert not os.path.exists(oldest)
    assert not os.path.exists(old)
    check_files(open_savepoint(f"{place}/a link"), "full")


def test_a_link_to_another_directory_is_none_of_this_one(place: str, tmp_path: Path) -> None:
    elsewhere = make_savepoint(str(tmp_path / "elsewhere"), 9)
    old, new = make_savepoint(place, 1), make_savepoint(place, 2)
    os.symlink(elsewhere, f"{place}/latest")
    done = prune(place, LAST, {})
    assert [o.savepoint.path for o in done.savepoints if o.removed] == [old]
    assert os.listdir(tmp_path / "elsewhere") == [os.path.basename(elsewhere)]
    assert left(place) == {new, f"{place}/latest"}


def test_a_copy_is_no_generation_of_its_own(place: str) -> None:
    first, second, third = (make_savepoint(place, n) for n in range(3))
    shutil.copytree(third, f"{place}/z copy")
    shutil.copytree(first, f"{place}/old copy")
    # Of this one only the copy is whole: it counts.
    shutil.copytree(second, f"{place}/saved copy", copy_function=os.link)
    os.unlink(f"{second}/0-counts/metadata")
    done = prune(place, Policy(keep_last=2), {})
    assert {os.path.basename(o.savepoint.path): o.reasons for o in done.savepoints} == {
        os.path.basename(third): ("newest", "last 2"),
        "z copy": (f"it is a copy of {os.path.basename(third)}",),
        "saved copy": ("last 2",),
        os.path.basename(first): (),
        "old copy": (),
    }
    assert [each.path for each in done.damaged] == [second]
    assert prune(place, Policy(keep_last=2), {f"{place}/z copy": "X"}).savepoints[0].reasons == (
        *("newest", "X", "last 2"),
    )


def test_a_time_in_the_future_is_named_and_counts_for_nothing(place: str) -> None:
    wrong = make_savepoint(place, time.time() + 1e8)
    os.utime(f"{wrong}/_metadata", (50, 50))
    old, new = make_savepoint(place, 60), make_savepoint(place, time.time())
    done = prune(place, LAST, {new: "just taken"})
    assert [each.path for each in done.future] == [wrong]
    assert left(place) == {new}
    assert not os.path.exists(old)


def test_what_has_just_been_taken_stays_whatever_the_clocks_say(place: str) -> None:
    new = make_savepoint(place, 1)
    others = [make_savepoint(place, time.time() - n, batch_id=9) for n in range(2)]
    named = f"{place}/../{os.path.basename(place)}/{os.path.basename(new)}"
    done = prune(place, LAST, {named: "just taken"})
    assert done.savepoints[-1].reasons == ("just taken",)
    assert left(place) == {new, others[0]}


def test_jobs_of_another_registry_are_not_pruned_with_this_one_s(place: str) -> None:
    ours = [make_savepoint(place, n, query_id="ours") for n in range(2)]
    theirs = [make_savepoint(place, n, job_id=OTHER, query_id="theirs") for n in range(5, 7)]
    prune(place, LAST, {}, jobs={JOB_ID}, known_jobs={JOB_ID}, taken_here=ours)
    assert left(place) == {ours[1], *theirs}
    prune(place, LAST, {}, known_jobs={JOB_ID}, taken_here=ours)
    assert left(place) == {ours[1], theirs[1]}


def test_an_empty_policy_touches_nothing(place: str) -> None:
    make_savepoint(place, 1)
    with pytest.raises(UsageError):
        prune(place, Policy(), {})
    assert len(left(place)) == 1
    assert not os.path.exists(f"{place}/_locks")


def test_a_directory_that_is_not_there_does_not_come_to_be(place: str) -> None:
    assert prune(place, LAST, {}).savepoints == ()
    assert collect_garbage(place, ()) == ()
    assert not os.path.exists(place)


def test_a_writer_keeps_prune_out(place: str) -> None:
    make_savepoint(place, 1)
    make_savepoint(place, 2)
    with Lease.take(place, Kind.WRITE, owner="me@h", job_id=OTHER):
        with pytest.raises(Locked, match="me@h"):
            prune(place, LAST, {})
        assert len(prune(place, LAST, {}, dry_run=True).savepoints) == 2
    assert len(left(place)) == 2
    prune(place, LAST, {})
    assert len(left(place)) == 1


def test_one_that_cannot_be_removed_does_not_stop_the_rest(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [make_savepoint(place, n) for n in range(3)]

    def refusing(path: str, **more: Any) -> object:
        if path == paths[0]:
            raise StorageError("refused")
        return dispose(path, **more)

    monkeypatch.setattr(prune_module, "dispose", refusing)
    done = prune(place, LAST, {})
    assert [str(error) for error in done.errors] == ["refused"]
    assert left(place) == {paths[0], paths[2]}


def test_an_interrupted_prune_leaves_no_half_savepoint(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at every single removal in turn: what opens is whole, the rest is garbage."""
    removals = 0
    real = storage.remove_file

    class Killed(BaseException):
        pass

    for dies_at in range(4):
        old, new = make_savepoint(place, 1), make_savepoint(place, 2)
        removals = 0

        def dying(root: str, name: str, *_: object, dies_at: int = dies_at) -> bool:
            nonlocal removals
            if "_locks" not in name:
                removals += 1
                if removals > dies_at:
                    raise Killed
            return real(root, name)

        with monkeypatch.context() as patch:
            patch.setattr(storage, "remove_file", dying)
            patch.setattr(
                storage, "remove_files", lambda root, names, *_: [dying(root, n) for n in names]
            )
            with suppress(Killed):
                prune(place, LAST, {})
        for path in left(place):
            check_files(open_savepoint(path), "full")
        later = time.time() + 7200
        collect_garbage(place, (), now=later)
        assert set(os.listdir(place)) - {"_locks"} in (
            {os.path.basename(new)},
            {os.path.basename(old), os.path.basename(new)},
        )
        for path in left(place):
            dispose(path)


def test_files_that_others_share_stay_until_the_last_is_gone(tmp_path: Path) -> None:
    """On storage without links a later savepoint leaves files where an earlier one has them."""
    checkpoint = CheckpointLikeness(tmp_path / "checkpoint", backend="rocksdb").run_to(4)
    place = f"memory://prune{tmp_path}"
    job = SavepointJob(JOB_ID, "job")
    taken = []
    for _ in range(2):
        source = QuerySource("q", str(checkpoint.root))
        taken.append(
            write_savepoint(
                place, job, [source], trigger="savepoint", reporter=SilentSavepointReporter()
            )
        )
    first, second = taken
    assert second.shared_files
    done = prune(place, LAST, {})
    assert done.savepoints[1].shared > 0
    assert left(place) == {second.path}
    check_files(open_savepoint(second.path), "full")
    assert storage.exists(first.path), "the husk with what the second one uses"
    found = collect_garbage(place, (), now=time.time() + 7200)
    assert [each.reason for each in found] == ["other savepoints use its files"]
    dispose(second.path)
    assert not storage.exists(first.path)


# garbage

SOON = 1e9
NAME = "savepoint-012345-0123456789ab"


def unfinished(place: str, name: str = NAME, age: float = 7200.0) -> str:
    path = f"{place}/{name}"
    os.makedirs(f"{path}/0-q")
    Path(path, "0-q/metadata").write_bytes(b"x")
    for directory, _, files in os.walk(path):
        for each in [*files, "."]:
            os.utime(os.path.join(directory, each), (time.time() - age,) * 2)
    return path


def test_old_unfinished_ones_go(place: str) -> None:
    complete = make_savepoint(place, 1)
    old = unfinished(place)
    young = unfinished(place, "savepoint-012345-00000000000a", age=60)
    os.makedirs(f"{place}/photos")
    planned = collect_garbage(place, (), dry_run=True)
    assert {each.found.path: each.reason for each in planned} == {
        old: None,
        young: "it was changed within the last hour",
    }
    assert os.path.exists(old)
    assert [each.removed for each in collect_garbage(place, (), agreed=set())] == [False, False]
    done = {each.found.path: each.removed for each in collect_garbage(place, ())}
    assert done == {old: True, young: False}
    assert {complete, young, f"{place}/photos"} == {f"{place}/{n}" for n in os.listdir(place)}


def test_what_a_request_writes_stays(place: str, tmp_path: Path) -> None:
    old = unfinished(place)
    mine = collect_garbage(place, [(place, JOB_ID)], dry_run=True)
    assert [each.reason for each in mine] == ["it is being written"]
    elsewhere = [(str(tmp_path / "elsewhere"), JOB_ID), (place, OTHER)]
    (other,) = collect_garbage(place, elsewhere)
    assert other.removed
    assert not os.path.exists(old)


def test_what_a_lease_names_stays(place: str) -> None:
    old = unfinished(place)
    for arguments in ({"job_id": JOB_ID}, {"path": old, "job_id": "cd" * 16}):
        with Lease.take(place, Kind.WRITE, owner="me@h", **arguments):
            (found,) = collect_garbage(place, (), dry_run=True)
            assert found.reason == "it is being written"
            with pytest.raises(Locked):
                collect_garbage(place, ())
    assert os.path.exists(old)


def test_a_husk_goes_when_its_users_are_gone(place: str) -> None:
    husk = unfinished(place)
    storage.make_directory(f"{husk}/{sharing.DIRECTORY}")
    user = make_savepoint(place, 1, held=f"{NAME}/0-q/metadata", data=b"x")
    Path(husk, sharing.DIRECTORY, os.path.basename(user)).write_bytes(b"")
    later = time.time() + 7200
    (found,) = collect_garbage(place, (), now=later)
    assert (found.reason, found.removed) == ("other savepoints use its files", False)
    # Also when it says nothing of its user, which was renamed: the user says it.
    os.rename(user, f"{place}/renamed")
    (found,) = collect_garbage(place, (), now=later)
    assert found.reason == "other savepoints use its files"
    os.unlink(f"{place}/renamed/_metadata")
    (found,) = collect_garbage(place, (), now=later)
    assert found.removed
    assert not os.path.exists(husk)


def test_a_husk_stays_while_its_user_is_being_written() -> None:
    husk = Unfinished("/sp/" + NAME, 1.0, ("savepoint-ffffff-0123456789ab",), 1, 1)
    user = Unfinished("/sp/savepoint-ffffff-0123456789ab", SOON - 5, (), 1, 1)
    found = judge_garbage([husk, user], Catalog(), (), (), SOON)
    assert [each.reason for each in found] == [
        "a savepoint being written uses its files",
        "it was changed within the last hour",
    ]
    found = judge_garbage([husk, user], Catalog(), (), (), SOON + 3600)
    assert [each.reason for each in found] == [None, None]


def test_an_unknown_age_is_no_age() -> None:
    (found,) = judge_garbage(
        [Unfinished("s3://b/" + NAME, None, (), 0, 0)], Catalog(), (), (), SOON
    )
    assert found.reason == "its age is unknown"
