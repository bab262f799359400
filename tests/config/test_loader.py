"""Where a value comes from, which one wins, and what is refused."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flinkish.config import (
    KEYS,
    MASK,
    Config,
    Setting,
    canonical,
    environment_name,
    environment_warnings,
    is_secret,
    mask_secrets,
    parse_duration,
    parse_moment,
    sqlite_path,
)
from flinkish.errors import InvalidConfiguration

SAVEPOINTS = "execution.checkpointing.savepoint-dir"
Load = Callable[..., Config]

#: No time limits: machines that run tests are busy.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The working directory of :func:`load`; ``tmp_path/home`` is the home directory."""
    for name in ("work", "home", "config/flinkish"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "work"


@pytest.fixture
def load(tmp_path: Path, here: Path) -> Load:
    """Load a configuration in an environment of its own."""

    def run(
        *,
        flags: Mapping[str, str | None] | None = None,
        dynamic: Sequence[str] = (),
        spark: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        project: str | None = None,
        user: str | None = None,
    ) -> Config:
        if project is not None:
            (here / "flinkish.toml").write_text(project)
        if user is not None:
            (tmp_path / "config/flinkish/config.toml").write_text(user)
        env = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
        return Config.load(
            flags=flags,
            dynamic=dynamic,
            spark=spark,
            environ=env | dict(environ or {}),
            cwd=str(here),
        )

    return run


def test_defaults(load: Load, tmp_path: Path) -> None:
    config = load()
    assert [s.key for s in config.settings()] == [k.name for k in KEYS]
    assert {s.origin for s in config.settings()} == {"default"}
    state = f"{tmp_path}/home/.local/state/flinkish"
    assert config.registry_url() == f"sqlite:///{state}/registry.db"
    assert config.get("execution.checkpointing.dir") == f"{state}/checkpoints"
    assert config.get(SAVEPOINTS) is None
    assert config.duration("client.timeout") == 60
    assert config.duration("execution.quiesce.timeout") == 600
    assert config.duration("execution.cancel.grace") == 10
    assert config.duration("execution.shutdown.grace") == 30
    assert config.duration("execution.heartbeat.interval") == 2
    assert config.boolean("pipeline.auto-generate-uids") is True
    assert config.boolean("execution.state-recovery.ignore-unclaimed-state") is False
    assert config.get("execution.state-recovery.claim-mode") == "no_claim"
    assert config.get("execution.stream-graph-hasher.version") == "v3"
    assert config.integer("parallelism.default") is None
    assert config.warnings() == []


def test_every_default_is_a_value_its_key_takes(load: Load) -> None:
    for setting in load().settings():
        if setting.value is not None:
            again = load(dynamic=[f"{setting.key}={setting.value}"])
            assert again.get(setting.key) == setting.value


def test_xdg_directories(load: Load) -> None:
    assert (
        load(environ={"XDG_STATE_HOME": "/s"}).registry_url() == "sqlite:////s/flinkish/registry.db"
    )
    # The specification: a relative path is invalid and to be ignored.
    assert "/home/.local/state/" in load(environ={"XDG_STATE_HOME": "s"}).registry_url()


def test_the_user_file_without_xdg_is_below_home(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "flinkish" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('client.timeout = "5 s"')
    config = Config.load(environ={"HOME": str(tmp_path)}, cwd=str(tmp_path))
    assert config.setting("client.timeout") == Setting("client.timeout", "5 s", str(file))


def test_the_process_itself_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLINKISH_CLIENT_TIMEOUT", "7 s")
    (tmp_path / "flinkish.toml").write_text("parallelism.default = 3")
    config = Config.load()
    assert config.duration("client.timeout") == 7
    assert config.integer("parallelism.default") == 3


LAYERS = ["flag", "-D", "environment FLINKISH_CLIENT_TIMEOUT", "project", "user", "default"]


@pytest.mark.parametrize("highest", range(6))
def test_the_highest_layer_wins(load: Load, tmp_path: Path, here: Path, highest: int) -> None:
    config = load(
        flags={"client.timeout": "1 s" if highest == 0 else None},
        dynamic=["client.timeout=2 s"] if highest <= 1 else [],
        environ={"FLINKISH_CLIENT_TIMEOUT": "3 s"} if highest <= 2 else {},
        project='"client.timeout" = "4 s"' if highest <= 3 else None,
        user='[client]\ntimeout = "5 s"' if highest <= 4 else None,
    )
    names = {"project": f"{here}/flinkish.toml", "user": f"{tmp_path}/config/flinkish/config.toml"}
    origin = names.get(LAYERS[highest], LAYERS[highest])
    value = f"{highest + 1} s" if highest < 5 else "60 s"
    assert config.setting("client.timeout") == Setting("client.timeout", value, origin)


@pytest.mark.parametrize("key", [k for k in KEYS if k.old_names], ids=lambda k: k.name)
def test_old_names_mean_the_new_keys(load: Load, key: object) -> None:
    assert isinstance(key, type(KEYS[0]))
    value = {"boolean": "true", "choice": key.choices[-1] if key.choices else ""}.get(
        key.kind, "/x"
    )
    for old in key.old_names:
        assert canonical(old) == key.name
        by_old = load(dynamic=[f"{old}={value}"])
        by_new = load(dynamic=[f"{key.name}={value}"])
        by_environment = load(environ={environment_name(old): value})
        assert by_old.setting(key.name) == by_new.setting(key.name) == by_old.setting(old)
        assert by_environment.get(key.name) == by_new.get(key.name)
        assert by_environment.setting(key.name).origin == f"environment {environment_name(old)}"


def test_two_names_of_one_key_in_one_layer(load: Load) -> None:
    both = [f"{SAVEPOINTS}=/a", "state.savepoints.dir=/b"]
    with pytest.raises(InvalidConfiguration, match=r"are the same key, .*\(-D\)") as caught:
        load(dynamic=both)
    assert SAVEPOINTS in caught.value.message
    assert "state.savepoints.dir" in caught.value.message
    assert load(dynamic=[both[0], "state.savepoints.dir=/a"]).get(SAVEPOINTS) == "/a"
    # In different layers the higher one wins, whatever the name.
    config = load(dynamic=both[1:], project=f'"{SAVEPOINTS}" = "/a"')
    assert config.get(SAVEPOINTS) == "/b"
    with pytest.raises(InvalidConfiguration, match="set the same key") as caught:
        load(environ={"FLINKISH_REGISTRY": "/a.db", "FLINKISH_REGISTRY_URL": "/b.db"})
    for variable in ("FLINKISH_REGISTRY ", "FLINKISH_REGISTRY_URL "):
        assert f"environment {variable}" in caught.value.message
    assert caught.value.hint == "keep only FLINKISH_REGISTRY_URL"
    with pytest.raises(InvalidConfiguration, match="set the same key") as caught:
        load(spark={SAVEPOINTS: "/a", "state.savepoints.dir": "/b"})
    assert caught.value.hint == f"keep only spark.flinkish.{SAVEPOINTS}"


def test_dynamic_options(load: Load) -> None:
    config = load(dynamic=["a.b=1", "a.b=2", "flag", "eq=x=y", " spaced = v ", "empty="])
    assert {s.key: s.value for s in config.settings() if s.origin == "-D"} == {
        "a.b": "2",
        "flag": "true",
        "eq": "x=y",
        "spaced": "v",
        "empty": "",
    }
    for bad in ("=x", " =x", ""):
        with pytest.raises(InvalidConfiguration, match="has no key"):
            load(dynamic=[bad])


def test_toml_tables_and_types(load: Load) -> None:
    config = load(
        project="""
        "spark.sql.shuffle.partitions" = 4
        parallelism.default = 8
        pipeline = { auto-generate-uids = false }
        [execution.checkpointing]
        savepoint-dir = "/sp"
        [spark.sql]
        streaming.schemaInference = true
        ratio = 0.5
        list = ["a", "b"]
        when = 2024-01-02
        """
    )
    assert config.integer("parallelism.default") == 8
    assert config.boolean("pipeline.auto-generate-uids") is False
    assert config.get(SAVEPOINTS) == "/sp"
    assert config.extra("spark.") == {
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.streaming.schemaInference": "true",
        "spark.sql.ratio": "0.5",
        "spark.sql.list": "a,b",
        "spark.sql.when": "2024-01-02",
    }
    assert config.extra("nothing.") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("client.timeout = ", "not a TOML file"),
        ("client.timeout = 60 s", "not a TOML file"),
        ("x = [[1]]", "nested list"),
        ("client.timeout = '60 parsecs'", "'60 parsecs' is not a duration"),
    ],
)
def test_bad_files_are_named(load: Load, here: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidConfiguration, match=words) as caught:
        load(project=text)
    assert f"{here}/flinkish.toml" in caught.value.message
    assert caught.value.code == 2
    assert caught.value.hint


