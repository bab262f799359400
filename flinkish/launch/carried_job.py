"""The file that carries a job to a driver in cluster mode: flinkish, the program, its parameters.

flinkish need not be installed on the nodes: one zip file holds the package, the packages that its
driver needs (:data:`DISTRIBUTIONS`, :data:`OF_SCHEMES`) and the user's program. Python runs a zip
file that has a ``__main__.py``, regardless of its suffix, so it can be the "program" of every
cluster manager:

* YARN and Kubernetes: ``spark-submit`` uploads it as the Python program (``.py``) to a staging
  directory (which only its owner can read on YARN);
* standalone: ``spark-submit`` refuses Python programs in cluster mode, so it is submitted as the
  *jar* of Spark's own ``PythonRunner``, which runs a file in the driver's working directory, and
  that is where the worker puts the jar. The workers must reach the file, so it is written next to
  the job's checkpoints, and removed as soon as the driver runs.

The parameters contain the registry's URL and other secrets, which therefore never appear on a
command line or in an environment that others see. A similar file, the bundle, contains flinkish and
a program for other launchers (:func:`bundle`).

Sources: ``SparkSubmit.prepareSubmitEnvironment``, ``deploy.PythonRunner``,
``deploy.worker.DriverRunner`` (Spark 3.5 and 4.3).
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from io import BytesIO
from pathlib import Path

from flinkish import storage
from flinkish.errors import LaunchFailed, StorageError, UsageError
from flinkish.launch import secret_settings, spark_submit
from flinkish.launch.deploy_mode import ClusterManager, manager_of
from flinkish.messages.launch import Launch, Program, Secrets
from flinkish.registry.jobs import JobRecord

#: Distributions that the driver needs and a node may lack; their requirements are added.
DISTRIBUTIONS = ("fsspec", "fastavro", "psycopg", "psycopg-binary")
#: The same for storage, by URL scheme of the job's directories; see the extras in pyproject.toml.
OF_SCHEMES = {
    "s3": "s3fs",
    "hdfs": "hdfs-native",
    "viewfs": "hdfs-native",
    "gs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
}
#: Name of the parameters in the file.
PARAMETERS = "flinkish-job.json"
#: Name of the file that a standalone worker puts into the driver's working directory.
JAR = "flinkish-job.jar"
#: The variable that tells a driver which program is bundled (:mod:`flinkish.driver.carried`).
BUNDLE_VARIABLE = "FLINKISH_BUNDLE"
_MAIN = "flinkish/driver/carried.py"


@contextmanager
def carried_job(
    job: JobRecord, launch: Launch, url: str, secret: Secrets, log_directory: str | None
) -> Iterator[str]:
    """Write the file that carries one start of a job to its driver; yield its path or URL.

    The file is removed at the end; if that fails, the error is only printed. For a standalone
    cluster the workers can read its URL; otherwise it is in ``log_directory`` (default: that of
    temporary files), from where ``spark-submit`` uploads it. ``secret`` has the secrets, which the
    registry does not record. Raises LaunchFailed if the file cannot be made or written, UsageError
    if a file of the launch cannot be shipped to the driver.
    """
    standalone = manager_of(launch) is ClusterManager.STANDALONE
    root = (job.checkpoint_dir or "").rstrip("/")
    where = _location(
        launch, storage.parent(root) if root else "", log_directory, secrets.token_hex(8)
    )
    try:
        data = archive(job, launch, url, secret, where if standalone else None)
    except OSError as error:
        raise LaunchFailed(
            f"the file that carries the job to its driver could not be made: {error}",
            hint="see that the program and its files exist and can be read",
        ) from error
    try:
        if standalone:
            _write_beside(where, data)
        else:
            with open(os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
        yield _for_submission(where)
    except (OSError, StorageError) as error:
        raise LaunchFailed(
            f"the file that carries the job to its driver could not be written: {error}",
            hint="see that the directory of the checkpoints and of the job's log can be written",
        ) from error
    finally:
        # A store that is down must not hide why the driver ended, nor end the supervisor.
        try:
            remove(where)
        except (OSError, StorageError) as error:
            print(
                f"flinkish: {where}, which contains the job's secrets, could not be removed: "
                f"{error}",
                file=sys.stderr,
            )


def example_of(launch: Launch, checkpoints: str, log_directory: str) -> str:
    """Return the path or URL of the file, with X for the part that differs at each launch.

    ``checkpoints`` is the directory in which the job gets its own. Nothing is written.
    """
    return _for_submission(_location(launch, checkpoints, log_directory, "X" * 16))


def _location(launch: Launch, checkpoints: str, log_directory: str | None, token: str) -> str:
    if manager_of(launch) is ClusterManager.STANDALONE:
        return f"{checkpoints.rstrip('/')}/.launch-{token}/{JAR}"
    return os.path.join(log_directory or tempfile.gettempdir(), f"flinkish-{token}.py")


def _for_submission(location: str) -> str:
    is_jar = location.endswith(f"/{JAR}")
    return storage.for_spark(storage.to_uri(location)) if is_jar else location


def remove(location: str) -> None:
    """Remove the file and, on a standalone cluster, its directory; they may be gone."""
    if location.endswith(f"/{JAR}"):
        storage.remove_tree(*storage.split(storage.parent(location)))
    else:
        storage.remove_file(*storage.split(location))


def _write_beside(where: str, data: bytes) -> None:
    directory = storage.parent(where)
    if not storage.is_local(where):
        storage.write_bytes(where, data)
        return
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    # The worker may run as another user of the same group, who must reach the checkpoints too.
    os.mkdir(directory, 0o750)
    with open(os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640), "wb") as file:
        file.write(data)


def archive(job: JobRecord, launch: Launch, url: str, secret: Secrets, origin: str | None) -> bytes:
    """Return the content of the file; see :func:`carried_job`.

    ``origin`` is the location from which the driver must remove the file, if any.
    """
    import json

    buffer = BytesIO()
    with _new_archive(buffer) as target:
        _add_flinkish(target, _distributions(_schemes(job, launch)))
        arguments = (
            secret_settings.arguments_of(launch) if secret.arguments is None else secret.arguments
        )
        program = _add_program(target, launch)
        document = {
            "environment": {
                "FLINKISH_JOB_ID": job.job_id,
                "FLINKISH_REGISTRY": url,
                "PYTHONUNBUFFERED": "1",
            },
            "program": program,
            "arguments": list(arguments),
            "origin": origin,
            **_standalone_part(target, launch, secret.conf),
        }
        target.writestr(PARAMETERS, json.dumps(document))
    return buffer.getvalue()


def bundle(program: Program, schemes: Collection[str]) -> tuple[bytes, list[str]]:
    """Return a bundle (flinkish with a program, for other launchers) and its distributions' names.

    Without a file or module the program is the launcher's first argument. ``schemes`` are those of
    the storages that the driver uses. The bundle contains no configuration and no secrets.
    """
    import json

    buffer = BytesIO()
    names = _distributions(schemes)
    with _new_archive(buffer) as target:
        _add_flinkish(target, names)
        target.writestr("flinkish/__init__.py", _main_source())
        document = {
            "environment": {BUNDLE_VARIABLE: ""},
            "program": _add_program(target, program),
            "arguments": list(program.arguments),
            "origin": None,
            "is_bundle": True,
        }
        target.writestr(PARAMETERS, json.dumps(document))
    return buffer.getvalue(), names


def _new_archive(buffer: BytesIO) -> zipfile.ZipFile:
    # This level makes the file a tenth larger than zlib's default, in half the time. Reproducible
    # images date files before 1980, the earliest date of a zip file.
    return zipfile.ZipFile(
        buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False
    )


def _main_source() -> bytes:
    return (Path(spark_submit.flinkish_home()) / _MAIN).read_bytes()


def _add_flinkish(target: zipfile.ZipFile, distributions: Sequence[str]) -> None:
    target.writestr("__main__.py", _main_source())
    _add_tree(target, Path(spark_submit.flinkish_home()) / "flinkish", "home/flinkish")
    for name in distributions:
        _add_distribution(target, name)


def _add_program(target: zipfile.ZipFile, program: Program) -> list[str]:
    """Add a program; return the words that start it: its path in the archive, or its module."""
    if program.application is None:
        return [] if program.module is None else ["--module", program.module]
    name = f"program/{os.path.basename(program.application)}"
    target.write(program.application, name)
    return [name]


def _standalone_part(
    target: zipfile.ZipFile, launch: Launch, secret: Mapping[str, str]
) -> dict[str, object]:
    """Add what other cluster managers transport themselves: files for imports, secret settings.

    Spark puts all settings of a standalone application on the command line of its driver, which
    every user of the worker's host can read.
    """
    if manager_of(launch) is not ClusterManager.STANDALONE:
        return {}
    names = []
    for path in launch.py_files:
        if not os.path.isfile(path):
            raise UsageError(
                f"{path} cannot be shipped to a driver on a standalone cluster",
                hint="-pyfs takes only files of this host there",
            )
        names.append(f"files/{os.path.basename(path)}")
        target.write(path, names[-1])
    return {"py_files": names, "conf": dict(secret)}


def _add_tree(target: zipfile.ZipFile, root: Path, name: str) -> None:
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            target.write(path, f"{name}/{path.relative_to(root).as_posix()}")


def _schemes(job: JobRecord, launch: Launch) -> set[str]:
    """Return the schemes of a job's directories."""
    places = [job.checkpoint_dir, launch.options.get("execution.checkpointing.savepoint-dir")]
    if launch.restore is not None:
        places.append(launch.restore.path)
    return {storage.scheme_of(storage.locate(place)) for place in places if place}


