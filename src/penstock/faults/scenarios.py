"""All scenarios, by name."""

from __future__ import annotations

from penstock.faults import kills, loads, refusals, rivals
from penstock.faults.scenario import Scenario

_DEDUPE = (
    "cleanse.dedupe.on=event_id",
    "cleanse.dedupe.within=1 minute",
    "sink.dead-letters.rows=rejected, late, duplicate",
)

# The pipeline's own clock would go on with batches while nothing comes.
_NO_TICKS = ("sessions.idle=1 hour",)
# A sink at least once takes what comes, also of a batch that the others refuse.
_LIVE_ONCE = ("sink.sessions_live.guarantee=exactly_once",)

_ALL = (
    Scenario("driver-killed-before-commit", kills.driver_before_commit),
    Scenario("driver-killed-anywhere", kills.driver_anywhere),
    Scenario("driver-killed-upserts", kills.driver_before_commit, pipeline="transactions"),
    Scenario("driver-killed-windows", kills.driver_anywhere, pipeline="behaviour"),
    Scenario("jvm-killed", kills.jvm),
    Scenario("producer-killed", kills.producer),
    Scenario("clickhouse-killed", kills.clickhouse),
    Scenario("postgres-killed", kills.postgres, pipeline="transactions"),
    Scenario("broker-killed", kills.broker, brokers=3),
    Scenario("controller-killed", kills.controller, brokers=3),
    Scenario("two-drivers", rivals.second_on_checkpoint),
    Scenario("two-drivers-copied", rivals.second_on_copy),
    Scenario("two-drivers-idle", rivals.second_on_idle_copy, settings=_NO_TICKS),
    Scenario("two-drivers-upserts", rivals.second_on_idle_copy, pipeline="transactions"),
    Scenario("zombie", rivals.zombie, run_patches=("slow-commit",)),
    Scenario("position-deleted", refusals.position_deleted),
    Scenario("position-deleted-upserts", refusals.position_deleted, pipeline="transactions"),
    Scenario("checkpoint-rolled-back", refusals.checkpoint_rolled_back),
    Scenario("replay-differs", refusals.replay_differs, settings=_LIVE_ONCE),
    Scenario("topic-recreated", refusals.topic_recreated, settings=_NO_TICKS, is_final=True),
    Scenario("poison", loads.poison, send_patches=("poison",)),
    Scenario(
        "duplicates",
        loads.duplicates,
        settings=_DEDUPE,
        send_patches=("repeats",),
        verdict=loads.copies_set_aside,
    ),
    Scenario("burst", loads.burst),
)

SCENARIOS = {scenario.name: scenario for scenario in _ALL}
