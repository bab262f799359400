"""The launch of the new program: the old one's, where nothing else was given."""

from __future__ import annotations

from flinkish.messages.launch import Launch, Program, RestoreSpec
from flinkish.upgrade.target import Changes, target_launch

OLD = Launch(
    "/old.py",
    arguments=("in", "out"),
    master="local[2]",
    spark_home="/opt/spark-3.5",
    python="/venv/bin/python",
    client_python="/opt/python",
    conf={"spark.sql.shuffle.partitions": "4", "spark.x": "1"},
    options={"client.timeout": "9 s", "execution.state-recovery.path": "/sp"},
    working_directory="/srv",
    restore=RestoreSpec("/sp"),
)


def test_nothing_given_is_the_same_without_its_restore() -> None:
    same = target_launch(OLD, Changes())
    assert same.restore is None
    assert same.options == {"client.timeout": "9 s"}
    for name in ("application", "arguments", "master", "spark_home", "python", "conf"):
        assert getattr(same, name) == getattr(OLD, name)


def test_another_program_in_another_directory() -> None:
    new = target_launch(OLD, Changes(Program("/new/app.py", ("x",)), working_directory="/new"))
    assert (new.application, new.arguments, new.working_directory) == (
        "/new/app.py",
        ("x",),
        "/new",
    )
    module = target_launch(Launch(None, module="a.b"), Changes(Program("/app.py")))
    assert (module.application, module.module) == ("/app.py", None)


def test_arguments_are_kept_unless_others_or_none_are_meant() -> None:
    assert target_launch(OLD, Changes(Program("/app.py"))).arguments == OLD.arguments
    assert target_launch(OLD, Changes(drops_arguments=True)).arguments == ()


def test_another_spark_brings_its_own_driver() -> None:
    new = target_launch(OLD, Changes(Program(spark_home="/opt/spark-4.3")))
    assert (new.spark_home, new.client_python, new.python) == ("/opt/spark-4.3", None, OLD.python)


def test_another_python_brings_its_own_spark() -> None:
    new = target_launch(OLD, Changes(Program(python="/new/bin/python")))
    assert (new.python, new.client_python) == ("/new/bin/python", "/new/bin/python")
    assert new.spark_home is None
    program = Program(python="/new/bin/python", spark_home="/opt/spark-4.3")
    both = target_launch(OLD, Changes(program))
    assert both.spark_home == "/opt/spark-4.3"


def test_settings_are_added_and_replaced() -> None:
    new = target_launch(OLD, Changes(Program(conf={"spark.x": "2", "spark.y": "3"}), parallelism=8))
    assert new.conf == {"spark.sql.shuffle.partitions": "8", "spark.x": "2", "spark.y": "3"}
