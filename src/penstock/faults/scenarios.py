"""All scenarios, by name."""

from __future__ import annotations

from penstock.faults import damage, exposure, kills, loads, network, refusals, rivals, topics, transactions
from penstock.faults.scenario import Scenario
from penstock.faults.trial import Trial

_DEDUPE = (
    "cleanse.dedupe.on=event_id",
    "cleanse.dedupe.within=1 minute",
    "sink.dead-letters.rows=rejected, late, duplicate",
)

# The pipeline's own clock would go on with batches while nothing comes.
_NO_TICKS = ("sessions.idle=1 hour",)
# A sink at least once takes what comes, also of a batch that the others refuse.
_LIVE_ONCE = ("sink.sessions_live.guarantee=exactly_once",)
_TWO_EXECUTORS = ("--master", "local-cluster[2,1,1024]")

_EACH = (
    Scenario("driver-killed-before-commit", kills.driver_before_commit),
    Scenario("driver-killed-anywhere", kills.driver_anywhere),
    Scenario("driver-killed-upserts", kills.driver_before_commit, pipeline="transactions"),
    Scenario(
        "driver-killed-slots", kills.driver_anywhere, pipeline="transactions", settings=("sink.0.writers=2",)
    ),
    Scenario("driver-killed-windows", kills.driver_anywhere, pipeline="behaviour"),
    Scenario("jvm-killed", kills.jvm),
    Scenario("executor-killed", kills.executor, run_options=_TWO_EXECUTORS, run_patches=("own-spark-home",)),
    Scenario("producer-killed", kills.producer),
    Scenario("clickhouse-killed", kills.clickhouse),
    Scenario("postgres-killed", kills.postgres, pipeline="transactions"),
    Scenario("only-broker-killed", kills.only_broker),
    Scenario("broker-killed", kills.broker, brokers=3),
    Scenario("controller-killed", kills.controller, brokers=3),
    Scenario("isr-below-minimum", kills.below_minimum, brokers=3),
    Scenario("network-cut", network.network_cut, brokers=3, within=network.own_network),
    Scenario("two-drivers", rivals.second_on_checkpoint),
    Scenario("two-drivers-copied", rivals.second_on_copy),
    Scenario("two-drivers-idle", rivals.second_on_idle_copy, settings=_NO_TICKS),
    Scenario("two-drivers-upserts", rivals.second_on_idle_copy, pipeline="transactions"),
    Scenario("zombie", rivals.zombie, run_patches=("slow-commit",)),
    Scenario("hanging-transaction", transactions.hanging_foreign),
    Scenario(
        "transaction-timed-out", transactions.hanging_own, run_patches=("slow-commit", "short-transactions")
    ),
    Scenario("position-deleted", refusals.position_deleted),
    Scenario("position-deleted-upserts", refusals.position_deleted, pipeline="transactions"),
    Scenario("checkpoint-rolled-back", refusals.checkpoint_rolled_back),
    Scenario("checkpoint-corrupt", damage.checkpoint_corrupt),
    Scenario("spec-changed", refusals.spec_changed),
    Scenario("disk-full", damage.disk_full, within=damage.small_disk),
    Scenario("clickhouse-forgets", damage.clickhouse_forgets),
    Scenario("replay-differs", refusals.replay_differs, settings=_LIVE_ONCE),
    Scenario("topic-recreated", topics.topic_recreated, settings=_NO_TICKS, is_final=True),
    Scenario("records-gone", topics.records_gone, settings=_NO_TICKS, is_final=True),
    Scenario("records-gone-running", topics.records_gone_running, settings=_NO_TICKS, is_final=True),
    Scenario("poison", loads.poison, send_patches=("poison",)),
    Scenario(
        "duplicates",
        loads.duplicates,
        settings=_DEDUPE,
        send_patches=("repeats",),
        verdict=loads.copies_set_aside,
    ),
    Scenario("clock-ahead", loads.clock_ahead, send_patches=("clock-ahead",), verdict=loads.future_refused),
    Scenario(
        "idle-partition",
        loads.idle_partition,
        settings=("sessions.idle=5 seconds",),
        send_patches=("idle-partitions",),
    ),
    Scenario("burst", loads.burst),
    Scenario("hot-key", loads.hot_key, send_patches=("hot-key",)),
    Scenario("secrets", exposure.secrets, pipeline="transactions", verdict=exposure.nothing_told),
)

_MIXED = [scenario.round for scenario in _EACH if scenario.is_plain]


def mix(trial: Trial) -> None:
    """Do one of the other faults, whichever chance names, to a pipeline that has been through others."""
    chosen = trial.chance.choice(_MIXED)
    trial.chose = chosen.__name__
    chosen(trial)


SCENARIOS = {scenario.name: scenario for scenario in (*_EACH, Scenario("mix", mix, brokers=3))}
