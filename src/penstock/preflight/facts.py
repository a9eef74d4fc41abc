"""What was seen: all that the rules judge by, and nothing that they could ask a service for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.engine.checkpoint import due_batch
from penstock.engine.layout import StateLayout
from penstock.engine.pipeline import query_name, sinks_of, tiers
from penstock.engine.slots import realtime_sinks
from penstock.sinks.protocol import Position
from penstock.spec import PipelineSpec, Sink

Offsets = Mapping[int, int]
"""By partition."""

POSITIONS_STORE = "__consumer_offsets"
"""Where a cluster keeps the offsets of groups, which positions are."""
TRANSACTIONS_STORE = "__transaction_state"


@dataclass(frozen=True)
class Away:
    """A service that could not be looked at."""

    where: str
    why: str
    refused: bool = False
    """It answered, and did not let us in: waiting will not help."""


@dataclass(frozen=True)
class NoPosition:
    """A sink that holds none."""


@dataclass(frozen=True)
class Unreadable:
    """Something that is there, or may be, and could not be read."""

    why: str


Held = Position | NoPosition | Unreadable
Positions = Mapping[str, tuple[Held, ...]]
"""By sink, of those that are exactly once; one for each slot."""


@dataclass(frozen=True)
class TopicSettings:
    """The settings of a topic that a guarantee rests on."""

    min_in_sync: int = 1
    unclean_election: bool = False
    retention_ms: int = -1
    retention_bytes: int = -1
    compacted: bool = False
    stamped_by_producer: bool = False
    stamped_ahead_max_ms: int | None = None
    """How far ahead of the broker's clock a producer's stamp may be."""


@dataclass(frozen=True)
class Topic:
    """A topic that is there."""

    name: str
    partitions: int
    replicas: int = 1
    """The fewest that a partition has; so is in_sync."""
    in_sync: int = 1
    leaderless: int = 0
    """Partitions that nobody serves at the moment."""
    settings: TopicSettings | Unreadable = TopicSettings()


@dataclass(frozen=True)
class MissingTopic:
    """A topic that is not there, and what the cluster says to creating it."""

    name: str
    refusal: str = ""


@dataclass(frozen=True)
class KafkaFacts:
    where: str
    brokers: int
    topics: Mapping[str, Topic | MissingTopic]
    source_id: str = ""
    """What the cluster calls the source's topic; one that is created anew has another id."""
    first: Offsets = field(default_factory=dict)
    """The oldest record of the source that is left; `ends` is where the next one goes."""
    ends: Offsets = field(default_factory=dict)
    gone_in_an_hour: Offsets = field(default_factory=dict)
    """Records before this one are past their retention within the hour, and may be deleted."""
    gone_in_a_day: Offsets = field(default_factory=dict)
    transaction_timeout_max_ms: int | None = None
    offsets_retention_ms: int | None = None
    positions: Positions = field(default_factory=dict)
    readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Consumer groups with offsets, by topic, of the topics that are written exactly once."""
    groups_left_out: int = 0

    def topic(self, name: str) -> Topic | None:
        found = self.topics.get(name)
        return found if isinstance(found, Topic) else None


@dataclass(frozen=True)
class ClickHouseTable:
    engine: str
    columns: frozenset[str]
    deduplication_window: int = 0
    """Inserts whose token a table that is not replicated remembers."""
    partition_key: str = ""


@dataclass(frozen=True)
class ClickHouseFacts:
    where: str
    version: str
    tables: Mapping[str, ClickHouseTable | None]
    may_create: bool | None = None
    """None where the server cannot tell."""
    positions: Positions = field(default_factory=dict)


@dataclass(frozen=True)
class PostgresTable:
    columns: frozenset[str]
    unique: frozenset[frozenset[str]]
    """The sets of columns that ON CONFLICT can name."""
    writable: bool = True


@dataclass(frozen=True)
class PostgresFacts:
    where: str
    version: str
    tables: Mapping[str, PostgresTable | None]
    """The sinks' tables, and the tables of positions beside them."""
    creatable: Mapping[str, bool] = field(default_factory=dict)
    """By table that is not there."""
    read_only: bool = False
    fsync: bool = True
    may_make_temporary: bool = True
    connections_max: int = 100
    connections_free: int = 100
    positions: Positions = field(default_factory=dict)


@dataclass(frozen=True)
class CheckpointFacts:
    """One query's checkpoint, as files."""

    query: str
    path: str
    sinks: tuple[str, ...]
    realtime: bool = False
    locked: bool = False
    planned: int = -1
    """The newest batch that has its offsets; `committed` is the newest that is done."""
    committed: int = -1
    topic_id: str = ""
    """Of the topic that it has read."""
    next: Offsets = field(default_factory=dict)
    """The first record that the next batch reads; empty before the first batch."""
    layout: StateLayout | None = None
    damage: tuple[str, ...] = ()

    @property
    def due(self) -> int:
        """The batch that a start begins with."""
        return due_batch(self.planned, self.committed)


@dataclass(frozen=True)
class SinkCost:
    """What writing to a sink took, of the batches that were not replays."""

    batches: int
    write_ms: float
    """The median; the others are the median share of the batch, and the longest write."""
    share: float
    write_ms_max: float


@dataclass(frozen=True)
class JournalFacts:
    """What the newest part of the journal tells of."""

    last_at_ms: int | None = None
    costs: Mapping[str, SinkCost] = field(default_factory=dict)
    capacity_eps: float | None = None
    """Records a second within the largest batches: how fast a lag is caught up with."""
    added_eps: Mapping[int, float] = field(default_factory=dict)
    """Records that producers added a second, by partition."""


@dataclass(frozen=True)
class ReferenceFacts:
    """Whether reference data can be used."""

    name: str
    problems: tuple[str, ...] = ()
    kept: bool = False
    """A checkpoint has a version of it, and the spec lets a pipeline start on that."""


@dataclass(frozen=True)
class Start:
    """How the pipeline is to be started."""

    master: str = "local[*]"
    adopt: tuple[str, ...] = ()
    create_topics: bool = False
    accept_loss: bool = False
    """Go on without records that were deleted before they were read."""
    after: str = ""
    """The pipeline whose last batch this one begins behind."""


@dataclass(frozen=True)
class Facts:
    spec: PipelineSpec
    now_ms: int
    start: Start
    cores: int
    disk_free_bytes: int
    data: str
    kafka: KafkaFacts | Away
    clickhouse: ClickHouseFacts | Away | None
    """None where the pipeline has no use for it; so is postgres."""
    postgres: PostgresFacts | Away | None
    checkpoints: tuple[CheckpointFacts, ...] = ()
    journal: JournalFacts = JournalFacts()
    reference: tuple[ReferenceFacts, ...] = ()

    @property
    def exactly_once(self) -> list[Sink]:
        return [sink for sink in self.spec.sink if sink.guarantee == "exactly_once"]

    def checkpoint_of(self, sink: str) -> CheckpointFacts | None:
        return next((found for found in self.checkpoints if sink in found.sinks), None)


def queries(spec: PipelineSpec) -> dict[str, list[Sink]]:
    """The queries of a pipeline by name, each with its sinks; those in real time come last."""
    batched = {query_name(spec, tier): list(sinks_of(spec, tier)) for tier in tiers(spec)}
    return {**batched, **{f"{spec.name}-{sink.name}": [sink] for sink in realtime_sinks(spec)}}
