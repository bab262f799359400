"""The completion scripts; ``python -m flinkish.cli.completion_files`` writes ``completions/``."""

from __future__ import annotations

import os

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """Return click's completion script for ``bash``, ``zsh`` or ``fish``."""
    from click.shell_completion import get_completion_class

    from flinkish.cli.app import COMPLETE, root

    cls = get_completion_class(shell)
    assert cls is not None
    completer = cls(root, {}, "flinkish", COMPLETE)
    # source() would run bash to get its version; the script is the same for all versions.
    return (completer.source_template % completer.source_vars()).strip() + "\n"


def main() -> None:
    """Write the scripts into ``completions/`` of this checkout."""
    here = os.path.dirname(os.path.abspath(__file__))
    directory = os.path.join(os.path.dirname(os.path.dirname(here)), "completions")
    for shell in SHELLS:
        with open(os.path.join(directory, f"flinkish.{shell}"), "w", encoding="utf-8") as file:
            file.write(script(shell))


if __name__ == "__main__":
    main()
