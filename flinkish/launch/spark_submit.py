"""The Spark and the Python that run a job, and the ``spark-submit`` command line for it.

Rules; the first match counts.

- Driver interpreter: ``-pyclientexec``, ``-pyexec``, the interpreter of the virtual environment
  that holds ``--spark-home`` or ``$SPARK_HOME``, flinkish's own.
- Spark: ``--spark-home``, ``$SPARK_HOME``, the pyspark package of the driver interpreter
  (``pyspark/find_spark_home.py`` looks in the same places).
- Interpreter of the executors: ``-pyexec``; with a ``local`` master the driver's; else
  ``$PYSPARK_PYTHON``; else the driver's.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from flinkish.config import MASK
from flinkish.config.keys import NOTICES, environment_name
from flinkish.errors import LaunchFailed, UsageError, quoted
from flinkish.launch.deploy_mode import ClusterManager, is_cluster_mode, manager_of, master_of
from flinkish.launch.secret_settings import (
    ARGUMENTS_VARIABLE,
    FILE_VARIABLE,
    arguments_of,
    default_of,
    secrets_of,
    shown_arguments,
    with_redaction,
)
from flinkish.messages.launch import Launch, is_pipeline

#: Oldest Java by Spark's major version (Spark's "Downloading" page of each release).
_OLDEST_JAVA = {3: 8, 4: 17}
#: The first Spark with declarative pipelines.
_FIRST_PIPELINES = (4, 1)
_JAVA_HINT = (
    "install Java 17, for example: apt-get install openjdk-17-jre-headless, and set JAVA_HOME "
    "when it is not on the PATH"
)


@dataclass(frozen=True)
class Installation:
    """The Spark and the interpreters of one launch, as absolute paths.

    Only ``worker_python`` may be as it was named, such as a path in an archive that is unpacked on
    the executors.
    """

    spark_home: str
    driver_python: str
    worker_python: str

    @property
    def spark_submit(self) -> str:
        """The script that starts a driver."""
        return os.path.join(self.spark_home, "bin", "spark-submit")


def resolve(launch: Launch, environ: Mapping[str, str]) -> Installation:
    """Find Spark, Java and the interpreters of a launch, without importing or starting them.

    There is one exception: if no Spark is named and the driver's interpreter is not that of this
    process, a child process of that interpreter reports where its pyspark is. Raises LaunchFailed,
    which says what to install.
    """
    if is_cluster_mode(launch):  # the nodes have their own interpreters
        launch = replace(launch, client_python=None, python=None)
    named_home = launch.spark_home or environ.get("SPARK_HOME") or None
    driver = _driver_python(launch, named_home, environ)
    spark_home = os.path.abspath(named_home) if named_home else _pyspark_of(driver)
    installation = Installation(spark_home, driver, _worker_python(launch, driver, environ))
    if not os.path.isfile(installation.spark_submit):
        raise LaunchFailed(
            f"{spark_home} is not a Spark installation: it has no bin/spark-submit",
            hint="name one with --spark-home or SPARK_HOME, or: pip install 'flinkish[spark]'",
        )
    _check_java(spark_home, environ)
    _check_pipelines(launch, spark_home)
    return installation


def pinned(
    launch: Launch, installation: Installation, environ: Mapping[str, str] | None = None
) -> Launch:
    """Return the launch with the Spark, interpreters and redaction pattern that were found.

    An interpreter of the executors stays as it is named if it may be in an archive. The redaction
    pattern comes from Spark's defaults. Raises LaunchFailed when they cannot be read.
    """
    complete = replace(launch, spark_home=installation.spark_home)
    if not is_cluster_mode(launch):
        complete = replace(complete, client_python=installation.driver_python)
        if launch.python and not launch.archives:
            complete = replace(complete, python=installation.worker_python)
    return with_redaction(
        complete, installation.spark_home, os.environ if environ is None else environ
    )


def build_command(
    launch: Launch,
    installation: Installation,
    *,
    name: str,
    driver_main: str,
    properties: str | None = None,
    arguments: str | None = None,
    carried: str | None = None,
) -> list[str]:
    """Return the ``spark-submit`` command line of a job.

    ``driver_main`` is the path of flinkish's ``driver/__main__.py``, which runs the program.
    ``properties`` and ``arguments`` are files with the secret settings and the program's arguments,
    which are then omitted from, or masked in, the command line that every user of the host can
    read. ``carried`` is the file that carries the job to its driver in cluster mode
    (:mod:`flinkish.launch.carried_job`). Raises what :func:`worker_settings` does.
    """
    command = [installation.spark_submit]
    if launch.master:
        command += ["--master", launch.master]
    command += ["--name", name]
    brings_files = carried is not None and manager_of(launch) is ClusterManager.STANDALONE
    secret = secrets_of(launch) if properties or brings_files else {}
    if properties:
        command += ["--properties-file", properties]
    conf = launch.conf
    if carried is not None:
        of_worker = worker_settings(launch, installation.spark_home)
        conf = {**_cluster_settings(launch), **conf, **of_worker}
    for key, value in conf.items():
        if key not in secret and not (brings_files and value == MASK):
            command += ["--conf", f"{key}={value}"]
    for option, values in (
        ("--py-files", () if brings_files else launch.py_files),
        ("--archives", launch.archives),
        ("--jars", launch.jars),
        ("--packages", launch.packages),
    ):
        if values:
            command += [option, ",".join(values)]
    if carried is not None:
        # The worker puts the "jar" into the driver's working directory, where it is the program.
        runner = ["--class", "org.apache.spark.deploy.PythonRunner", carried]
        return [
            *command,
            *([*runner, os.path.basename(carried), ""] if brings_files else [carried]),
        ]
    command.append(driver_main)
    if launch.module:
        command += ["--module", launch.module]
    elif launch.application:
        command.append(launch.application)
    return [*command, *(shown_arguments(launch) if arguments else arguments_of(launch))]


_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
#: What Spark needs of Java's modules. Source: ``org.apache.spark.launcher.JavaModuleOptions``.
_MODULE_OPTIONS = " ".join(
    (
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(
            f"--add-opens={package}=ALL-UNNAMED"
            for package in (
                "java.base/java.lang",
                "java.base/java.lang.invoke",
                "java.base/java.lang.reflect",
                "java.base/java.io",
                "java.base/java.net",
                "java.base/java.nio",
                "java.base/java.util",
                "java.base/java.util.concurrent",
                "java.base/java.util.concurrent.atomic",
                "java.base/sun.nio.ch",
                "java.base/sun.nio.cs",
                "java.base/sun.security.action",
                "java.base/sun.util.calendar",
                "java.security.jgss/sun.security.krb5",
            )
        ),
    )
)


def worker_settings(
    launch: Launch, spark_home: str, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the options of the JVM of a driver on a worker of a standalone cluster, as a setting.

    Spark 3 gives the options of Java's modules to every JVM but this one
    (``deploy.ClientEndpoint``), and on Java 17 no ``SparkContext`` can be made without them.
    The setting takes the place of Spark's default, so it includes the default's options too.

    Raises UsageError if the options hold a secret: the JVM takes them at its start, from a command
    line that every user of the worker's host can read. Raises LaunchFailed if Spark's defaults
    cannot be read.
    """
    if manager_of(launch) is not ClusterManager.STANDALONE or not is_cluster_mode(launch):
        return {}
    is_spark_3 = (spark_version(spark_home) or "").startswith("3.")
    options = launch.conf.get(_DRIVER_OPTIONS)
    if options is None and is_spark_3:
        options = default_of(
            _DRIVER_OPTIONS, spark_home, os.environ if environ is None else environ
        )
    merged = replace(launch, conf={**launch.conf, _DRIVER_OPTIONS: options or ""})
    if options and (options == MASK or _DRIVER_OPTIONS in secrets_of(merged)):
        raise UsageError(
            f"{_DRIVER_OPTIONS} contains a secret, and a standalone cluster puts it on the command "
            "line of the driver, which every user of the worker's host can read",
            hint="put such options into a file on the workers that only Spark's user can read, and "
            f"name it: --conf {_DRIVER_OPTIONS}=-XX:VMOptionsFile=PATH (Java 9 or newer)",
        )
    if not is_spark_3:
        return {}
    return {_DRIVER_OPTIONS: f"{_MODULE_OPTIONS} {options or ''}".strip()}


