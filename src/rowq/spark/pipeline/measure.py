"""The measurements of the reports, each a DataFrame by queue and hour (UTC), from lines of history and audit."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from rowq.model.fingerprint import LOOKED_AT, MOST, RULES

LIFE = ("seq", "queue", "sent_at", "leased_at", "finished_at", "attempts", "consumer")
"""What a report uses of a message's life."""
_COUNTED = ("delivered", "acked", "nacked", "rejected", "lease_expired", "rescheduled", "expired", "dead", "failed", "redriven")
_ENTERS = ("enqueued", "redriven")
_LEAVES = ("acked", "dead", "failed", "expired", "superseded", "deleted", "purged")
_FAILURES = ("nacked", "rejected", "lease_expired", "failed")
_TIMES = ("wait", "processing")
_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


def throughput(audit: DataFrame) -> DataFrame:
    """How many messages were sent, delivered, acked, … per hour."""
    messages = audit.where(F.col("seq").isNotNull())
    return messages.groupBy("queue", hour("at").alias("hour")).agg(_count("enqueued").alias("sent"), *map(_count, _COUNTED))


def lives(history: DataFrame, audit: DataFrame) -> DataFrame:
    """Every message that was acked or is in the history: when it was sent, last leased, and finished. For queues that keep no history, this
    is reconstructed from the audit."""
    kept = history.select(*LIFE)
    told = audit.where(F.col("event").isin("enqueued", "delivered", "acked"))
    told = (
        told.join(kept.select("seq"), "seq", "left_anti")
        .groupBy("seq")
        .agg(
            F.max("queue").alias("queue"),
            F.min(_when("enqueued", "at")).alias("sent_at"),
            F.max(_when("delivered", "at")).alias("leased_at"),
            F.max(_when("acked", "at")).alias("finished_at"),
            _count("delivered").alias("attempts"),
            F.max_by("actor", _when("acked", "at")).alias("consumer"),
        )
    )
    return kept.unionByName(told.where(F.col("finished_at").isNotNull()).select(*LIFE))


def latency(lives: DataFrame) -> DataFrame:
    """How long messages waited (from sending to their last lease) and were processed (from there to the end), in milliseconds. The sketches
    can be merged: `kll_merge_agg_bigint` gives the quantiles of a day, or of all queues."""
    times = lives.where(F.col("sent_at").isNotNull() & F.col("leased_at").isNotNull() & F.col("finished_at").isNotNull()).select(
        "queue",
        hour("finished_at").alias("hour"),
        _apart("leased_at", "sent_at").alias("wait"),
        _apart("finished_at", "leased_at").alias("processing"),
    )
    sketches = [F.kll_sketch_agg_bigint(name).alias(f"{name}_sketch") for name in _TIMES]
    maxima = [F.max(name).alias(f"{name}_max") for name in _TIMES]
    found = times.groupBy("queue", "hour").agg(F.count("*").alias("messages"), *sketches, *maxima)
    return found.withColumns(quantiles("wait") | quantiles("processing"))


def merged(latency: DataFrame, *by: str) -> DataFrame:
    """The same over longer times, or over several queues."""
    sketches = [F.kll_merge_agg_bigint(f"{name}_sketch").alias(f"{name}_sketch") for name in _TIMES]
    maxima = [F.max(f"{name}_max").alias(f"{name}_max") for name in _TIMES]
    found = latency.groupBy(*by).agg(F.sum("messages").alias("messages"), *sketches, *maxima)
    return found.withColumns(quantiles("wait") | quantiles("processing"))


def quantiles(name: str) -> dict[str, Column]:
    return {f"{name}_{suffix}": F.kll_sketch_get_quantile_bigint(F.col(f"{name}_sketch"), F.lit(rank)) for suffix, rank in _QUANTILES}


def retries(audit: DataFrame) -> DataFrame:
    """How many deliveries were not the first of their message, and how many ended without an ack."""
    delivered = F.col("event") == "delivered"
    counts = audit.groupBy("queue", hour("at").alias("hour")).agg(
        F.count_if(delivered).alias("deliveries"),
        F.count_if(delivered & (F.col("attempt") > 1)).alias("retries"),
        *map(_count, ("nacked", "lease_expired")),
        F.max(F.when(delivered, F.col("attempt"))).alias("most_attempts"),
    )
    return counts.where(F.col("deliveries") + F.col("nacked") + F.col("lease_expired") > 0)


