"""What git says of the checkout that is tested, and of the commits before it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: Written by runs: a checkout that differs from its commit only in these is that commit.
RECORDS = ("tests/tier_records.json", "tests/fast_record.json")


@dataclass(frozen=True)
class Change:
    """One file in one commit: its blobs before and after, None where it is not there."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Commit:
    """A commit on the first-parent way of the history, and what it changed."""

    id: str
    changes: tuple[Change, ...]


class Repository:
    """A work tree and its git."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root

    def git(self, *words: str, **environment: str) -> str | None:
        """Return what git prints; None where it fails or there is none."""
        try:
            done = subprocess.run(
                ["git", *words],
                cwd=self.root,
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, **environment},
            )
        except OSError:
            return None
        return done.stdout.strip("\n") if done.returncode == 0 else None

    def head(self) -> str | None:
        """Return the commit that is checked out."""
        return self.git("rev-parse", "HEAD")

    def introduced(self, text: str) -> str | None:
        """Return the first commit that had a text in the records."""
        words = ("--first-parent", "-m", "--reverse", "--format=%H", f"-S{text}")
        return (self.git("log", *words, "--", RECORDS[0]) or "").partition("\n")[0] or None

    def branched_from(self, commit: str) -> str | None:
        """Return the commit at which a branch with this one left what it was merged into.

        A branch that is not merged has left the checkout's history. None where nothing is shared.
        """
        later = set((self.git("rev-list", "--ancestry-path", f"{commit}..HEAD") or "").split())
        way = (self.git("rev-list", "--first-parent", "HEAD") or "").split()
        merges = [each for each in way if each in later]
        return self.git("merge-base", commit, f"{merges[-1]}^1" if merges else "HEAD") or None

    def is_whole(self) -> bool:
        """Return whether the whole history is here: no tarball, no shallow clone."""
        inside = self.git("rev-parse", "--show-toplevel")
        shallow = self.git("rev-parse", "--is-shallow-repository")
        return inside is not None and Path(inside) == self.root.resolve() and shallow == "false"

    def is_at(self, commit: str) -> bool:
        """Return whether the checkout is this commit and nothing else, but for the records."""
        but = [".", *(f":!{path}" for path in RECORDS)]
        changed = self.git("diff", "--name-only", commit, "HEAD", "--", *but)
        return changed == "" and self.git("status", "--porcelain", "--", *but) == ""

    def tree(self, name: str) -> dict[str, str] | None:
        """Return path -> blob of a commit or tree; None where it is not here."""
        listed = self.git("ls-tree", "-r", "-z", "--full-tree", name)
        if listed is None:
            return None
        rows = (row.split("\t", 1) for row in listed.split("\0") if row)
        return {path: of.split()[2] for of, path in rows}

    def work_tree(self) -> dict[str, str]:
        """Return path -> blob of the files as they are, not committed ones included."""
        index = self.git("rev-parse", "--git-path", "index")
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory) / "index"
            if index is not None and (self.root / index).exists():
                shutil.copy2(self.root / index, copy)
            self.git("add", "--all", GIT_INDEX_FILE=str(copy))
            tree = self.git("write-tree", GIT_INDEX_FILE=str(copy))
        return (self.tree(tree) if tree else None) or {}

    def contents(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of blobs."""
        wanted = sorted(set(blobs))
        done = subprocess.run(
            ["git", "cat-file", "--batch"],
            cwd=self.root,
            input="".join(f"{blob}\n" for blob in wanted).encode(),
            capture_output=True,
            check=True,
        ).stdout
        found, at = {}, 0
        for blob in wanted:
            line = done.index(b"\n", at)
            size = int(done[at:line].split()[2])
            found[blob] = done[line + 1 : line + 1 + size]
            at = line + size + 2
        return found

    def history(self) -> list[Commit]:
        """Return the commits that lead to the checkout, newest first, with what each changed."""
        words = ("--first-parent", "-m", "--raw", "--no-abbrev", "--no-renames", "--root", "-z")
        listed = self.git("log", *words, "--format=%x01%H")
        commits = []
        for part in (listed or "").split("\x01")[1:]:
            name, *rest = (field.strip("\n") for field in part.split("\0"))
            rest = [field for field in rest if field]
            changes = tuple(
                Change(path, *(_blob(blob) for blob in of.split()[2:4]))
                for of, path in zip(rest[::2], rest[1::2], strict=True)
            )
            commits.append(Commit(name, changes))
        return commits


def _blob(name: str) -> str | None:
    return None if set(name) == {"0"} else name
