"""``plan.json``: a saved restore plan, to be reviewed and later carried out exactly as it is.

The plan is bound to its inputs: the digest of the savepoint's ``_metadata`` (which seals all its
files), the program with its arguments, and the version of Spark. Modules imported from elsewhere
are not in the program's digest. If such a module changes the program's operators, sources or sinks,
the driver notices when it plans again: the new plan must equal the saved one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

from flinkish import storage
from flinkish.config.secrets import mask_words
from flinkish.errors import (
    ConsentNeeded,
    Corrupt,
    Incompatible,
    SavepointNotFound,
    StorageError,
    UsageError,
)
from flinkish.launch.secret_settings import redaction_of, shown_arguments
from flinkish.messages.codec import decode_fields, encode_fields
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import RestorePlan
from flinkish.messages.restore_options import RestoreOptions
from flinkish.storage import storage_error

_KIND = "flinkish restore plan"
#: The version of a plan file that is written, and the only one that is read.
PLAN_VERSION = 1
#: Largest size of a plan file, in bytes.
_MAX_BYTES = 64 << 20
#: Bytes of a file that are read at once for its digest, because archives may be large.
_BLOCK = 1 << 20
_MAKE_AGAIN = "make it again with this flinkish: flinkish check -o FILE"


@dataclass(frozen=True)
class PlanFile:
    """A saved plan.

    ``options``: how the savepoint is restored. ``parallelism``: the requested state partitions.
    """

    savepoint: str
    savepoint_digest: str
    application: str | None
    module: str | None
    arguments: tuple[str, ...]
    program_digest: str
    spark_version: str | None
    options: RestoreOptions
    parallelism: int | None
    plan: RestorePlan

    def restore_spec(self, claim_mode: str | None) -> RestoreSpec:
        """Return the restore of this plan; the driver's plan must equal this one."""
        from flinkish.savepoint.directory.places import savepoint_meant

        options = replace(self.options, claim_mode=claim_mode)
        path = savepoint_meant(self.savepoint)
        return RestoreSpec(path, options, self.parallelism, expected=self.plan)


def bound_file(
    spec: RestoreSpec, launch: Launch, spark_version: str | None
) -> Callable[[RestorePlan], PlanFile]:
    """Return a function that makes the file of a plan, bound to the plan's inputs as they are now.

    :func:`bound_file` must be called before ``spec`` is planned, so that later changes to the
    inputs are noticed. ``launch`` is the program's launch, pinned to a Spark.

    Raises the errors of :func:`savepoint_digest`; StorageError if the program cannot be read.
    """
    return partial(
        PlanFile,
        spec.path,
        savepoint_digest(spec.path),
        launch.application,
        launch.module,
        mask_words(launch.arguments, redaction_of(launch)),
        program_digest(launch),
        spark_version,
        spec.options,
        spec.parallelism,
    )


def save(plan: PlanFile, path: str) -> None:
    """Write a plan to a file atomically; to a pipe or a device directly. Raises StorageError."""
    record = {"kind": _KIND, "schema_version": PLAN_VERSION, **encode_fields(plan)}
    storage.write_output(path, (json.dumps(record, indent=2) + "\n").encode())


def load(path: str) -> PlanFile:
    """Read a plan.

    Raises UsageError if the file is not a plan of this version; StorageError if access is denied.
    """
    try:
        with open(path, "rb") as file:  # the user's choice: may be a pipe
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise UsageError(f"{path} is larger than {_MAX_BYTES} bytes: it is not a restore plan")
        record = json.loads(data)
    except FileNotFoundError:
        raise UsageError(
            f"no plan at {path}", hint="make one with: flinkish check -o FILE"
        ) from None
    except PermissionError as error:
        raise storage_error("read", path, error) from error
    except (OSError, RecursionError, ValueError) as error:
        raise UsageError(f"cannot read {path} as a plan: {error}") from error
    if not isinstance(record, dict) or record.get("kind") != _KIND:
        raise UsageError(
            f"{path} is not a restore plan", hint="make one with: flinkish check -o FILE"
        )
    if record.get("schema_version") != PLAN_VERSION:
        raise UsageError(
            f"{path} is a plan of version {record.get('schema_version')}; this flinkish "
            f"supports version {PLAN_VERSION}",
            hint=_MAKE_AGAIN,
        )
    try:
        fields_of_plan = {field.name: record[field.name] for field in fields(PlanFile)}
    except KeyError as error:
        raise UsageError(f"{path} lacks {error}", hint=_MAKE_AGAIN) from error
    try:
        return decode_fields(PlanFile, fields_of_plan)
    except Corrupt as error:
        raise UsageError(f"{path} is damaged: {error.message}", hint=_MAKE_AGAIN) from error