def test_a_file_that_is_not_one(load: Load, here: Path) -> None:
    (here / "flinkish.toml").mkdir()
    with pytest.raises(InvalidConfiguration, match="cannot read"):
        load()
    (here / "flinkish.toml").rmdir()
    (here / "flinkish.toml").write_bytes(b"x = '\xff'")
    with pytest.raises(InvalidConfiguration, match="not a TOML file"):
        load()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("client.timeout", "soon"),
        ("client.timeout", "-1 s"),
        ("execution.heartbeat.interval", "0"),
        ("execution.heartbeat.interval", "999 ms"),
        ("pipeline.auto-generate-uids", "maybe"),
        ("parallelism.default", "0"),
        ("parallelism.default", "four"),
        ("parallelism.default", "²"),
        ("parallelism.default", "9" * 5000),
        ("execution.state-recovery.claim-mode", "legacy"),
        ("execution.savepoint-restore-mode", "legacy"),
        ("execution.stream-graph-hasher.version", "v4"),
        (SAVEPOINTS, ""),
        ("registry.url", "sqlite://host/file"),
    ],
)
def test_bad_values_name_key_value_and_origin(load: Load, key: str, value: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        load(dynamic=[f"{key}={value}"])
    error = caught.value
    assert error.message.startswith(f"{canonical(key)} (-D): ")
    assert value in error.message
    assert error.data == {"key": canonical(key), "value": value, "origin": "-D"}
    assert error.hint


def test_a_bad_value_that_does_not_count_is_no_error(load: Load) -> None:
    assert (
        load(dynamic=["client.timeout=1 s"], user='client.timeout = "soon"').duration(
            "client.timeout"
        )
        == 1
    )


def test_values_have_a_normal_form(load: Load) -> None:
    config = load(
        dynamic=[
            "execution.state-recovery.claim-mode=NO_CLAIM",
            "pipeline.auto-generate-uids=Off",
            "parallelism.default= 08 ",
        ]
    )
    assert config.get("execution.state-recovery.claim-mode") == "no_claim"
    assert config.get("pipeline.auto-generate-uids") == "false"
    assert config.get("parallelism.default") == "8"


def test_paths_start_where_they_were_written(load: Load, tmp_path: Path, here: Path) -> None:
    assert load(dynamic=[f"{SAVEPOINTS}=sp/../x"]).get(SAVEPOINTS) == f"{here}/x"
    assert load(project=f'"{SAVEPOINTS}" = "sp"').get(SAVEPOINTS) == f"{here}/sp"
    (here / "flinkish.toml").unlink()
    assert load(user=f'"{SAVEPOINTS}" = "sp"').get(SAVEPOINTS) == f"{tmp_path}/config/flinkish/sp"
    for url in ("s3://bucket/x", "file:///x", "file:/x", "local:/x", "hdfs://h:9000/a"):
        assert load(flags={SAVEPOINTS: url}).get(SAVEPOINTS) == url
    home = os.path.expanduser("~")
    assert load(flags={SAVEPOINTS: "~/sp"}).get(SAVEPOINTS) == f"{home}/sp"
    for name in ("10:30/x", "a:b", "./hdfs:/x"):
        assert load(flags={SAVEPOINTS: name}).get(SAVEPOINTS) == f"{here}/{name.removeprefix('./')}"


@pytest.mark.parametrize("text", ["hdfs:/user/x", "s3a:/bucket/x", "gs:bucket/x", "HDFS:/x"])
def test_a_url_without_a_host_does_not_become_a_local_directory(load: Load, text: str) -> None:
    with pytest.raises(InvalidConfiguration, match="names no bucket or host") as caught:
        load(project=f'"{SAVEPOINTS}" = "{text}"')
    scheme = text.partition(":")[0]
    assert caught.value.hint.startswith(f"write {scheme}://NAME/path")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("sqlite:///rel/r.db", "{here}/rel/r.db"),
        ("sqlite:////abs/r.db", "/abs/r.db"),
        ("r.db", "{here}/r.db"),
        ("/abs/../r.db", "/r.db"),
    ],
)
def test_registry_files_are_absolute(load: Load, here: Path, given: str, path: str) -> None:
    expected = path.format(here=here)
    assert load(environ={"FLINKISH_REGISTRY": given}).registry_url() == f"sqlite:///{expected}"
    assert sqlite_path(given, str(here)) == expected


