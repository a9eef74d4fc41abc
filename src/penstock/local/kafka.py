"""Kafka: one broker, or three that replicate, in KRaft mode, each node broker and controller at once."""

from __future__ import annotations

import base64
import json
import logging
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.errors import ServiceError
from penstock.local.ports import HOST, free_ports, is_free, is_open
from penstock.local.process import Child
from penstock.local.service import POLL_S, NotReady, Service
from penstock.paths import DataDir
from penstock.toolchain import ensure_jars, ensure_java
from penstock.tuning import tuned

# librdkafka reports every refused connection of a broker that is still starting.
SILENT = logging.getLogger("penstock.local.kafka.librdkafka")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False

LOG4J2 = """<Configuration status="WARN">
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
  <Loggers>
    <Logger name="kafka.server.KafkaRaftServer" level="INFO"/>
    <Logger name="org.apache.kafka.controller.ReplicationControlManager" level="INFO"/>
    <Logger name="org.apache.kafka.clients.NetworkClient" level="ERROR"/>
    <Root level="WARN"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
"""

METRICS = Path(__file__).with_name("kafka-metrics.yaml")

_NO_PORT = 0
"""Of a node that was formatted before brokers were monitored."""

_QUICK = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
"""For a JVM that does little."""

_FENCE_TIMEOUT_S = 20.0
_FENCED_WITHIN_S = 2.0
"""Of the controller's first moment; a broker that was fenced before it died is not fenced again."""


@dataclass(frozen=True)
class Node:
    """One broker and controller, and the ports it listens on."""

    id: int
    port: int
    controller_port: int
    metrics_port: int

    @property
    def metrics(self) -> str:
        """Where Prometheus finds it."""
        return f"http://{HOST}:{self.metrics_port}/metrics"


@dataclass(frozen=True)
class Cluster:
    """What the storage was formatted as; kept in cluster.json."""

    id: str
    nodes: tuple[Node, ...]

    @classmethod
    def new(cls, brokers: int) -> Cluster:
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        return cls(identity, _nodes(brokers))

    @classmethod
    def read(cls, file: Path) -> Cluster:
        content = json.loads(file.read_text())
        return cls(
            content["id"], tuple(Node(**{"metrics_port": _NO_PORT, **node}) for node in content["nodes"])
        )

    def write(self, file: Path) -> None:
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self), indent=1))
        fresh.replace(file)


def exporters(data: DataDir) -> dict[int, tuple[str, Path]]:
    """Where embedded brokers tell how they are, and where their data is, by id; none before a first start."""
    home = data.services / Kafka.name
    if not (home / "cluster.json").exists():
        return {}
    nodes = Cluster.read(home / "cluster.json").nodes
    return {node.id: (node.metrics, home / str(node.id)) for node in nodes}


