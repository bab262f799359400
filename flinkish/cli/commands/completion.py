"""``flinkish completion bash|zsh|fish``: the completion script of a shell."""

from __future__ import annotations

import sys

import click

from flinkish.cli.base import Call, command
from flinkish.cli.completion_files import SHELLS, script


@command("completion", exit_codes=())
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
        call.out.document({"shell": shell, "script": text})
    else:
        sys.stdout.write(text)
    return 0