def test_a_relative_registry_needs_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sqlite_path("sqlite:///a/../r.db") == f"{tmp_path}/r.db"
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(InvalidConfiguration, match="the working directory no longer exists"):
        sqlite_path("sqlite:///r.db")
    assert sqlite_path("/r.db") == "/r.db"


def test_a_registry_server(load: Load) -> None:
    url = "postgresql://u:hush@h:5432/db?sslmode=require"
    config = load(environ={"FLINKISH_REGISTRY_URL": url})
    assert config.registry_url() == url
    assert (
        config.setting("registry.url").masked == f"postgresql://u:{MASK}@h:5432/db?sslmode=require"
    )
    assert "registry.url" not in config.to_options()


def test_options_for_the_driver(load: Load) -> None:
    options = load(
        dynamic=["client.timeout=5 s", "spark.x=1", "my.key=2", f"{SAVEPOINTS}=/sp"]
    ).to_options()
    assert options["client.timeout"] == "5 s"
    assert options[SAVEPOINTS] == "/sp"
    assert options["my.key"] == "2"
    assert options["execution.heartbeat.interval"] == "2 s"
    assert "spark.x" not in options
    assert "parallelism.default" not in options


def test_unknown_keys_are_kept_and_told(load: Load) -> None:
    config = load(dynamic=["client.timout=5 s", "spark.foo=1", "quite.other=x"])
    assert config.get("client.timout") == "5 s"
    assert config.warnings() == [
        "unknown key client.timout (-D): did you mean client.timeout?",
        "unknown key quite.other (-D) has no effect",
    ]
    environ = {"FLINKISH_CLIENT_TIMOUT": "1", "FLINKISH_DEBUG": "1", "FLINKISH_REGISTRY": "x"}
    assert environment_warnings(environ) == [
        "unknown environment variable FLINKISH_CLIENT_TIMOUT: did you mean FLINKISH_CLIENT_TIMEOUT?"
    ]


