"""The ``__main__`` of the file that brings a job to a driver in cluster mode.

Unpacks the file (:mod:`flinkish.launch.carried_job`) into a directory that only this user can read,
below the working directory that the cluster manager removes, and runs ``driver/__main__.py`` from
there. Imports the standard library alone: nothing else is there yet. The parameters have secrets:
they are not unpacked, and the file is removed.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
import zipfile
from contextlib import suppress

#: To :mod:`flinkish.driver.bootstrap`: Spark's settings that this driver's JVM does not have, as
#: JSON, and the name of the jar to leave out.
SETTINGS_VARIABLE = "FLINKISH_CARRIED_CONF"
#: To :mod:`flinkish.driver.bootstrap`: where the file was got from, and is to be removed.
ORIGIN_VARIABLE = "FLINKISH_CARRIED_FROM"

#: Name of the parameters in the file.
PARAMETERS = "flinkish-job.json"


def main() -> None:
    """Unpack this file and run the job's driver."""
    archive = os.path.abspath(sys.argv[0])
    directory = tempfile.mkdtemp(prefix="flinkish-", dir=os.getcwd())
    with zipfile.ZipFile(archive) as source:
        document = json.loads(source.read(PARAMETERS))
        members = [name for name in source.namelist() if name not in ("__main__.py", PARAMETERS)]
        source.extractall(directory, members)
    with suppress(OSError):
        os.unlink(archive)
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
    if program[0] != "--module":
        program = [os.path.join(directory, program[0])]
    # The file itself is the first entry.
    sys.path[:1] = [path for path in files if not path.endswith(".py")]
    sys.path[:0] = sorted({os.path.dirname(path) for path in files if path.endswith(".py")})
    start = os.path.join(directory, "home", "flinkish", "driver", "__main__.py")
    sys.argv = [start, *program, *document["arguments"]]
    runpy.run_path(start, run_name="__main__")


if __name__ == "__main__":
    main()