def _cluster_settings(launch: Launch) -> dict[str, str]:
    """Return the settings of cluster mode: ``spark-submit`` waits, YARN starts no second driver.

    If a driver fails, the job's restart strategy decides whether it is started again, not its
    cluster. The interpreters are settings too, if they are named.
    """
    settings = {
        ClusterManager.STANDALONE: {"spark.standalone.submit.waitAppCompletion": "true"},
        ClusterManager.YARN: {
            "spark.yarn.submit.waitAppCompletion": "true",
            "spark.yarn.maxAppAttempts": "1",
        },
        ClusterManager.KUBERNETES: {
            "spark.kubernetes.submission.waitAppCompletion": "true",
            # The status, by default logged every second, would push the pod's name out of the part
            # of the log that is searched for it. An end is reported at once nevertheless.
            "spark.kubernetes.report.interval": "1d",
        },
    }[manager_of(launch)]
    if launch.python:
        settings["spark.pyspark.python"] = launch.python
    if launch.client_python:
        settings["spark.pyspark.driver.python"] = launch.client_python
    return settings


def submission_environment(
    environ: Mapping[str, str], installation: Installation
) -> dict[str, str]:
    """Return the environment of ``spark-submit`` in cluster mode: the client's own. Pure.

    The job's values are in the file that carries the job to its driver, not in this environment,
    which a cluster may pass on. The JVM of ``spark-submit`` logs the lines that flinkish parses,
    even if Spark's own configuration sets a higher log level.
    """
    hidden = {FILE_VARIABLE, ARGUMENTS_VARIABLE, "FLINKISH_REGISTRY", "PYSPARK_DRIVER_PYTHON_OPTS"}
    kept = {key: value for key, value in without_notices(environ).items() if key not in hidden}
    log = os.path.join(os.path.dirname(os.path.abspath(__file__)), "submission-log4j2.properties")
    own = f'-Dlog4j2.configurationFile="{log}"'  # Spark splits it like a shell
    options = f"{kept.get('SPARK_SUBMIT_OPTS', '')} {own}".strip()
    return {**kept, "SPARK_HOME": installation.spark_home, "SPARK_SUBMIT_OPTS": options}