def _distributions(schemes: Collection[str]) -> list[str]:
    """Return the distributions that the driver needs: flinkish's own, and those of its storages."""
    wanted = [_Wanted(name) for name in DISTRIBUTIONS]
    wanted += [_Wanted(name) for key, name in OF_SCHEMES.items() if key in schemes]
    chosen: dict[_Wanted, None] = {}
    while wanted:
        each = wanted.pop(0)
        if each not in chosen and _distribution(each.name) is not None:
            chosen[each] = None
            wanted += _requirements(each)
    return list(dict.fromkeys(each.name for each in chosen))


@dataclass(frozen=True)
class _Wanted:
    """A distribution, and those of its extras that are wanted too."""

    name: str
    extras: frozenset[str] = frozenset()


_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([^\]]*)\])?")
_OF_EXTRA = re.compile(r"""\bextra\s*==\s*['"]([^'"]+)""")


def _requirements(wanted: _Wanted) -> list[_Wanted]:
    """Return a distribution's requirements, without those of extras that are not wanted."""
    required = []
    for text in metadata.requires(wanted.name) or ():
        extra, match = _OF_EXTRA.search(text), _REQUIREMENT.match(text)
        if match is not None and (extra is None or extra[1] in wanted.extras):
            extras = frozenset(each.strip() for each in (match[2] or "").split(",") if each.strip())
            required.append(_Wanted(_normal(match[1]), extras))
    return required


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None  # required only on another platform or an older Python


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _add_distribution(target: zipfile.ZipFile, name: str) -> None:
    """Add the files of a wheel in ``site-packages``, including libraries and metadata."""
    distribution = metadata.distribution(name)
    for file in distribution.files or ():
        path = Path(str(distribution.locate_file(file)))
        if ".." in file.parts or "__pycache__" in file.parts or not path.is_file():
            continue
        target.write(path, f"packages/{file.as_posix()}")
