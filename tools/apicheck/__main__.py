"""``python -m tools.apicheck``: does a change break what its annotation promises?

Exit status: 0 if nothing is broken that the next release may not break, 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flinkish import __version__
from tools.apicheck import interface, python_api
from tools.apicheck.promise import Change, release_between

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("record.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tools.apicheck", description=__doc__)
    parser.add_argument(
        "--record", action="store_true", help="record what is exported now, if nothing is broken"
    )
    parser.add_argument(
        "--anew", action="store_true", help="with --record: even so, for what no release has had"
    )
    options = parser.parse_args(arguments)
    if options.anew and not options.record:
        parser.error("--anew requires --record")
    try:
        now = surface(ROOT)
    except python_api.NotAnnotated as error:
        print(f"exported without an annotation of flinkish.annotations: {error}", file=sys.stderr)
        return 1
    recorded = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else None
    broken = [] if recorded is None else judge(recorded, now)
    for change in broken:
        print(f"broken: {change}; it needs a {change.needs.name.lower()} release")
    if broken and not options.anew:
        print(
            f"{len(broken)} promises are broken, see docs/compatibility.md: keep the old name or "
            "default, or raise the version in flinkish/__init__.py",
            file=sys.stderr,
        )
        return 1
    if options.record:
        RECORD.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


def surface(root: Path) -> dict[str, Any]:
    """Return what is exported now."""
    return {
        "version": __version__,
        "python": python_api.exported(root),
        "interface": interface.interface(),
    }


def judge(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Return the changes that the release from the recorded version to this one must not have."""
    release = release_between(recorded["version"], now["version"])
    changes = [
        *python_api.changes(recorded["python"], now["python"]),
        *interface.changes(recorded["interface"], now["interface"]),
    ]
    return [change for change in changes if not change.is_allowed(release)]


if __name__ == "__main__":
    sys.exit(main())
