"""What is secret: by which names, where it goes, and that nothing else shows it."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from flinkish.client.planfile import program_digest
from flinkish.config import Config, sqlite_path
from flinkish.config.secrets import MASK, is_secret, mask_secrets, mask_words
from flinkish.errors import InvalidConfiguration, LaunchFailed, RegistryError, UsageError
from flinkish.launch import secret_settings, spark_submit
from flinkish.launch.driver_call import ask_driver
from flinkish.messages.calls import Described, DescribeTask
from flinkish.messages.launch import Launch
from flinkish.registry.job_registry import Registry
from tests.launch.conftest import Run, wait
from tests.support.launcher_fakes import make_spark

SECRET = "hush-0815"


@pytest.mark.parametrize(
    "key",
    [
        # Spark's default: 4.3's is "(?i)secret|password|token|access[.]?key|credential"
        *("spark.my.SECRET", "spark.ssl.keyPassword", "a.token.b", "x.access.key", "x.accesskey"),
        *("spark.my.credential", "my.credentials.file"),
        # Flink's GlobalConfiguration.SENSITIVE_KEYS
        *("fs.azure.account.key.x", "apikey", "auth-params", "service-key", "basic-auth"),
        *("security.jaas.config", "http-headers"),
        *("passphrase", "db.passwd", "api_key", "api-key", "ssl.private-key", "private.key.pem"),
    ],
)
def test_names_of_secrets(key: str) -> None:
    assert is_secret(key)
    assert mask_secrets(f"{key}={SECRET} b=c") == f"{key}={MASK} b=c"
    for secret in (SECRET, f"it's {SECRET}", f"{SECRET}'\"x"):
        assert mask_secrets(str({key: secret, "b": "c"})) == f"{{'{key}': {MASK}, 'b': 'c'}}"
    assert secret_settings.secrets_of(Launch("a.py", conf={key: "v", "spark.x": "y"})) == {key: "v"}


@pytest.mark.parametrize("key", ["spark.sql.shuffle.partitions", "key", "monkey", "pass", "author"])
def test_other_names(key: str) -> None:
    assert not is_secret(key)


_JAR = "/opt/jars/spark-token-provider-kafka-0-10_2.13-4.3.0.jar"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.jars", f"{_JAR},s3a://jars/token-secret.jar"),
        ("spark.jars.packages", "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.3.0"),
        ("spark.app.name", "token counter"),
        ("spark.driver.extraClassPath", "/etc/secrets:/opt/password-checker/lib/*"),
        ("spark.driver.extraJavaOptions", "-Djava.security.auth.login.config=/etc/secret/jaas"),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", "org.x.SimpleAWSCredentialsProvider"),
        ("spark.hadoop.hadoop.security.credential.provider.path", "jceks://hdfs@nn/keys.jceks"),
        ("spark.security.credentials.kafka.enabled", "false"),
        ("spark.security.credentials.renewalRatio", "0.75"),
        ("spark.kafka.clusters.main.sasl.token.mechanism", "SCRAM-SHA-512"),
        ("spark.kubernetes.driver.secrets.spark-secret", "/etc/secrets"),
        ("spark.kubernetes.driver.secretKeyRef.PASSWORD", "name:key"),
        ("spark.kubernetes.authenticate.driver.oauthTokenFile", "/var/run/token"),
        ("spark.my.tokenizer", "words"),
        ("spark.sql.redaction.string.regex", "(?i)secret|password"),
        ("spark.hadoop.fs.defaultFS", "abfss://container@account.dfs.core.windows.net/"),
    ],
)
def test_a_word_in_a_value_makes_no_secret_of_it(key: str, value: str) -> None:
    assert secret_settings.secrets_of(Launch("a.py", conf={key: value})) == {}
    options = ("--conf", f"{key}={value}", f"--{key}", value)
    assert mask_words(options) == options


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.hadoop.fs.s3a.secret.key", "/abc+de/fgh=="),  # has the form of a path
        ("spark.my.password", "12345"),
        ("spark.my.password", "correct.horse.Battery"),
        ("spark.my.options", f"""org.x.PlainLoginModule required password="{SECRET}";"""),
        ("spark.driver.extraJavaOptions", f"-Djavax.net.ssl.keyStorePassword={SECRET}"),
        ("spark.my.document", f"""{{"user": "u", "clientSecret": "{SECRET}"}}"""),
        ("spark.my.header", "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.x"),
        ("spark.jars.repositories", "https://ghp_0123456789abcdef0123@host/maven"),
        ("spark.my.place", "https://account.blob.core.windows.net/c?sv=1&sig=abc%3D"),
        ("spark.my.broker", f"amqp://user:{SECRET}@host"),
        ("spark.my.password.file", f"redis://user:{SECRET}@host/file"),
    ],
)
def test_a_secret_in_a_value_is_found(key: str, value: str) -> None:
    assert secret_settings.secrets_of(Launch("a.py", conf={key: value})) == {key: value}
    for words in (("--conf", f"{key}={value}"), (f"--{key}", value)):
        assert value not in " ".join(mask_words(words))


def test_sparks_own_pattern_is_among_ours() -> None:
    """The pattern of the installed Spark, from its jar."""
    import zipfile

    import pyspark

    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-core_*.jar")
    with zipfile.ZipFile(jar) as archive:
        code = archive.read("org/apache/spark/internal/config/package$.class")
    found = re.search(rb"\(\?i\)secret\|[ -~]*?(?=[^ -~]|$)", code)
    assert found is not None
    pattern = found.group().decode().rstrip("'")
    for name in re.sub(r"^\(\?i\)", "", pattern).replace("[.]?", ".").split("|"):
        assert is_secret(f"spark.{name}.x"), name


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--password", "X", "in"), ("--password", MASK, "in")),
        (("--password=X", "in"), (f"--password={MASK}", "in")),
        (("--db-password=a b,c",), (f"--db-password={MASK}",)),
        (("-token", "X"), ("-token", MASK)),
        (("--password", "-x"), ("--password", MASK)),
        (("--password", "--S3cret"), ("--password", MASK)),
        (("--password", "--hunter2", "in"), ("--password", MASK, "in")),
        (("--token", "--api-key", "X"), ("--token", "--api-key", MASK)),
        (("--password",), ("--password",)),
        (("password", "in"), ("password", "in")),
        (("API_KEY=X",), (f"API_KEY={MASK}",)),
        (("jdbc:postgresql://u:p w@h/d",), (f"jdbc:postgresql://u:{MASK}@h/d",)),
        (("--max-tokens", "100", "--token-file", "/x/y"),) * 2,
        (("--output", "/data/x", "-n", "3"), ("--output", "/data/x", "-n", "3")),
    ],
)
def test_words_of_a_command_line(words: tuple[str, ...], shown: tuple[str, ...]) -> None:
    assert mask_words(words) == shown
    assert secret_settings.shown_arguments(Launch("a.py", arguments=words)) == shown


@pytest.mark.parametrize(
    "line",
    [
        "spark.redaction.regex (?i)hidden|mine",
        "spark.redaction.regex=(?i)hidden|mine",
        "# x\n\n  spark.redaction.regex : (?i)hidden|mine\nspark.other  hidden",
    ],
)
def test_the_users_own_pattern(tmp_path: Path, line: str) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/spark-defaults.conf").write_text(line + "\n")
    conf = {"spark.hidden": "a", "spark.other": "is MINE", "spark.x": "y", "spark.my.token": "t"}
    conf["spark.jars"] = "/opt/hidden.jar"
    launch = Launch("a.py", arguments=("--hidden", "X"), conf=conf)
    spark = spark_submit.Installation(str(tmp_path), "/py", "/py")
    found = spark_submit.pinned(launch, spark, {})
    assert set(secret_settings.secrets_of(found)) == {
        "spark.hidden",
        "spark.other",
        "spark.my.token",
    }
    assert secret_settings.shown_arguments(found) == ("--hidden", MASK)
    given = Launch("a.py", conf={**conf, secret_settings.REDACTION: "no.such"})
    assert spark_submit.pinned(given, spark, {}).conf == given.conf
    assert set(secret_settings.secrets_of(given)) == {"spark.my.token"}


def test_a_pattern_that_cannot_be_read_starts_nothing(tmp_path: Path) -> None:
    launch = Launch("a.py", conf={secret_settings.REDACTION: "(?<x>[a-z&&[^b]])"})
    with pytest.raises(InvalidConfiguration, match=r"spark\.redaction\.regex"):
        secret_settings.secrets_of(launch)
    (tmp_path / "spark-defaults.conf").write_bytes(b"\xff\xfe")
    with pytest.raises(LaunchFailed, match="defaults"):
        secret_settings.with_redaction(Launch("a.py"), "/x", {"SPARK_CONF_DIR": str(tmp_path)})


# --- a file of arguments


def arguments(tmp_path: Path, text: str | bytes, mode: int = 0o600) -> str:
    path = tmp_path / "arguments"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return str(path)


def test_a_file_of_arguments(tmp_path: Path) -> None:
    path = arguments(tmp_path, "--key\n a b \n\n$x 'é'\r\nlast")
    assert secret_settings.read_arguments(path) == ("--key", " a b ", "$x 'é'", "last")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = arguments(tmp_path, SECRET, mode)
    with pytest.raises(UsageError, match="by others") as caught:
        secret_settings.read_arguments(path)
    assert f"chmod 600 {path}" in caught.value.hint
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("text", [b"\xff\xfe", b"a\x00b", b"x" * (65 << 10)])
def test_what_is_no_text_is_refused(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(UsageError):
        secret_settings.read_arguments(arguments(tmp_path, text))
    for path in (str(tmp_path), str(tmp_path / "none"), "/dev/null"):
        with pytest.raises(UsageError):
            secret_settings.read_arguments(path)


def test_a_pipe_will_do() -> None:
    read, write = os.pipe()
    os.write(write, b"--key\nX\n")
    os.close(write)
    assert secret_settings.read_arguments(f"/dev/fd/{read}") == ("--key", "X")
    os.close(read)


# --- from the launcher to the program


#: What the driver does first, without Spark.
_TAKES = (
    "import json, os, sys; sys.path.insert(0, sys.argv.pop(1)); out = sys.argv.pop(1); "
    "from flinkish.launch.secret_settings import with_arguments; "
    "words = with_arguments(sys.argv[1:], os.environ); json.dump(words, open(out, 'w'))"
)


@pytest.mark.parametrize(
    ("plain", "secret"),
    [(("in", "--n", "3"), ("--key", SECRET)), (("--password", SECRET, "a b"), ())],
)
def test_arguments_reach_the_program_and_nothing_else(
    run: Run, registry: Registry, tmp_path: Path,
    plain: tuple[str, ...], secret: tuple[str, ...],
) -> None:  # fmt: skip
    home = str(Path(spark_submit.__file__).parents[2])
    taking = shlex.join([sys.executable, "-c", _TAKES, home, f"{tmp_path}/got"])
    job = run(
        f'printf "%s\\n" "$@" > {tmp_path}/words; env > {tmp_path}/env\n'
        f'ls -l "$FLINKISH_ARGUMENTS_FILE" > {tmp_path}/mode\n'
        'while [ "$1" != /app.py ]; do shift; done\n' + f'exec {taking} "$@"\n',
        arguments=plain,
        secret_arguments=secret,
    )
    wait(registry, job, lambda now: now.exit_status is not None)
    assert json.loads((tmp_path / "got").read_text()) == ["/app.py", *plain, *secret]
    assert (tmp_path / "mode").read_text().startswith("-rw-------")
    words = (tmp_path / "words").read_text().splitlines()
    assert words[words.index("/app.py") :] == [
        "/app.py", *mask_words(plain), *(MASK for _ in secret)
    ]  # fmt: skip
    kept = registry.job(job.job_id).launch
    assert secret_settings.arguments_of(kept) == tuple(words[words.index("/app.py") + 1 :])
    assert not list(Path(str(job.log_path)).parent.glob(".arguments-*"))
    for path in [*tmp_path.rglob("*")]:
        if path.is_file() and path.name not in ("got",):
            assert SECRET.encode() not in path.read_bytes(), path


def test_a_program_that_is_only_described_gets_them_too(tmp_path: Path) -> None:
    script = (
        f'printf "%s\\n" "$@" > {tmp_path}/words; cat "$FLINKISH_ARGUMENTS_FILE" > {tmp_path}/got\n'
        'echo \'{"version": 1, "queries": [], "error": null}\' > "$FLINKISH_CALL.new"\n'
        'mv "$FLINKISH_CALL.new" "$FLINKISH_CALL.answer"\n'
    )
    home = str(make_spark(tmp_path / "spark", script))
    launch = Launch("/app.py", spark_home=home, secret_arguments=("--key", SECRET))
    spark = spark_submit.Installation(home, "/py", "/py")
    ask_driver(
        DescribeTask(),
        launch,
        spark,
        answer=Described,
        name="n",
        environ=os.environ,
        show_log=print,
    )
    assert json.loads((tmp_path / "got").read_text()) == ["--key", SECRET]
    assert SECRET not in (tmp_path / "words").read_text()


def test_without_secret_arguments_there_is_no_file() -> None:
    with secret_settings.arguments_file(
        secret_settings.handed_arguments(Launch("a", arguments=("b",))), None
    ):
        pass
    with secret_settings.arguments_file(None, "/nowhere") as path:
        assert path is None
    with (
        pytest.raises(LaunchFailed, match="secret arguments"),
        secret_settings.arguments_file(("x",), "/nowhere"),
    ):
        raise AssertionError
    assert secret_settings.with_arguments(["app.py", "x"], {}) == ["app.py", "x"]


def test_arguments_of_a_module(tmp_path: Path) -> None:
    with secret_settings.arguments_file(("x", "é\udcff"), str(tmp_path)) as path:
        environ = {secret_settings.ARGUMENTS_VARIABLE: str(path)}
        words = secret_settings.with_arguments(["--module", "a.b", MASK, MASK], environ)
        assert words == ["--module", "a.b", "x", "é\udcff"]
        assert (environ, os.listdir(tmp_path)) == ({}, [])


def test_a_plan_knows_a_program_without_its_secrets() -> None:
    one = Launch(None, ("--password", "a"), "m", secret_arguments=("b",))
    other = Launch(None, ("--password", "c"), "m", secret_arguments=("d",))
    assert program_digest(one) == program_digest(other)
    assert program_digest(one) != program_digest(Launch(None, ("--password", "a"), "m"))


# --- registries


NO_REGISTRY = [
    f"host=h dbname=d user=u password={SECRET}",
    f"  host = h password='{SECRET} x'",
    f"postgresql:u:{SECRET}@h/db",
    f"postgres:{SECRET}",
    f"mysql://u:{SECRET}@h/db",
    f"jdbc:postgresql://h/db?password={SECRET}",
    f"u:{SECRET}@h/db",
    f"{SECRET}@h/db",
    f"a\n{SECRET}",
]


@pytest.mark.parametrize("value", NO_REGISTRY)
def test_what_is_neither_url_nor_path_is_an_error(tmp_path: Path, value: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        Config.load(environ={"FLINKISH_REGISTRY": value, "HOME": str(tmp_path)}, cwd=str(tmp_path))
    error = caught.value
    assert error.code == 2
    assert SECRET not in json.dumps(error.to_record())
    assert "postgresql://USER@HOST" in error.hint
    with pytest.raises(InvalidConfiguration):
        Registry.open(value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["r.db", "./a=b.db", "/a=b/c:d@e.db", "é/r b.db", "~/x:y.db"])
def test_paths_stay_paths(path: str) -> None:
    assert sqlite_path(path, "/base") == os.path.normpath(
        os.path.join("/base", os.path.expanduser(path))
    )


URLS = [
    f"postgresql://u:{SECRET} and more@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}/and more@127.0.0.1:1/db",
    f"postgresql://u:x@{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}?more@127.0.0.1:1/db",
    f"postgresql://u@127.0.0.1:1/db?password=x {SECRET}",
    f"postgres://my user:{SECRET} x@127.0.0.1:1/db",
]


@pytest.mark.parametrize("url", URLS)
def test_a_password_with_blanks_and_marks_is_shown_nowhere(tmp_path: Path, url: str) -> None:
    pytest.importorskip("psycopg")
    config = Config.load(environ={"FLINKISH_REGISTRY": url, "HOME": "/"}, cwd=str(tmp_path))
    shown = str(config.setting("registry.url").masked)
    assert SECRET not in shown
    assert "more" not in shown
    with pytest.raises(RegistryError) as caught:
        Registry.open(config.registry_url())
    assert SECRET not in json.dumps(caught.value.to_record())
    assert "and more" not in caught.value.message
    said = f"cannot open {url} now"
    assert SECRET not in mask_secrets(said)
