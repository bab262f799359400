"""Secret Spark settings reach Spark, and nothing else: no registry, command line or log."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.config import MASK
from flinkish.errors import LaunchFailed, UsageError
from flinkish.launch import secret_settings, spark_submit
from flinkish.launch.driver_call import ask_driver
from flinkish.launch.launcher import launch_job
from flinkish.messages.calls import Described, DescribeTask
from flinkish.messages.launch import Launch
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from tests.launch.conftest import Run, wait
from tests.support.launcher_fakes import make_spark

OPTION = "--properties-file"
SECRET = "s3cret-of-the-store"
KEY = "spark.hadoop.fs.s3a.secret.key"
CONF = {
    "spark.ui.enabled": "false",
    KEY: SECRET,
    "spark.hadoop.fs.s3a.access.key": f"id-{SECRET}",
    "spark.driver.extraJavaOptions": f"-Djavax.net.ssl.trustStorePassword={SECRET}",
}


def test_only_spark_gets_them(run: Run, registry: Registry, tmp_path: Path) -> None:
    defaults = tmp_path / "spark0" / "conf" / "spark-defaults.conf"  # of the Spark of `run`
    defaults.parent.mkdir(parents=True)
    defaults.write_text("spark.mine  kept")
    job = run(
        'while [ "$1" != --properties-file ]; do shift; done\n'
        f'ls -l "$2" > {tmp_path}/mode; cat "$2" > {tmp_path}/properties; shift 2\n'
        f'printf "%s\\n" "$@" > {tmp_path}/words; env > {tmp_path}/env; touch {tmp_path}/there\n'
        f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done\n",
        conf=CONF,
        options={"client.timeout": "60 s", "my.password": SECRET},
    )
    wait(registry, job, lambda _: (tmp_path / "there").exists())
    properties = (tmp_path / "properties").read_text()
    assert properties.splitlines()[:2] == ["spark.mine  kept", f"{KEY}={SECRET}"]
    assert (tmp_path / "mode").read_text().startswith("-rw-------")
    words = (tmp_path / "words").read_text()
    assert "spark.ui.enabled=false" in words
    assert SECRET not in words + (tmp_path / "env").read_text()
    assert MASK not in words

    kept = registry.job(job.job_id).launch
    assert kept.conf == {k: "false" if k == "spark.ui.enabled" else MASK for k in CONF}
    assert kept.options == {"client.timeout": "60 s"}
    state = tmp_path / "state"
    directory = Path(str(job.log_path)).parent
    (handed_over,) = directory.glob(".conf-*")
    assert stat.S_IMODE(handed_over.stat().st_mode) == 0o600
    (tmp_path / "go").touch()
    wait(registry, job, lambda now: now.exit_status is not None)
    assert not list(directory.glob(".conf-*"))
    for path in [*state.rglob("*"), *tmp_path.glob("*.db*")]:
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


def test_properties_mean_to_java_what_was_given() -> None:
    text = secret_settings.properties(
        {"spark.a b:c": "x=y\\z\nw", "spark.d": "#é"}, "spark.e  f\n# end\n\n"
    )
    assert text == "spark.e  f\n# end\nspark.a\\ b\\:c=x=y\\\\z\\nw\nspark.d=#é\n"


def test_without_secrets_the_command_line_is_as_ever(tmp_path: Path) -> None:
    launch = Launch(application="/app.py", conf={"spark.a": "b"})
    with secret_settings.secrets_file(
        secret_settings.secrets_of(launch), str(tmp_path), "/no", {}
    ) as path:
        assert path is None
        spark = spark_submit.Installation("/spark", "/py", "/py")
        words = spark_submit.build_command(
            launch, spark, name="n", driver_main="/driver", properties=path
        )
        assert OPTION not in words
    assert secret_settings.hand_over({"A": "b"}, launch) == {"A": "b"}


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (Launch("/a.py", secret_arguments=("é" * 30_000,)), "too long to be handed over"),
        (
            Launch("/a.py", secret_arguments=("x" * 66_000, "y" * 66_000)),
            "too long to be handed over",
        ),
        (
            Launch(
                "/a.py",
                master="spark://h:7077",
                conf={**CONF, "spark.submit.deployMode": "cluster"},
            ),
            "extraJavaOptions",
        ),
    ],
)
def test_secrets_that_cannot_be_passed_are_refused_before_the_job_is_registered(
    sqlite_registry: Registry,
    make_job: Callable[..., JobRecord],
    tmp_path: Path,
    launch: Launch,
    message: str,
) -> None:
    """Linux allows a variable 128 KiB; the secrets are JSON in ASCII."""
    log = tmp_path / "log"
    with pytest.raises(UsageError, match=message):
        launch_job(sqlite_registry, "unused", make_job(launch=launch, log_path=str(log)), {})
    assert sqlite_registry.jobs() == []
    assert not log.exists()


def test_secrets_that_just_fit_start_a_process() -> None:
    begin = secret_settings.hand_over({}, Launch("/app.py", secret_arguments=("",)))
    room = (128 << 10) - len("FLINKISH_SECRET_CONF=\0") - len(begin["FLINKISH_SECRET_CONF"])
    fits = Launch("/app.py", secret_arguments=("x" * room,))
    subprocess.run(["/bin/true"], env=secret_settings.hand_over({}, fits), check=True)
    with pytest.raises(UsageError):
        secret_settings.hand_over({}, replace(fits, secret_arguments=("x" * (room + 1),)))


def test_a_masked_setting_never_reaches_spark() -> None:
    kept = secret_settings.without_secrets(Launch(application="a", conf=CONF))
    assert secret_settings.without_masked(kept).conf == {"spark.ui.enabled": "false"}
    assert secret_settings.secrets_of(kept) == {}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    with (
        pytest.raises(LaunchFailed, match="secret settings"),
        secret_settings.secrets_file({KEY: SECRET}, gone, "/no", {}),
    ):
        raise AssertionError


def test_a_value_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    """Java would read another text, and so the program another password."""
    conf = {KEY: f"{SECRET}\udcff"}
    with pytest.raises(UsageError, match=f"{KEY} .*UTF-8") as refused:
        secret_settings.hand_over({}, Launch("/app.py", conf=conf))
    assert SECRET not in f"{refused.value} {refused.value.hint}"
    with (
        pytest.raises(UsageError, match="UTF-8"),
        secret_settings.secrets_file(conf, str(tmp_path), "/no", {}),
    ):
        raise AssertionError
    assert os.listdir(tmp_path) == []


def test_a_program_that_is_only_described_gets_them_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    script = (
        f'printf "%s\\n" "$@" > {tmp_path}/words; env > {tmp_path}/env\n'
        f'ls -l "$FLINKISH_CALL" > {tmp_path}/mode; cat "$FLINKISH_CALL" > {tmp_path}/call\n'
        'while [ "$1" != --properties-file ]; do shift; done\n'
        f'cat "$2" > {tmp_path}/properties\n'
        'echo \'{"version": 1, "queries": [], "error": null}\' > "$FLINKISH_CALL.new"\n'
        'mv "$FLINKISH_CALL.new" "$FLINKISH_CALL.answer"\n'
    )
    home = str(make_spark(tmp_path / "spark", script))
    options = {"registry.url": f"postgresql://u:{SECRET}@h/db"}
    launch = Launch(application="/app.py", spark_home=home, conf=CONF, options=options)
    spark = spark_submit.Installation(home, "/py", "/py")
    found = ask_driver(
        DescribeTask(),
        launch,
        spark,
        answer=Described,
        name="n",
        environ=os.environ,
        show_log=print,
    )
    assert found.queries == ()
    assert f"{KEY}={SECRET}\n" in (tmp_path / "properties").read_text()
    words = (tmp_path / "words").read_text()
    assert SECRET not in words + (tmp_path / "env").read_text()
    assert json.loads((tmp_path / "call").read_text())["options"] == options
    assert (tmp_path / "mode").read_text().startswith("-rw-------")
    assert not os.path.exists(words.splitlines()[words.splitlines().index(OPTION) + 1])