def check_unchanged(plan: PlanFile, launch: Launch, spark_version: str | None) -> None:
    """Refuse a plan whose savepoint, program or Spark version has changed since it was made.

    ``launch`` is pinned, as for :func:`bound_file`.

    Raises Incompatible if something has changed (the error says what), or if the plan cannot be
    carried out; ConsentNeeded if the plan lacks a consent that it needs; and as
    :func:`bound_file`, for example SavepointNotFound if the savepoint is gone.
    """
    for what, before, now in (
        ("the savepoint", plan.savepoint_digest, savepoint_digest(plan.savepoint)),
        ("the program", plan.program_digest, program_digest(launch)),
        ("the version of Spark", plan.spark_version, spark_version),
    ):
        if before != now:
            detail = f" ({before}, now {now})" if what.endswith("Spark") else ""
            files = "pass -pyfs and -pyarch as for check, or " if what == "the program" else ""
            raise Incompatible(
                f"{what} has changed since the plan was made{detail}",
                hint=f"{files}make a new plan with: flinkish check -o FILE",
            )
    if plan.plan.exit_code == ConsentNeeded.code:
        raise ConsentNeeded(
            f"the plan needs your consent: its verdict is {plan.plan.verdict}",
            hint="see the plan's advice, and make it again with the option named there: flinkish "
            "check -o FILE",
        )
    if plan.plan.exit_code != 0:
        raise Incompatible(
            f"the plan cannot be carried out: its verdict is {plan.plan.verdict}",
            hint="see it with: flinkish check",
        )


def savepoint_digest(path: str) -> str:
    """Return a digest of a savepoint's ``_metadata``, or of a plain checkpoint's newest cuts.

    Of a cut, its query id, batch, offsets and file names are included. Raises SavepointNotFound,
    StorageError, and the errors of ``read_whole_cut`` for a checkpoint.
    """
    from flinkish.restore.origin.restore_origin import adopt_cuts
    from flinkish.savepoint.format.metadata import FILE_NAME
    from flinkish.savepoint.format.reader import open_savepoint, savepoint_directory

    directory = savepoint_directory(path)
    digest = hashlib.sha256()
    try:
        metadata = storage.read_bytes(storage.join(directory, FILE_NAME))
    except FileNotFoundError:
        pass
    else:
        digest.update(hashlib.sha256(metadata).digest())
        return digest.hexdigest()
    try:
        cuts = adopt_cuts(path)
    except SavepointNotFound:
        open_savepoint(path)  # its error says what is there instead
        raise
    for key, cut in cuts.items():
        text = json.dumps([key, cut.query_id, cut.batch_id, *cut.offsets, *cut.files])
        digest.update(text.encode())
    return digest.hexdigest()


def program_digest(launch: Launch) -> str:
    """Return the SHA-256 of a program: its file, Python files, archives, module and arguments.

    Only files on this host are included. Of secret arguments, only the number is included.
    """
    archives = (archive.partition("#")[0] for archive in launch.archives)
    local = [f for f in (launch.application, *launch.py_files, *archives) if f]
    files = [path for path in local if os.path.isfile(path)]
    words = json.dumps([launch.module, list(shown_arguments(launch)), _digest_of_files(files)])
    return hashlib.sha256(words.encode()).hexdigest()


def _digest_of_files(paths: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        one = hashlib.sha256()
        try:
            with open(path, "rb") as file:
                while block := file.read(_BLOCK):
                    one.update(block)
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}", path=path) from error
        digest.update(one.digest())
    return digest.hexdigest()