class Kafka(Service):
    """A cluster of 1 or 3 nodes. With 3, every topic has 3 replicas of which 2 must take a write."""

    name: ClassVar[str] = "kafka"
    stop_signal = signal.SIGTERM
    stop_timeout_s = 3.5  # three nodes that end together wait for each other's quorum until killed

    def __init__(self, data: DataDir, say: Callable[[str], None], brokers: int) -> None:
        super().__init__(data, say)
        self.brokers = brokers
        self._file = self.directory / "cluster.json"

    @property
    def children(self) -> list[Child]:
        count = len(self._cluster().nodes) if self._file.exists() else self.brokers
        return [self.child(f"kafka-{i}", self._home(i)) for i in range(1, count + 1)]

    @property
    def address(self) -> str:
        if not self._file.exists():
            return ""
        return ",".join(f"{HOST}:{node.port}" for node in self._cluster().nodes)

    def prepare(self) -> None:
        cluster = self._cluster() if self._file.exists() else Cluster.new(self.brokers)
        if len(cluster.nodes) != self.brokers:
            raise ServiceError(
                f"The Kafka data in {self.directory} belongs to {len(cluster.nodes)} broker(s), "
                f"not to {self.brokers}.",
                hint=f"Start with {len(cluster.nodes)} broker(s), or name another data directory, or "
                f"stop the services and delete {self.directory} (its topics are lost).",
            )
        cluster = self._with_free_ports(cluster)
        for node in cluster.nodes:
            self._home(node.id).mkdir(exist_ok=True)
            (self._home(node.id) / "server.properties").write_text(_properties(self._settings(cluster, node)))
        (self.directory / "log4j2.xml").write_text(LOG4J2)
        cluster.write(self._file)
        self._format(cluster)
        if self._was_killed(cluster):
            self._fence(cluster)

    def spawn(self, child: Child) -> None:
        [node] = [node for node in self._cluster().nodes if self._home(node.id) == child.directory]
        [agent] = ensure_jars("monitor", self.say)
        options = [str(option) for option in tuned("broker-jvm").values()]
        options.append(f"-javaagent:{agent}={HOST}:{node.metrics_port}:{METRICS}")
        child.start([*self._java(options), "kafka.Kafka", child.directory / "server.properties"])

    def check(self) -> None:
        nodes = self._cluster().nodes
        if closed := [node.port for node in nodes if not is_open(node.port)]:
            raise NotReady(f"nothing listens on {', '.join(map(str, closed))} yet")
        try:
            known = (
                AdminClient({"bootstrap.servers": self.address}, logger=SILENT).list_topics(timeout=5).brokers
            )
        except KafkaException as error:
            raise NotReady(str(error)) from error
        if len(known) < len(nodes):
            raise NotReady(f"{len(known)} of {len(nodes)} brokers have joined")

    def _cluster(self) -> Cluster:
        return Cluster.read(self._file)

    def _home(self, node: int) -> Path:
        return self.directory / str(node)

    def _with_free_ports(self, cluster: Cluster) -> Cluster:
        """The kept ports, or new ones for all when somebody else has taken one of them."""
        alive = {child.name for child in self.children if child.is_alive()}
        down = [node for node in cluster.nodes if f"kafka-{node.id}" not in alive]
        ports = [port for node in down for port in (node.port, node.controller_port, node.metrics_port)]
        taken = [port for port in ports if port == _NO_PORT or not is_free(port)]
        if not taken:
            return cluster
        if alive:
            raise ServiceError(
                f"Port {taken[0]} of a stopped broker was taken by another program while others run.",
                hint="Stop all services and start them again: the cluster then moves to free ports.",
            )
        return Cluster(cluster.id, _nodes(len(cluster.nodes)))

    def _java(self, options: list[str]) -> list[str | Path]:
        jars = ensure_jars("kafka", self.say)
        classpath = ":".join(map(str, jars))
        log4j2 = f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}"
        return [ensure_java(self.say).java, *options, "-Djava.awt.headless=true", log4j2, "-cp", classpath]

    def _format(self, cluster: Cluster) -> None:
        """Format the storage of nodes that have none, side by side (1 s of JVM each)."""
        running: list[tuple[Node, subprocess.Popen[str]]] = []
        for node in cluster.nodes:
            storage = self._home(node.id) / "data"
            if (storage / "meta.properties").exists():
                continue
            shutil.rmtree(storage, ignore_errors=True)  # the rest of a format that was interrupted
            command = [*self._java(_QUICK), "kafka.tools.StorageTool", "format", "-t", cluster.id, "-c"]
            command.append(self._home(node.id) / "server.properties")
            pipe = subprocess.PIPE
            running.append(
                (node, subprocess.Popen(command, text=True, stdout=pipe, stderr=subprocess.STDOUT))
            )
        for node, process in running:
            output, _ = process.communicate()
            if process.returncode != 0:
                raise ServiceError(
                    f"The storage of kafka-{node.id} could not be formatted:\n{output.strip()}",
                    hint="Correct what it says and start again.",
                )

    def _was_killed(self, cluster: Cluster) -> bool:
        """Whether no node runs, and one of them has ended without a word."""
        stores = [self._home(node.id) / "data" for node in cluster.nodes]
        return not any(child.is_alive() for child in self.children) and any(
            (store / "__cluster_metadata-0").exists() and not (store / ".kafka_cleanshutdown").exists()
            for store in stores
        )

    def _fence(self, cluster: Cluster) -> None:
        """Have the controllers alone end the sessions of brokers that were killed.

        A broker that starts while its old session lasts (4 s here) still leads in the metadata that it sees
        first. It then goes on with the transactions that were decided when it died, until the session ends,
        and Kafka 4.3.1 takes the partitions that have no leader at that moment for deleted ones: it calls
        the transactions complete without having written their ends. What they wrote can never be read, nor
        can a position among it.
        """
        for child, node in zip(self.children, cluster.nodes, strict=True):
            settings = self._settings(cluster, node) | {
                "process.roles": "controller",
                "listeners": f"CONTROLLER://{HOST}:{node.controller_port}",
                "broker.session.timeout.ms": 200,
                "broker.heartbeat.interval.ms": 50,
            }
            del settings["advertised.listeners"]
            file = child.directory / "controller.properties"
            file.write_text(_properties(settings))
            child.log.touch()
        begun = {child.name: child.log.stat().st_size for child in self.children}
        for child in self.children:
            child.start([*self._java(_QUICK), "kafka.Kafka", child.directory / "controller.properties"])
        active_s, deadline = 0.0, time.monotonic() + _FENCE_TIMEOUT_S
        while time.monotonic() < (active_s + _FENCED_WITHIN_S if active_s else deadline):
            said = "".join(_from(child.log, begun[child.name]) for child in self.children)
            if all(f"Fencing broker {node.id} " in said for node in cluster.nodes):
                break
            if not active_s and "Performing controller activation" in said:
                active_s = time.monotonic()
            time.sleep(POLL_S)
        self.stop()

    def _settings(self, cluster: Cluster, node: Node) -> dict[str, object]:
        replicas, in_sync = (3, 2) if len(cluster.nodes) == 3 else (1, 1)
        voters = ",".join(f"{each.id}@{HOST}:{each.controller_port}" for each in cluster.nodes)
        return {
            "process.roles": "broker,controller",
            "node.id": node.id,
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{node.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self._home(node.id) / "data",
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
            **tuned("broker"),
        }


def _properties(settings: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _from(log: Path, at: int) -> str:
    with log.open("rb") as file:
        file.seek(at)
        return file.read().decode(errors="replace")


def _nodes(count: int) -> tuple[Node, ...]:
    ports = free_ports(3 * count)
    return tuple(Node(i + 1, *ports[3 * i : 3 * i + 3]) for i in range(count))