def build_environment(
    environ: Mapping[str, str],
    installation: Installation,
    *,
    job_id: str,
    registry_url: str,
    flinkish_home: str,
    fallback_path: str,
    properties: str | None = None,
    arguments: str | None = None,
) -> dict[str, str]:
    """Return the environment of ``spark-submit``: the client's, plus values for the driver. Pure.

    The user's ``PYTHONPATH`` is kept. ``PYSPARK_DRIVER_PYTHON_OPTS`` is removed: it is meant for
    notebooks and would end up on the driver's command line. ``properties`` and ``arguments`` are as
    in :func:`build_command`.
    """
    result = without_notices(environ)
    result.pop("PYSPARK_DRIVER_PYTHON_OPTS", None)
    result.pop(FILE_VARIABLE, None)
    result.pop(ARGUMENTS_VARIABLE, None)
    if properties:
        result[FILE_VARIABLE] = properties
    if arguments:
        result[ARGUMENTS_VARIABLE] = arguments
    result.update(
        {
            "FLINKISH_JOB_ID": job_id,
            "FLINKISH_REGISTRY": registry_url,
            "FLINKISH_HOME": flinkish_home,
            "FLINKISH_FALLBACK_PATH": fallback_path,
            "SPARK_HOME": installation.spark_home,
            "PYSPARK_PYTHON": installation.worker_python,
            "PYSPARK_DRIVER_PYTHON": installation.driver_python,
            # Without it, the log would lag behind the program by one buffer.
            "PYTHONUNBUFFERED": result.get("PYTHONUNBUFFERED") or "1",
        }
    )
    return result


