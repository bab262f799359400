"""What a program asks for when it attaches, from its three places; no driver is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.driver.attached import request
from flinkish.driver.attached.request import Arguments, asks_restore, attach_request
from flinkish.errors import FlinkishError, InvalidConfiguration, StorageError, UsageError
from flinkish.launch.restoring import options_from
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.restore_options import RestoreOptions

SAVEPOINT = "/sp/savepoint-1"


def test_an_argument_wins_then_the_environment_then_sparks_settings(tmp_path: Path) -> None:
    spark = {
        "spark.flinkish.name": "by-spark",
        "spark.flinkish.registry": f"sqlite:///{tmp_path}/spark.db",
        "spark.flinkish.client.timeout": "7 s",
        "spark.flinkish.restore.savepoint": "/sp/by-spark",
        "spark.sql.shuffle.partitions": "3",
    }
    environ = {
        "HOME": str(tmp_path),
        "FLINKISH_NAME": "by-environment",
        "FLINKISH_REGISTRY": f"{tmp_path}/environment.db",
        "FLINKISH_RESTORE_SAVEPOINT": "/sp/by-environment",
    }
    here = str(tmp_path)
    least = attach_request(Arguments(), {"HOME": here}, spark, here)
    assert (least.name, least.restore) == ("by-spark", RestoreSpec("/sp/by-spark", _defaults()))
    assert least.config.registry_url() == f"sqlite:///{tmp_path}/spark.db"
    assert least.config.get("client.timeout") == "7 s"
    assert least.config.get("spark.sql.shuffle.partitions") is None

    more = attach_request(Arguments(), environ, spark, here)
    assert more.name == "by-environment"
    assert more.config.registry_url() == f"sqlite:///{tmp_path}/environment.db"
    assert more.restore == RestoreSpec("/sp/by-environment", _defaults())

    keys = {"registry.url": f"{tmp_path}/argument.db"}
    most = attach_request(Arguments("by-argument", SAVEPOINT, keys=keys), environ, spark, here)
    assert most.name == "by-argument"
    assert most.config.registry_url() == f"sqlite:///{tmp_path}/argument.db"
    assert most.restore == RestoreSpec(SAVEPOINT, _defaults())


def _defaults() -> RestoreOptions:
    return RestoreOptions(claim_mode="no_claim")


def test_flinkish_from_savepoint_is_the_key_of_run(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "FLINKISH_FROM_SAVEPOINT": SAVEPOINT}
    asked = attach_request(Arguments(), environ, {}, str(tmp_path))
    assert asked.restore is not None
    assert asked.restore.path == SAVEPOINT
    assert asks_restore(Arguments(), environ, {}, str(tmp_path))


def test_every_option_of_a_restore_has_a_spelling() -> None:
    texts = {
        "allow-non-restored": "true",
        "claim-mode": "claim",
        "fork": "yes",
        "uid-map": "a=b, c=d=e",
        "path-map": "/in=/at",
        "reset-sources": "one,two",
        "sink-ahead": "rebase",
        "accept-lost-rows": "true",
        "accept-partial": '["a,b"]',
        "offline": "1",
        "set-offsets": 's=earliest, kafka t={"t":{"0":1,"1":2}},',
        "accept-repeated-rows": "true",
        "verify": "full",
    }
    assert options_from(texts) == RestoreOptions(
        allow_non_restored=True,
        claim_mode="claim",
        fork=True,
        path_map=(("/in", "/at"),),
        uid_map=(("a", "b"), ("c", "d=e")),
        reset_sources=("one", "two"),
        sink_ahead="rebase",
        accept_lost_rows=True,
        accept_partial=("a,b",),
        offline=True,
        set_offsets=(("s", "earliest"), ("kafka t", '{"t":{"0":1,"1":2}}')),
        accept_repeated_rows=True,
        verify="full",
    )
    fields = {name.replace("_", "-") for name in vars(RestoreOptions())}
    assert fields <= {*texts, "map-path"}


@pytest.mark.parametrize(
    ("spark", "error", "word"),
    [
        ({"restore.sink-ahead": "never"}, UsageError, "sink-ahead"),
        ({"restore.nothing": "x"}, UsageError, "nothing"),
        ({"restore.fork": "maybe"}, InvalidConfiguration, "maybe"),
        ({"restore.uid-map": "a"}, UsageError, "OLD=NEW"),
        ({"restore.parallelism": "0"}, UsageError, "parallelism"),
        ({"restore.fork": "true"}, UsageError, "savepoint"),  # and no savepoint
        ({"client.timeout": "soon"}, InvalidConfiguration, "spark.flinkish.client.timeout"),
    ],
)
def test_a_wrong_setting_is_named(
    tmp_path: Path, spark: dict[str, str], error: type[FlinkishError], word: str
) -> None:
    settings = {f"spark.flinkish.{key}": value for key, value in spark.items()}
    with pytest.raises(error, match=word):
        attach_request(Arguments(), {"HOME": str(tmp_path)}, settings, str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "environ", "spark", "asks"),
    [
        (Arguments(), {}, {"spark.flinkish.name": "n"}, False),
        (Arguments(savepoint=SAVEPOINT), {}, {}, True),
        (Arguments(), {"FLINKISH_FROM_SAVEPOINT": ""}, {}, False),
        (Arguments(), {}, {"spark.flinkish.restore.savepoint": SAVEPOINT}, True),
        (Arguments(), {}, {"spark.flinkish.execution.state-recovery.path": SAVEPOINT}, True),
        (Arguments(), {}, {"spark.flinkish.execution.savepoint.path": SAVEPOINT}, True),
        (Arguments(keys={"execution.state-recovery.path": SAVEPOINT}), {}, {}, True),
        (Arguments(), {"FLINKISH_EXECUTION_STATE_RECOVERY_PATH": SAVEPOINT}, {}, True),
        (Arguments(), {"FLINKISH_EXECUTION_SAVEPOINT_PATH": SAVEPOINT}, {}, True),
        (Arguments(), {"FLINKISH_RESTORE_SAVEPOINT": SAVEPOINT}, {}, True),
        (Arguments(), {"FLINKISH_RESTORE_SAVEPOINT": ""}, {}, False),
        (Arguments(), {"FLINKISH_RESTORE_SINK_AHEAD": "rebase"}, {}, False),
        (Arguments(), {"FLINKISH_RESTORE_SINK_AHEAD": "rollback"}, {}, True),
        (Arguments(), {}, {"spark.flinkish.restore.sink-ahead": "accept"}, False),
        (Arguments(), {"FLINKISH_CLIENT_TIMEOUT": "soon"}, {}, False),
    ],
)
def test_a_restore_is_asked_for(
    tmp_path: Path,
    arguments: Arguments,
    environ: dict[str, str],
    spark: dict[str, str],
    asks: bool,
) -> None:
    environ = {"HOME": str(tmp_path), **environ}
    assert asks_restore(arguments, environ, spark, str(tmp_path)) is asks


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (f'"execution.state-recovery.path" = "{SAVEPOINT}"', True),
        (f'[execution.savepoint]\npath = "{SAVEPOINT}"', True),
        ('"client.timeout" = "60 s"', False),
        ('"client.timeout" = "soon"', False),
        ('"client.timeout" = [["soon"]]', False),
        (f'"client.timeout" = "soon"\n"from-savepoint" = "{SAVEPOINT}"', True),
        ("no TOML", True),  # it may name a savepoint
    ],
)
def test_a_restore_is_asked_for_by_a_file_of_the_configuration(
    tmp_path: Path, text: str, asks: bool
) -> None:
    (tmp_path / "flinkish.toml").write_text(text)
    assert asks_restore(Arguments(), {"HOME": str(tmp_path)}, {}, str(tmp_path)) is asks


def test_a_configuration_that_may_not_be_read_asks_for_no_restore(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a container whose home directory belongs to another user."""

    def denied(path: str) -> None:
        raise StorageError(f"cannot read {path}: Permission denied")

    monkeypatch.setattr(request, "read_toml", denied)
    assert not asks_restore(Arguments(), {"HOME": str(tmp_path)}, {}, str(tmp_path))


