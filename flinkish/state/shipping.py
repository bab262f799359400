"""Ship flinkish to the executors, which need it to use, copy and rewrite typed state."""

from __future__ import annotations

import os
import tempfile
import zipfile
from typing import Any

import flinkish
from flinkish.errors import UsageError


def ship_package(context: Any) -> None:
    """Send this flinkish to the executors, which may lack it; once per context.

    Relies on the directory ``_temp_dir`` of PySpark's ``SparkContext`` (3.5 to 4.3). Raises
    UsageError if flinkish was imported from a zip file.
    """
    if getattr(context, "_flinkish_shipped", False):
        return
    root = os.path.dirname(os.path.abspath(flinkish.__file__))
    # Executors fetch the file while Spark runs; Spark removes the directory when it stops.
    directory = tempfile.mkdtemp(prefix="flinkish-", dir=context._temp_dir)
    path = os.path.join(directory, "flinkish.zip")
    with zipfile.ZipFile(path, "w", strict_timestamps=False) as archive:
        for folder, _, names in os.walk(root):
            for name in sorted(names):
                if name.endswith((".py", ".json")):
                    file = os.path.join(folder, name)
                    archive.write(file, os.path.relpath(file, os.path.dirname(root)))
        if not archive.namelist():
            raise UsageError(
                f"flinkish cannot be sent to the executors: {root} is not a directory",
                hint="install flinkish as a package, not within a zip file",
            )
    context.addPyFile(path)
    context._flinkish_shipped = True
