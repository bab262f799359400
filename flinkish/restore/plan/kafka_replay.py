"""A planned batch of a Kafka source, replayed on a Spark that fails after it. Pure.

``KafkaMicroBatchStream.metrics`` of Spark 4.1 (seen in 4.1.1, not in 4.0.1 and 4.2.0; SPARK-55271)
wraps ``latestPartitionOffsets`` in ``Some`` although it is null until the source was asked for its
latest offsets, which a replay does not do. So the query ends with a NullPointerException when it
reports its progress. The batch is committed by then: started again, the query goes on.
"""

from __future__ import annotations

from flinkish.connectors.sources import kind_of
from flinkish.messages.plan import Check, RestoreOutcome
from flinkish.restore.recipe import Recipe, TakenSource
from flinkish.restore.source.restore_inputs import NewQuery

_LINE = "4.1."


def check_replay(new: NewQuery, recipe: Recipe, spark: str) -> Check | None:
    """Return the warning for a query that fails after its replayed batch, or None.

    Parameters
    ----------
    spark
        The version of the Spark that restores.
    """
    if not (spark.startswith(_LINE) and recipe.replays_planned):
        return None
    taken = recipe.sources
    for source in new.sources or ():
        part = None if taken is None else taken[source.entry]
        replayed = taken is None or (
            isinstance(part, TakenSource) and part.origin == recipe.base and part.offset is None
        )
        if replayed and kind_of(source.signature) == "kafka":
            return Check(
                "kafka-replay-fails",
                RestoreOutcome.WARNING,
                f"query '{new.name}': {source.describe()} replays a planned batch; the "
                "Kafka connector of Spark 4.1.1 fails when that batch is committed "
                "(SPARK-55271, NullPointerException in KafkaMicroBatchStream.metrics)",
                "a restart loses nothing: run it with --restart-strategy fixed-delay, or "
                "restart the job after it has failed",
            )
    return None
