"""Bundle a program with flinkish's agent, for launchers that are not flinkish."""

from __future__ import annotations

import platform
from collections.abc import Collection
from dataclasses import replace

from flinkish import storage
from flinkish.client.program import program_file
from flinkish.config import working_directory
from flinkish.errors import UsageError
from flinkish.launch.carried_job import OF_SCHEMES, bundle
from flinkish.messages.launch import Program
from flinkish.messages.results import Bundle
from flinkish.storage.locations import locate_from


def bundle_program(
    program: Program,
    path: str,
    *,
    storages: Collection[str] = (),
    cwd: str | None = None,
    dry_run: bool = False,
) -> Bundle:
    """Write a program, flinkish's agent and the packages that the agent needs into one file.

    Parameters
    ----------
    program : Program
        The program's file or module, and its first arguments. Without a file or module, the
        launcher's first argument names the program.
    path : str
        The file to write; an existing file is replaced. ``spark-submit`` takes a file that ends in
        ``.py`` as the program, and a file that ends in ``.zip`` with ``--py-files``.
    storages : collection of str
        Schemes of remote storages that the job uses, such as ``s3``.
    cwd : str, optional
        The directory at which relative paths start.
    dry_run : bool
        Write nothing.

    Raises
    ------
    UsageError
        There is no such program; ``path`` ends in neither ``.py`` nor ``.zip``, or is on remote
        storage; or a scheme is unknown.
    StorageError
        The program cannot be accessed, or the file cannot be written.
    """
    if not path.endswith((".py", ".zip")):
        raise UsageError(
            f"{path} ends in neither .py nor .zip",
            hint="name it FILE.py to submit it as the program, FILE.zip for --py-files",
        )
    for scheme in storages:
        if scheme not in OF_SCHEMES:
            raise UsageError(
                f"no package is known for the storage {scheme}",
                hint=f"use one of {', '.join(OF_SCHEMES)}",
            )
    here = working_directory() if cwd is None else cwd
    if program.application is not None:
        program = replace(program, application=program_file(program.application, here))
    data, packages = bundle(program, storages)
    target = locate_from(here, path)
    if not storage.is_local(target):
        raise UsageError(
            f"{path} is not a file of this host",
            hint="name a local file, then copy it to that storage",
        )
    if not dry_run:
        storage.write_atomically(target, data)
    where = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    name = program.application or program.module
    return Bundle(target, len(data), name, tuple(packages), where)