def without_notices(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the settings ``notify.*``, which no program may see."""
    names = {environment_name(key.name) for key in NOTICES}
    return {name: value for name, value in environ.items() if name not in names}


def flinkish_home() -> str:
    """Return the directory that contains the flinkish package."""
    import flinkish

    return os.path.dirname(os.path.dirname(os.path.abspath(flinkish.__file__)))


def driver_main() -> str:
    """Return the path of the script that ``spark-submit`` runs."""
    return os.path.join(flinkish_home(), "flinkish", "driver", "__main__.py")


def fallback_path() -> str:
    """Return a search path of this interpreter's fsspec and fastavro, for drivers without them."""
    import importlib.util

    entries: list[str] = []
    for package in ("fsspec", "fastavro"):
        spec = importlib.util.find_spec(package)
        for location in (spec and spec.submodule_search_locations) or ():
            directory = os.path.dirname(location)
            if directory not in entries:
                entries.append(directory)
    return os.pathsep.join(entries)


def spark_version(spark_home: str) -> str | None:
    """Return the version of a Spark from the name of its core jar; None without that jar."""
    try:
        names = os.listdir(os.path.join(spark_home, "jars"))
    except OSError:
        return None
    for name in names:
        match = re.fullmatch(r"spark-core_[\d.]+-(.+)\.jar", name)
        if match:
            return match.group(1)
    return None


def is_local_master(launch: Launch) -> bool:
    """Return whether the executors run inside the driver's own process."""
    master = master_of(launch) or "local[*]"
    return master.startswith("local") and not master.startswith("local-cluster")


def _check_pipelines(launch: Launch, spark_home: str) -> None:
    """Raise LaunchFailed for a pipeline if this Spark cannot run pipelines."""
    version = spark_version(spark_home)
    if not is_pipeline(launch.application) or version is None:
        return
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < _FIRST_PIPELINES:
        raise LaunchFailed(
            f"{launch.application} is the specification of a pipeline, and {spark_home} is Spark "
            f"{version}, which cannot run pipelines",
            hint="name Spark 4.1 or later with --spark-home, SPARK_HOME or -pyexec",
        )


def _driver_python(launch: Launch, named_home: str | None, environ: Mapping[str, str]) -> str:
    if launch.client_python:
        return _interpreter(launch.client_python, "-pyclientexec", environ)
    # With archives -pyexec names a file inside one of them, which exists on executors only.
    if launch.python and (not launch.archives or _which(launch.python, environ)):
        return _interpreter(launch.python, "-pyexec", environ)
    return (named_home and _python_beside(named_home)) or sys.executable


def _worker_python(launch: Launch, driver: str, environ: Mapping[str, str]) -> str:
    if launch.python:
        return _which(launch.python, environ) or launch.python
    if is_local_master(launch):
        return driver
    return environ.get("PYSPARK_PYTHON") or driver


def _python_beside(spark_home: str) -> str | None:
    """Return the interpreter of the virtual environment whose site-packages hold ``spark_home``."""
    match = re.fullmatch(
        r"(.+)/lib(?:64)?/python[\d.]+t?/site-packages/pyspark/?", os.path.abspath(spark_home)
    )
    if match is None:
        return None
    candidate = os.path.join(match.group(1), "bin", "python")
    return candidate if os.access(candidate, os.X_OK) else None


def _interpreter(name: str, option: str, environ: Mapping[str, str]) -> str:
    path = _which(name, environ)
    if path is None:
        raise LaunchFailed(
            f"there is no such Python interpreter: {name}",
            hint=f"give {option} the path of an executable python",
        )
    return path


def _which(name: str, environ: Mapping[str, str]) -> str | None:
    import shutil

    path = shutil.which(os.path.expanduser(name), path=environ.get("PATH"))
    # Do not resolve links: the location of the link determines the virtual environment.
    return os.path.abspath(path) if path else None


def _pyspark_of(python: str) -> str:
    if python == sys.executable:
        import importlib.util

        spec = importlib.util.find_spec("pyspark")
        locations = list((spec and spec.submodule_search_locations) or ())
    else:
        import subprocess

        script = (
            "import importlib.util as u; s = u.find_spec('pyspark'); "
            "print((s and s.submodule_search_locations or [''])[0])"
        )
        try:
            process = subprocess.run(
                [python, "-c", script], capture_output=True, text=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LaunchFailed(
                f"{python} cannot be run: {error}", hint="give the path of a Python interpreter"
            ) from error
        if process.returncode != 0:
            raise LaunchFailed(
                f"{python} does not work: {(process.stderr.strip() or '?').splitlines()[-1]}",
                hint="give the path of a Python interpreter",
            )
        locations = [line for line in process.stdout.splitlines()[-1:] if line]
    if not locations:
        package = "'flinkish[spark]'" if python == sys.executable else "pyspark"
        raise LaunchFailed(
            f"no Spark: {python} has no pyspark, and no other Spark is named",
            hint=f"install it: {quoted(python)} -m pip install {package}; or name a Spark with "
            "--spark-home or SPARK_HOME",
        )
    return os.path.abspath(locations[0])


def _check_java(spark_home: str, environ: Mapping[str, str]) -> None:
    java = find_java(environ)
    release = spark_version(spark_home) or ""
    major = release.split(".")[0]
    oldest = _OLDEST_JAVA.get(int(major), 17) if major.isdigit() else 8
    version = java_version(java)
    if version is not None and version < oldest:
        raise LaunchFailed(
            f"Spark {release} needs Java {oldest} or newer, and {java} is Java {version}",
            hint=_JAVA_HINT,
        )


def find_java(environ: Mapping[str, str]) -> str:
    """Return the ``java`` that ``spark-submit`` will use (``bin/spark-class``).

    Raises :class:`LaunchFailed` when there is none.
    """
    import shutil

    home = environ.get("JAVA_HOME")
    if home:
        java = os.path.join(home, "bin", "java")
        if os.access(java, os.X_OK):
            return java
        raise LaunchFailed(f"JAVA_HOME is {home}, which has no bin/java", hint=_JAVA_HINT)
    executable = shutil.which("java", path=environ.get("PATH"))
    if executable is None:
        raise LaunchFailed("Java was not found, and Spark needs it", hint=_JAVA_HINT)
    return executable


def java_version(java: str) -> int | None:
    """Return a Java's major version from the ``release`` file of its home; None when unknown."""
    home = os.path.dirname(os.path.dirname(os.path.realpath(java)))
    for place in (home, os.path.dirname(home)):  # Java 8 has jre/ below its home
        try:
            with open(os.path.join(place, "release"), encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
        if match:
            return int(match.group(1))
    return None