def test_an_argument_for_a_key_wins_over_the_environment_and_sparks_settings(
    tmp_path: Path,
) -> None:
    keys = {
        "execution.state-recovery.path": SAVEPOINT,
        "execution.state-recovery.claim-mode": "claim",
        "parallelism.default": "4",
    }
    environ = {
        "HOME": str(tmp_path),
        "FLINKISH_RESTORE_SAVEPOINT": "/sp/by-environment",
        "FLINKISH_RESTORE_PARALLELISM": "8",
    }
    asked = attach_request(Arguments(keys=keys), environ, {}, str(tmp_path))
    assert asked.restore == RestoreSpec(SAVEPOINT, RestoreOptions(claim_mode="claim"), 4)
    assert asked.parallelism == 4


def test_the_argument_parallelism_wins_over_the_environment(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "FLINKISH_RESTORE_PARALLELISM": "8"}
    arguments = Arguments(savepoint=SAVEPOINT, parallelism=4)
    asked = attach_request(arguments, environ, {}, str(tmp_path))
    assert asked.restore == RestoreSpec(SAVEPOINT, _defaults(), 4)


def test_the_savepoint_of_the_environment_wins_over_that_of_sparks_settings(
    tmp_path: Path,
) -> None:
    environ = {"HOME": str(tmp_path), "FLINKISH_FROM_SAVEPOINT": SAVEPOINT}
    spark = {"spark.flinkish.restore.savepoint": "/sp/by-spark"}
    asked = attach_request(Arguments(), environ, spark, str(tmp_path))
    assert asked.restore == RestoreSpec(SAVEPOINT, _defaults())


