"""``flinkish completion bash|zsh|fish``: the completion script of a shell.

``python -m flinkish.cli.commands.completion`` writes all shells' scripts into ``completions/``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.installation import CompletionDocument

SHELLS = ("bash", "zsh", "fish")


@command("completion", exit_codes=(), documents=(CompletionDocument,))
@click.argument("shell", metavar="|".join(SHELLS), type=click.Choice(SHELLS))
def completion(call: Call, shell: str) -> int:
    """Print the completion script of a shell.

    \b
    bash:  flinkish completion bash > ~/.local/share/bash-completion/completions/flinkish
    zsh:   flinkish completion zsh > DIRECTORY-IN-FPATH/_flinkish
    fish:  flinkish completion fish > ~/.config/fish/completions/flinkish.fish
    """
    text = script(shell)
    if call.out.json:
        document: CompletionDocument = {"shell": shell, "script": text}
        call.out.document(document)
    else:
        sys.stdout.write(text)
    return 0


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
    directory = Path(__file__).resolve().parents[3] / "completions"
    for shell in SHELLS:
        (directory / f"flinkish.{shell}").write_text(script(shell), encoding="utf-8")


if __name__ == "__main__":
    main()
