"""What flinkish reads of a table of Iceberg that Spark has written, step by step, as JSON.

Usage: iceberg_program.py DIRECTORY. The session has a catalog ``ice`` of Iceberg with the
extensions. Each line of the output is what one step found.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from flinkish.connectors.iceberg import parse_iceberg_position
from flinkish.connectors.sources import Consent, gravest_first
from flinkish.connectors.table_commits import drift, rollback_target
from flinkish.driver.connectors.iceberg import IcebergTable, table_of
from flinkish.driver.connectors.sinks import facts_at, open_table, resolve
from flinkish.driver.connectors.table import SinkPlace
from flinkish.driver.plan.plan_classes import read_tree
from flinkish.driver.plan.plan_sources import read_relations
from flinkish.errors import FlinkishError

directory = sys.argv[1]
spark = SparkSession.builder.appName("iceberg").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def tell(step: str, **found: Any) -> None:
    print("FOUND " + json.dumps({"step": step, **found}), flush=True)


def stream(name: str, table: str, numbers: range) -> str:
    """Write a row a batch, and return the id of the query."""
    source = os.path.join(directory, name)
    os.makedirs(source, exist_ok=True)
    for number in numbers:
        path = os.path.join(source, f"{number}.json")
        with open(path, "w") as file:
            file.write(json.dumps({"id": number}))
        os.utime(path, (1_700_000_000 + number,) * 2)
    lines = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(source)
    writer = lines.writeStream.option("checkpointLocation", os.path.join(directory, f"{name}-ck"))
    query = writer.trigger(availableNow=True).toTable(table)
    query.awaitTermination()
    return str(query.id)


def rows(table: str) -> list[int]:
    return sorted(row[0] for row in spark.table(table).collect())


def error_of(step: str, call: Any) -> None:
    try:
        call()
    except FlinkishError as error:
        tell(step, error=type(error).__name__, message=error.message)
    else:
        tell(step, error=None)


spark.sql("create table ice.db.t (id long) using iceberg")
table = IcebergTable(spark, "ice.db.t")
tell("empty", exists=table.exists(), reading=asdict(table.read("q")), commits=table.history())
tell("missing", exists=IcebergTable(spark, "ice.db.missing").exists())

query_id = stream("in", "ice.db.t", range(4))
first = resolve(SinkPlace(None, None, "ice.db.t"), spark)
named = resolve(SinkPlace("iceberg", "ice.db.t"), spark)
tell("places", table=asdict(first), named=asdict(named))
error_of("no name", lambda: resolve(SinkPlace("iceberg", "ice.db.missing"), spark))
by_path = open_table(SinkPlace("iceberg", first.path), spark)
assert by_path is not None
reading = table.read(query_id)
tell(
    "written",
    query_id=query_id,
    reading=asdict(reading),
    by_path=by_path.exists() and by_path.read(query_id) == reading,
    other=table.read("another").newest_batch,
    commits=[asdict(commit) for commit in table.history()],
)
facts = {n: facts_at(SinkPlace(None, None, "ice.db.t"), spark, query_id, n) for n in (1, 3)}
tell("facts", facts=facts)

spark.sql(
    "call ice.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))"
)
tell("compacted", newest=table.read(query_id).newest_batch, last=asdict(table.history()[-1]))

target = rollback_target(table.history(), query_id, 1)
assert target.version is not None
gone = table.read(query_id).version
table.roll_back(target.version)
tell("rolled back", newest=table.read(query_id).newest_batch, rows=rows("ice.db.t"))
assert gone is not None
since = [
    drift(table.history(back_to=version), query_id, batch, version).undone
    for batch, version in ((3, gone), (3, None), (1, target.version), (1, None))
]
there = rollback_target(table.history(), query_id, 3, gone, table.history(gone))
assert there.version is not None
table.roll_back(there.version)
tell("forward", since=since, newest=table.read(query_id).newest_batch, rows=rows("ice.db.t"))
table.roll_back(target.version)
error_of("no snapshot", lambda: table.roll_back(1))

spark.sql("insert into ice.db.t values (100)")
again = rollback_target(table.history(), query_id, 0)
tell("others", version=again.version, why=again.why)

expire = "call ice.system.expire_snapshots(table => 'db.t', retain_last => 1, "
spark.sql(expire + "older_than => timestamp '2100-01-01 00:00:00')")
error_of("expired", lambda: table.read(query_id))
tell("left", rows=rows("ice.db.t"), commits=len(table.history()))

spark.sql("create table ice.db.b (id long) using iceberg")
spark.sql("insert into ice.db.b values (1)")
spark.sql("alter table ice.db.b create branch x")
branch = IcebergTable(spark, "ice.db.b.branch_x")
tell("branch exists", exists=branch.exists())
error_of("branch", lambda: branch.read("q"))
spark.sql("alter table ice.db.b set tblproperties ('write.wap.enabled' = 'true')")
spark.conf.set("spark.wap.branch", "y")
error_of("no such branch", lambda: IcebergTable(spark, "ice.db.b").read("q"))
spark.conf.set("spark.wap.branch", "x")
error_of("audited branch", lambda: IcebergTable(spark, "ice.db.b").read("q"))


def read_on(table: str, checkpoint: str) -> str | None:
    """Let a query read what waits for it, and return the error that ends it."""
    lines = spark.readStream.format("iceberg").load(table)
    writer = lines.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.start()
    try:
        query.processAllAvailable()
    except StreamingQueryException:
        return str(query.exception()).splitlines()[0]
    finally:
        query.stop()
    return None


def met(step: str, table: str, checkpoint: str) -> None:
    """Tell what flinkish says of the position in a checkpoint, and what Spark does with it."""
    log = os.path.join(checkpoint, "offsets")
    newest = max(int(name) for name in os.listdir(log) if name.isdigit())
    with open(os.path.join(log, str(newest))) as file:
        offset = file.read().splitlines()[-1]
    position = parse_iceberg_position(offset)
    assert position is not None, offset
    answer = IcebergTable(spark, table).answer(position, {})
    found = gravest_first(answer.judge(offset, Consent("--reset-source in")))
    copied = f"{checkpoint}-{step.replace(' ', '-')}"
    shutil.copytree(checkpoint, copied)
    tell(
        step,
        found=[[each.reason, each.outcome.value] for each in found],
        cost=[each.text for each in answer.judge_reset(offset)],
        spark=read_on(table, copied),
    )


def make(name: str) -> tuple[str, str]:
    """Make a table with two snapshots and a checkpoint that has read both."""
    table, checkpoint = f"ice.db.{name}", os.path.join(directory, f"{name}-read")
    spark.sql(f"create table {table} (id long) using iceberg")
    for number in (1, 2):
        spark.sql(f"insert into {table} values ({number})")
    assert read_on(table, checkpoint) is None
    return table, checkpoint


table_name, read = make("s")
met("all read", table_name, read)
spark.sql(f"insert into {table_name} values (3), (4)")
compact = (
    "call ice.system.rewrite_data_files(table => 'db.s', options => map('rewrite-all', 'true'))"
)
spark.sql(compact)
met("rows wait", table_name, read)
spark.sql(f"delete from {table_name} where id = 1")
met("deleted", table_name, read)
spark.sql(f"insert overwrite {table_name} values (9)")
met("overwritten", table_name, read)
spark.sql(expire.replace("db.t", "db.s") + "older_than => timestamp '2100-01-01 00:00:00')")
met("source expired", table_name, read)

table_name, read = make("less")
spark.sql(f"delete from {table_name} where id = 2")
met("a file deleted", table_name, read)

table_name, read = make("back")
source_table = IcebergTable(spark, table_name)
source_table.roll_back(source_table.history()[0].version)
met("brought back", table_name, read)

table_name, read = make("again")
spark.sql(f"drop table {table_name} purge")
spark.sql(f"create table {table_name} (id long) using iceberg")
met("made again", table_name, read)
spark.sql(f"insert into {table_name} values (5)")
met("made again with rows", table_name, read)


def relation_of(frame: Any) -> dict[str, Any]:
    """Return which table flinkish sees in the plan of a source, and with which options."""
    (relation,) = read_relations(spark._jvm, read_tree(frame._jdf.queryExecution().analyzed()))
    return {"table": table_of(relation.signature), "options": dict(relation.options)}


reader = spark.readStream.format("iceberg").option("Streaming-Skip-Delete-Snapshots", "true")
by_catalog = spark.readStream.option("streaming-skip-delete-snapshots", "true")
tell(
    "relations",
    name=relation_of(reader.load("ice.db.s")),
    path=relation_of(reader.load(os.path.join(directory, "wh", "db", "s"))),
    table=relation_of(by_catalog.table("ice.db.s")),
)