_MODE = "execution.state-recovery.claim-mode"
_IGNORE = "execution.state-recovery.ignore-unclaimed-state"


@pytest.mark.parametrize(
    ("keys", "environ", "spark", "options"),
    [
        ({_MODE: "no_claim"}, {"RESTORE_CLAIM_MODE": "claim"}, {}, RestoreOptions()),
        ({_MODE: "no_claim"}, {}, {"restore.claim-mode": "claim"}, RestoreOptions()),
        (
            {},
            {"EXECUTION_STATE_RECOVERY_CLAIM_MODE": "no_claim"},
            {"restore.claim-mode": "claim"},
            RestoreOptions(),
        ),
        ({_IGNORE: "false"}, {"RESTORE_ALLOW_NON_RESTORED": "true"}, {}, RestoreOptions()),
        (
            {},
            {"RESTORE_ALLOW_NON_RESTORED": "false"},
            {"restore.allow-non-restored": "true"},
            RestoreOptions(),
        ),
        ({}, {"RESTORE_ALLOW_NON_RESTORED": "false"}, {_IGNORE: "true"}, RestoreOptions()),
        (
            {},
            {},
            {"restore.allow-non-restored": "true", "restore.claim-mode": "claim"},
            RestoreOptions(allow_non_restored=True, claim_mode="claim"),
        ),
        (
            {_MODE: "no_claim"},
            {"RESTORE_ALLOW_NON_RESTORED": "true"},
            {},
            RestoreOptions(allow_non_restored=True),
        ),
    ],
)
def test_the_first_place_with_an_option_wins(
    tmp_path: Path,
    keys: dict[str, str],
    environ: dict[str, str],
    spark: dict[str, str],
    options: RestoreOptions,
) -> None:
    asked = attach_request(
        Arguments(keys={"execution.state-recovery.path": SAVEPOINT, **keys}),
        {"HOME": str(tmp_path), **{f"FLINKISH_{name}": text for name, text in environ.items()}},
        {f"spark.flinkish.{key}": text for key, text in spark.items()},
        str(tmp_path),
    )
    mode = options.claim_mode or "no_claim"
    assert asked.restore == RestoreSpec(SAVEPOINT, replace(options, claim_mode=mode))


@pytest.mark.parametrize(
    ("environ", "parallelism"), [({"FLINKISH_PARALLELISM_DEFAULT": "4"}, 4), ({}, 8)]
)
def test_the_parallelism_of_the_environment_wins_over_that_of_sparks_settings(
    tmp_path: Path, environ: dict[str, str], parallelism: int
) -> None:
    spark = {"spark.flinkish.restore.parallelism": "8"}
    arguments = Arguments(savepoint=SAVEPOINT)
    asked = attach_request(arguments, {"HOME": str(tmp_path), **environ}, spark, str(tmp_path))
    assert asked.parallelism == parallelism
    assert asked.restore == RestoreSpec(SAVEPOINT, _defaults(), parallelism)