def test_keys_without_a_value(load: Load) -> None:
    assert load().setting("no.such.key") == Setting("no.such.key", None, "default")
    with pytest.raises(InvalidConfiguration, match="is not set"):
        load().duration("no.such.key")


def test_environment_names_are_unique() -> None:
    names = [environment_name(name) for key in KEYS for name in (key.name, *key.old_names)]
    assert len(set(names)) == len(names)
    assert environment_name(SAVEPOINTS) == "FLINKISH_EXECUTION_CHECKPOINTING_SAVEPOINT_DIR"


# durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60 s", 60),
        ("10min", 600),
        ("10 m", 600),
        ("1 h", 3600),
        ("500 ms", 0.5),
        ("7d", 604800),
        ("2 Hours", 7200),
        ("1.5 s", 1.5),
        (".5h", 1800),
        ("250 µs", 0.00025),
        ("1000000 ns", 0.001),
        ("60", 60),
        ("0", 0),
        ("  3\tseconds ", 3),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert math.isclose(parse_duration(text), seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "-1 s",
        "1 fortnight",
        "1 s 2 ms",
        "1e3 s",
        "inf",
        "nan",
        "1,5 s",
        "٣ s",
        "9" * 40,
        "1000000 d",
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidConfiguration):
        parse_duration(text)


