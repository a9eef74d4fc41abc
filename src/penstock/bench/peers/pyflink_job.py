"""Sessions of clicks in SQL, from a topic's beginning to its end, as often as there are rounds.

A program of its own, run by the Python that has PyFlink. It prints the same marks as the peers in Java.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time

from pyflink.table import EnvironmentSettings, TableEnvironment

# The parser that reads fields one by one does not see that a record ends too soon behind the last of them.
CLICKS = """
CREATE TABLE clicks (
  event_id STRING, user_id STRING, event_type STRING, product_id STRING, page STRING, price DOUBLE, ts BIGINT,
  `offset` BIGINT METADATA VIRTUAL,
  happened AS TO_TIMESTAMP_LTZ(COALESCE(ts, 0), 3),
  WATERMARK FOR happened AS happened - INTERVAL '3' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = '{topic}',
  'properties.bootstrap.servers' = '{bootstrap}',
  'properties.group.id' = 'pyflink',
  'properties.isolation.level' = 'read_committed',
  'properties.max.poll.records' = '5000',
  'properties.max.partition.fetch.bytes' = '4194304',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json',
  'json.ignore-parse-errors' = 'true',
  'json.decode.json-parser.enabled' = 'false'
)"""

LOOKUP = """
CREATE TABLE {name} (
  {key} STRING, {first} STRING, {second} STRING,
  since AS TO_TIMESTAMP_LTZ(0, 3),
  WATERMARK FOR since AS since,
  PRIMARY KEY ({key}) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'path' = 'file://{work}/reference/{name}.tsv',
  'format' = 'csv',
  'csv.field-delimiter' = '\t'
)"""

# FIRST_VALUE and LAST_VALUE go by arrival. What happened first or last is found as the least or greatest text
# that begins with time and offset, 13 and 12 digits.
ENRICHED = """
CREATE TEMPORARY VIEW enriched AS
SELECT c.user_id, c.event_type, c.page, c.price, c.ts, c.happened, u.segment, u.country, p.category,
  CAST(c.ts AS STRING) || LPAD(CAST(c.`offset` AS STRING), 12, '0') AS place
FROM (
  SELECT * FROM clicks
  WHERE event_id IS NOT NULL AND user_id IS NOT NULL AND ts IS NOT NULL
    AND event_type IN ('view', 'click', 'search', 'cart', 'purchase') AND (price IS NULL OR price >= 0)
) AS c
LEFT JOIN users FOR SYSTEM_TIME AS OF c.happened AS u ON c.user_id = u.user_id
LEFT JOIN catalogue FOR SYSTEM_TIME AS OF c.happened AS p ON c.product_id = p.product_id
"""

SINK = """
CREATE TABLE sessions_{number} (
  user_id STRING, start_ms BIGINT, end_ms BIGINT, events BIGINT, purchases BIGINT, revenue DOUBLE,
  first_page STRING, last_page STRING, segment STRING, country STRING, top_price DOUBLE, last_category STRING
) WITH (
  'connector' = 'kafka',
  'topic' = '{output}-{number}',
  'properties.bootstrap.servers' = '{bootstrap}',
  'properties.compression.type' = 'lz4',
  'properties.linger.ms' = '5',
  'properties.batch.size' = '131072',
  'properties.transaction.timeout.ms' = '300000',
  'sink.delivery-guarantee' = '{guarantee}',
  'sink.transactional-id-prefix' = '{output}-{number}',
  'key.format' = 'raw',
  'key.fields' = 'user_id',
  'value.format' = 'json'
)"""

SESSIONS = """
INSERT INTO sessions_{number}
SELECT user_id, MIN(ts), MAX(ts), COUNT(*),
  SUM(CASE WHEN event_type = 'purchase' THEN CAST(1 AS BIGINT) ELSE 0 END),
  SUM(CASE WHEN event_type = 'purchase' THEN price ELSE 0 END),
  SUBSTR(MIN(place || page), 26), SUBSTR(MAX(place || page), 26), MAX(segment), MAX(country), MAX(price),
  SUBSTR(MAX(place || category), 26)
FROM SESSION(TABLE enriched PARTITION BY user_id, DESCRIPTOR(happened), INTERVAL '30' MINUTES)
GROUP BY user_id, window_start, window_end
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "topic", "output", "guarantee", "work", "jars"):
        options.add_argument(f"--{name}", required=True)
    for name in ("rounds", "events"):
        options.add_argument(f"--{name}", type=int, required=True)
    given = options.parse_args()
    threading.Thread(target=end_with_parent, args=[os.getppid()], daemon=True).start()
    tables = environment(given.work, given.jars, given.guarantee)
    words = {**vars(given), "guarantee": given.guarantee.replace("_", "-")}
    tables.execute_sql(CLICKS.format(**words))
    for name, key, first, second in (
        ("users", "user_id", "segment", "country"),
        ("catalogue", "product_id", "category", "brand"),
    ):
        tables.execute_sql(LOOKUP.format(name=name, key=key, first=first, second=second, work=given.work))
    tables.execute_sql(ENRICHED)
    for number in range(given.rounds):
        tables.execute_sql(SINK.format(number=number, **words))
        say(mark="first")
        began = time.perf_counter()
        tables.execute_sql(SESSIONS.format(number=number)).wait()
        seconds = round(time.perf_counter() - began, 3)
        # What it has read and written is not known here; the parent counts the sessions in the topic.
        say(mark="done", events=given.events, sessions=0, seconds=seconds, committed_s=seconds)


def environment(work: str, jars: str, guarantee: str) -> TableEnvironment:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "pipeline.jars": jars,
        "pipeline.object-reuse": "true",
        "parallelism.default": "2",
        "state.backend.type": "hashmap",
        "execution.checkpointing.dir": f"file://{work}/checkpoints",
        "execution.checkpointing.interval": "5s",
        "execution.checkpointing.mode": guarantee.upper(),
        "taskmanager.memory.managed.size": "512mb",
        "taskmanager.memory.network.min": "128mb",
        "taskmanager.memory.network.max": "128mb",
    }
    for name, value in settings.items():
        tables.get_config().set(name, value)
    return tables


def end_with_parent(parent: int) -> None:
    """The JVM ends with this process by itself."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def say(**mark: object) -> None:
    print(json.dumps(mark, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
