"""The ``__main__`` of the file that ships a job, or a bundled program, to a driver.

Unpacks the file (:mod:`flinkish.launch.carried_job`) into a directory that only this user can read,
and runs ``driver/__main__.py`` from there. A job's directory is below the working directory,
which the cluster manager removes. A job's parameters contain secrets, so they are not unpacked, and
the file is removed if possible. A bundle has no secrets; its file stays and can be started again.

In a bundle this module is also ``flinkish/__init__.py``, for programs that import flinkish from the
file (``spark-submit --py-files``). It imports only the standard library, because no other package
can be imported yet.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import shutil
import sys
import tempfile
import zipfile
from contextlib import suppress
from importlib import import_module
from typing import Any

#: Tells :mod:`flinkish.driver.bootstrap` the Spark settings that this driver's JVM lacks, as JSON.
SETTINGS_VARIABLE = "FLINKISH_CARRIED_CONF"
#: Tells :mod:`flinkish.driver.bootstrap` the location of the job's file, which it must remove.
ORIGIN_VARIABLE = "FLINKISH_CARRIED_FROM"
#: Tells :mod:`flinkish.driver.bootstrap` that another launcher started a bundle, and the path of
#: the program in it, which is the same at each start; empty if the bundle has no program's file.
BUNDLE_VARIABLE = "FLINKISH_BUNDLE"

#: Name of the parameters in the file.
PARAMETERS = "flinkish-job.json"


#: Members that are not unpacked: the modules that Python loads from the file, and the parameters.
_NOT_UNPACKED = ("__main__.py", "flinkish/__init__.py", PARAMETERS)


def main() -> None:
    """Unpack this file and run the job's driver."""
    archive = os.path.abspath(sys.argv[0])
    document, directory = _unpacked(archive)
    if not document.get("is_bundle"):
        with suppress(OSError):
            os.unlink(archive)
    elif not document["program"] and len(sys.argv) < 2:
        sys.exit(f"usage: spark-submit {os.path.basename(archive)} APP.py [ARGS]...")
    os.environ.update(document["environment"])
    os.environ["FLINKISH_HOME"] = os.path.join(directory, "home")
    packages = os.path.join(directory, "packages")
    os.environ["FLINKISH_FALLBACK_PATH"] = packages
    names = {name.removesuffix(".py") for name in os.listdir(packages)}
    os.environ["FLINKISH_FALLBACK_NAMES"] = ",".join(sorted(n for n in names if n.isidentifier()))
    if document["origin"]:
        os.environ[ORIGIN_VARIABLE] = document["origin"]
    files = [os.path.join(directory, name) for name in document.get("py_files", ())]
    if "conf" in document:
        settings = dict(document["conf"])
        if files:
            settings["spark.submit.pyFiles"] = ",".join(files)
        os.environ[SETTINGS_VARIABLE] = json.dumps(settings)
    program = document["program"]
    if program and program[0] != "--module":
        if document.get("is_bundle"):
            os.environ[BUNDLE_VARIABLE] = os.path.join(archive, os.path.basename(program[0]))
        program = [os.path.join(directory, program[0])]
    arguments = document["arguments"]
    if document.get("is_bundle"):
        arguments = [*arguments, *sys.argv[1:]]
    # The first entry of the import path is this file.
    sys.path[:1] = [path for path in files if not path.endswith(".py")]
    sys.path[:0] = sorted({os.path.dirname(path) for path in files if path.endswith(".py")})
    start = os.path.join(directory, "home", "flinkish", "driver", "__main__.py")
    sys.argv = [start, *program, *arguments]
    runpy.run_path(start, run_name="__main__")


def _unpacked(archive: str) -> tuple[Any, str]:
    """Unpack a file; return its parameters and the directory that has its other members."""
    with zipfile.ZipFile(archive) as source:
        document = json.loads(source.read(PARAMETERS))
        is_bundle = bool(document.get("is_bundle"))
        directory = tempfile.mkdtemp(prefix="flinkish-", dir=None if is_bundle else os.getcwd())
        if is_bundle:
            atexit.register(shutil.rmtree, directory, ignore_errors=True)
        members = [name for name in source.namelist() if name not in _NOT_UNPACKED]
        source.extractall(directory, members)
    return document, directory


def become_flinkish(module: dict[str, Any]) -> None:
    """Make this module, imported from a bundle as ``flinkish``, the package that is in the file.

    ``module`` has this module's globals. Packages that flinkish needs and this interpreter lacks
    come from the file too.
    """
    _, directory = _unpacked(os.path.dirname(os.path.dirname(module["__file__"])))
    package = os.path.join(directory, "home", "flinkish")
    path = os.path.join(package, "__init__.py")
    module["__path__"] = module["__spec__"].submodule_search_locations = [package]
    module["__file__"] = path
    packages = os.path.join(directory, "packages")
    names = [name.removesuffix(".py") for name in os.listdir(packages)]
    with open(path, encoding="utf-8") as source:
        exec(compile(source.read(), path, "exec"), module)
    finder = import_module("flinkish.driver.__main__").NamedFinder
    sys.meta_path.append(finder([name for name in names if name.isidentifier()], [packages]))


if __name__ == "__main__":
    main()
elif __name__ == "flinkish":
    become_flinkish(globals())