@patient
@given(
    st.integers(0, 10**5), st.sampled_from(["ms", "s", "min", "h", "d"]), st.text(" \t", max_size=3)
)
def test_units_and_blanks_do_not_matter(number: int, unit: str, blank: str) -> None:
    factor = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}[unit]
    assert math.isclose(parse_duration(f"{number}{blank}{unit}{blank}"), number * factor)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", -90.0),
        (" 2 h ", -7200.0),
        ("1d", -86400.0),
        ("2026-11-23", -36000.0),
        ("2026-11-23Z", -36000.0),
        ("2026-11-23+02:00", -43200.0),
        ("2026-11-23T09:30Z", -1800.0),
        ("2026-11-23 09:30:15.500", -1784.5),
        ("2026-11-23T10:00+02:00", -7200.0),
        ("9:30", -1800.0),
        ("10:00", 0.0),
        ("10:30:15", 1815.0 - 86400.0),  # yesterday's: nothing has happened since a later time
    ],
)
def test_a_moment_is_a_duration_before_now_or_a_time(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: float
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    now = 1_795_428_000.0  # 2026-11-23T10:00:00Z
    assert parse_moment(text, now) == now + seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "-1h", "2026-13-01", "25:00", "10:61", "9999-99-99", "20261123"]
)
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(InvalidConfiguration, match="neither a duration nor a time"):
        parse_moment(text, 0.0)


#: Flink's units (``TimeUtils``), in seconds.
UNITS = {
    **dict.fromkeys(["d", "day", "days"], Fraction(86_400)),
    **dict.fromkeys(["h", "hour", "hours"], Fraction(3600)),
    **dict.fromkeys(["m", "min", "minute", "minutes"], Fraction(60)),
    **dict.fromkeys(["", "s", "sec", "secs", "second", "seconds"], Fraction(1)),
    **dict.fromkeys(["ms", "milli", "millis", "millisecond", "milliseconds"], Fraction(1, 1000)),
    **dict.fromkeys(
        ["µs", "us", "micro", "micros", "microsecond", "microseconds"], Fraction(1, 10**6)
    ),
    **dict.fromkeys(["ns", "nano", "nanos", "nanosecond", "nanoseconds"], Fraction(1, 10**9)),
}
_BLANKS = " \t\n\r\f\v"


def _seconds(text: str) -> Fraction | None:
    """What a duration is in seconds; None for any other text."""
    text = text.strip(_BLANKS)
    number = text[: len(text) - len(text.lstrip("0123456789."))]
    unit = text[len(number) :].lstrip(_BLANKS).lower()
    if unit not in UNITS or number.count(".") > 1 or number in ("", "."):
        return None
    whole, _, rest = number.partition(".")
    seconds = Fraction(int(whole + rest), 10 ** len(rest)) * UNITS[unit]
    return seconds if seconds <= 9 * 10**9 else None