def dead_letters(audit: DataFrame) -> DataFrame:
    """How many messages died, by reason, and their share of all that left the queue in the same hour."""
    at = hour("at").alias("hour")
    reason = F.substring_index(F.coalesce(F.col("detail"), F.lit("unknown")), ":", 1).alias("reason")
    died = audit.where(F.col("event") == "dead").groupBy("queue", at, reason).agg(F.count("*").alias("died"))
    left = audit.where(F.col("event").isin("acked", "dead", "failed")).groupBy("queue", at).agg(F.count("*").alias("ended"))
    return died.join(left, ["queue", "hour"]).withColumn("rate", F.col("died") / F.col("ended"))


def failures(audit: DataFrame) -> DataFrame:
    """Errors grouped by meaning: how often, on how many messages, from when to when, and one example."""
    unsaid = F.when(F.col("event") == "lease_expired", "the lease expired").otherwise("no reason given")
    error = F.coalesce(F.col("detail"), unsaid)
    told = audit.where(F.col("event").isin(*_FAILURES)).select("queue", "at", "seq", error.alias("error"))
    return (
        told.withColumn("fingerprint", fingerprinted(F.col("error")))
        .groupBy("queue", "fingerprint")
        .agg(
            F.count("*").alias("failures"),
            F.count_distinct("seq").alias("messages"),
            F.min("at").alias("first_at"),
            F.max("at").alias("last_at"),
            F.max_by("error", "at").alias("example"),
        )
    )


def fingerprinted(error: Column) -> Column:
    """The same as `fingerprint`, inside Spark."""
    replaced = reduce(lambda column, rule: F.regexp_replace(column, rule[0], rule[1]), RULES, F.substring(error, 1, LOOKED_AT))
    return F.substring(F.trim(replaced), 1, MOST)


def consumers(audit: DataFrame, lives: DataFrame) -> DataFrame:
    """What each consumer did, and how long it takes per message."""
    names = ("delivered", "acked", "nacked", "rejected", "lease_expired")
    did = audit.where(F.col("event").isin(*names)).groupBy("queue", F.coalesce("actor", F.lit("")).alias("consumer"))
    times = lives.where(F.col("leased_at").isNotNull()).select(
        "queue", F.coalesce("consumer", F.lit("")).alias("consumer"), _apart("finished_at", "leased_at").alias("processing")
    )
    took = times.groupBy("queue", "consumer").agg(F.kll_sketch_agg_bigint("processing").alias("processing_sketch"))
    return did.agg(*map(_count, names)).join(took.withColumns(quantiles("processing")), ["queue", "consumer"], "left")


def depth(audit: DataFrame) -> DataFrame:
    """How many messages were in the queue at the end of an hour: arrivals so far, less departures. A message whose arrival is not recorded
    was there from the beginning."""
    of_message = Window.partitionBy("seq").orderBy("line")
    moves = audit.where(F.col("seq").isNotNull() & F.col("event").isin(*_ENTERS, *_LEAVES))
    moves = moves.withColumn("inside", F.col("event").isin(*_ENTERS).cast("int"))
    before = F.lag("inside").over(of_message)
    moves = moves.withColumn("older", (before.isNull() & (F.col("inside") == 0)).cast("int"))
    moves = moves.withColumn("change", F.col("inside") - F.coalesce(before, 1 - F.col("inside")))
    changes = moves.groupBy("queue", hour("at").alias("hour")).agg(F.sum("change").alias("change"), F.sum("older").alias("older"))
    so_far = Window.partitionBy("queue").orderBy("hour").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    all_time = Window.partitionBy("queue")
    return changes.select("queue", "hour", (F.sum("change").over(so_far) + F.sum("older").over(all_time)).alias("depth"))


def hour(column: str, step_seconds: int = 3600) -> Column:
    """The start of the hour, whatever the timezone of the session."""
    return F.timestamp_seconds(F.floor(F.unix_seconds(F.col(column)) / step_seconds) * step_seconds)


def _count(event: str) -> Column:
    return F.count_if(F.col("event") == event).alias(event)


def _when(event: str, column: str) -> Column:
    return F.when(F.col("event") == event, F.col(column))


def _apart(later: str, earlier: str) -> Column:
    """Milliseconds, at least 0: clocks may disagree."""
    return F.greatest(F.lit(0), F.unix_millis(F.col(later)) - F.unix_millis(F.col(earlier)))