@patient
@given(
    st.text(max_size=12)
    | st.builds(
        "{}{}{}".format,
        st.text("0123456789.", max_size=14) | st.integers(0, 10**13),
        st.text(" \t", max_size=2),
        st.sampled_from(sorted(UNITS)) | st.text("dhmsnµ", max_size=3),
    )
)
def test_any_text_is_the_duration_it_says_or_an_error(text: str) -> None:
    expected = _seconds(text)
    if expected is None:
        with pytest.raises(InvalidConfiguration, match=r"is not a duration|is too long"):
            parse_duration(text)
    else:
        assert math.isclose(parse_duration(text), expected)


# secrets


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgresql://u:pw@h/db", f"postgresql://u:{MASK}@h/db"),
        ("postgresql://u:p@w/:x@h/db", f"postgresql://u:{MASK}@h/db"),
        ("postgresql://:pw@h/db", f"postgresql://:{MASK}@h/db"),
        ("failed: s3://k:pw@b and http://h:80/x", f"failed: s3://k:{MASK}@b and http://h:80/x"),
        (
            "postgresql://h/db?user=u&password=pw&x=1",
            f"postgresql://h/db?user=u&password={MASK}&x=1",
        ),
        ("host=h password='p w' dbname=d", f"host=h password={MASK} dbname=d"),
        ("host=h sslpassword = pw", f"host=h sslpassword = {MASK}"),
        ("fs.s3a.secret.key=abc", f"fs.s3a.secret.key={MASK}"),
        ("jdbc:oracle:thin:scott/tiger@//h:1/x", f"jdbc:oracle:thin:scott/{MASK}@//h:1/x"),
        ("jdbc:oracle:thin:scott/t@g@h:1:x, a@b", f"jdbc:oracle:thin:scott/{MASK}@h:1:x, a@b"),
        ("jdbc:oracle:thin:@//h:1/x", "jdbc:oracle:thin:@//h:1/x"),
        ("jdbc:oracle:thin:/@wallet", "jdbc:oracle:thin:/@wallet"),
        ("user=u;password=p;w,x&y;ssl=1", f"user=u;password={MASK};ssl=1"),
        ("password={p;a=w};ssl=1", f"password={MASK};ssl=1"),
        ("password=pw, ssl=1; token=t; x", f"password={MASK}, ssl=1; token={MASK}; x"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", f"Authorization: Basic {MASK}"),
        ('{"Authorization": "basic dTpw"}', f'{{"Authorization": "basic {MASK}"}}'),
        ("curl -s -u u:hush http://h/x", f"curl -s -u {MASK} http://h/x"),
        ("curl --user 'u:h sh' h", f"curl --user {MASK} h"),
        ("curl --user-agent a:b h", "curl --user-agent a:b h"),
        ("the basic authentication of Basic users", "the basic authentication of Basic users"),
        ("Basic Orders, basic Option, Basic Output", "Basic Orders, basic Option, Basic Output"),
        ("no secret here: a@b.c", "no secret here: a@b.c"),
    ],
)
def test_secrets_are_masked(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked


_USER = st.text("abcdefghij", min_size=1, max_size=6)


@patient
@given(_USER, st.text(st.characters(categories=("L", "N", "P", "S")), min_size=4, max_size=20))
def test_no_password_of_a_url_survives(user: str, password: str) -> None:
    # The end makes the secret differ from the mask and from the rest of the text.
    secret = f"{password}§§"
    assert secret not in mask_secrets(f"cannot open postgresql://{user}:{secret}@host/db now")


def test_secret_keys_are_masked(load: Load) -> None:
    config = load(dynamic=["spark.hadoop.fs.s3a.secret.key=abc", "spark.x=http://u:pw@h"])
    assert config.setting("spark.hadoop.fs.s3a.secret.key").masked == MASK
    assert config.setting("spark.x").masked == f"http://u:{MASK}@h"
    assert config.setting(SAVEPOINTS).masked is None
    assert is_secret("spark.ssl.keyPassword")
    assert not is_secret("client.timeout")
