"""What a record costs on the wire: one click in JSON, MessagePack, Avro and Protobuf, encoded and decoded.

In Python, where a click is a dict before and after; and, of JSON, in Spark: by the kernel and by from_json,
over what reading alone costs. All take turns; the first round is the warm-up. Times are of CPUs, not of the
clock. Avro is framed as the schema registry has it (a zero byte, the schema's id in four, the value), once
with the schema parsed beforehand, and once parsed for each record, as a consumer without a cache does.
"""

from __future__ import annotations

import gc
import io
import json
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import cycle, islice
from statistics import mean, median
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.bench.result import Column, Result, in_words
from penstock.bench.rig import Rig, open_rig
from penstock.bench.stages import clicks, reference_spec
from penstock.engine.decode import beside_record, decode
from penstock.engine.source import read_source
from penstock.errors import PenstockError
from penstock.produce.clickstream import ClickstreamPlan
from penstock.produce.wire import Message
from penstock.spec import PipelineSpec

Click = dict[str, str | int | float | None]
Where = Literal["python", "kernel", "spark"]

FIELDS: Mapping[str, str] = {
    "event_id": "string", "producer": "string", "seq": "long", "user_id": "string", "event_type": "string",
    "product_id": "string", "page": "string", "price": "double", "ts": "long", "created_ms": "long",
}  # fmt: skip
OPTIONAL = "price"
"""The field that may be null: clicks that are no purchase have none."""

_DISTINCT = 20_000
"""Clicks that are kept in memory, and taken again and again."""
_IN_SPARK = 10
"""So many times as many records: to begin a query costs as much as to read some 200,000."""
_SCHEMA_ID = 7
_FRAME = struct.Struct(">bI")


@dataclass(frozen=True)
class Codec:
    """A format in Python."""

    format: str
    encode: Callable[[Click], bytes]
    decode: Callable[[bytes], Click]


@dataclass(frozen=True)
class Row:
    """What was measured of one format in one place; times are medians of the rounds."""

    format: str
    where: Where
    encode_us: float | None
    """CPU microseconds a record; None where it is only read."""
    decode_us: float
    bytes: float
    """Of a record, on average."""
    spread: float
    """From the least to the most of the rounds, as a share of the median; of what spread wider."""


JSON = Codec("json", lambda click: json.dumps(click, separators=(",", ":")).encode(), json.loads)


def codecs() -> list[Codec]:
    """All of them; an error where a library is missing."""
    orjson, msgpack = _library("orjson"), _library("msgpack")
    return [
        JSON,
        Codec("json (orjson)", orjson.dumps, orjson.loads),
        Codec("msgpack", msgpack.packb, msgpack.unpackb),
        _avro(),
        _avro_parsed_each_time(),
        _protobuf(),
    ]


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise PenstockError(
            f"{name} is not installed",
            hint="The formats that are compared are a group: uv pip install --group formats",
        ) from None


def avro_schema() -> str:
    """As a registry has it: text."""
    types = {name: ["null", kind] if name == OPTIONAL else kind for name, kind in FIELDS.items()}
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return json.dumps({"type": "record", "name": "Click", "fields": fields})


def _avro() -> Codec:
    avro = _library("fastavro")
    registry = {_SCHEMA_ID: avro.parse_schema(json.loads(avro_schema()))}
    return Codec("avro", *_framed(avro, lambda schema_id: registry[schema_id]))


def _avro_parsed_each_time() -> Codec:
    avro = _library("fastavro")
    registry = {_SCHEMA_ID: avro_schema()}

    def parsed(schema_id: int) -> Any:
        return avro.parse_schema(json.loads(registry[schema_id]))

    return Codec("avro, no schema cache", *_framed(avro, parsed))


def _framed(
    avro: Any, schema_of: Callable[[int], Any]
) -> tuple[Callable[[Click], bytes], Callable[[bytes], Click]]:
    head = _FRAME.pack(0, _SCHEMA_ID)

    def encode(click: Click) -> bytes:
        buffer = io.BytesIO()
        buffer.write(head)
        avro.schemaless_writer(buffer, schema_of(_SCHEMA_ID), click)
        return buffer.getvalue()

    def decode(value: bytes) -> Click:
        magic, schema_id = _FRAME.unpack_from(value)
        if magic != 0:
            raise ValueError(f"a record begins with {magic}; expected 0")
        buffer = io.BytesIO(value)
        buffer.seek(_FRAME.size)
        click: Click = avro.schemaless_reader(buffer, schema_of(schema_id), None)
        return click

    return encode, decode


def _protobuf() -> Codec:
    message = _message_class()
    required = [name for name in FIELDS if name != OPTIONAL]

    def encode(click: Click) -> bytes:
        encoded: bytes = message(**click).SerializeToString()
        return encoded

    def decode(value: bytes) -> Click:
        found = message.FromString(value)
        click: Click = {name: getattr(found, name) for name in required}
        click[OPTIONAL] = getattr(found, OPTIONAL) if found.HasField(OPTIONAL) else None
        return click

    return Codec("protobuf", encode, decode)


def _message_class() -> Any:
    """Made of a descriptor, as protoc would have made it of a file."""
    _library("google.protobuf")
    pb, factory, pools = (
        _library(f"google.protobuf.{name}")
        for name in ("descriptor_pb2", "message_factory", "descriptor_pool")
    )
    kinds = pb.FieldDescriptorProto
    types = {"string": kinds.TYPE_STRING, "long": kinds.TYPE_INT64, "double": kinds.TYPE_DOUBLE}
    file = pb.FileDescriptorProto(name="click.proto", package="bench", syntax="proto3")
    click = file.message_type.add(name="Click")
    for number, (name, kind) in enumerate(FIELDS.items(), 1):
        field = click.field.add(name=name, number=number, type=types[kind], label=kinds.LABEL_OPTIONAL)
        if name == OPTIONAL:
            # What tells null from 0, spelt as the compiler spells it.
            field.proto3_optional, field.oneof_index = True, 0
            click.oneof_decl.add(name=f"_{name}")
    pool = pools.DescriptorPool()
    pool.Add(file)
    return factory.GetMessageClass(pool.FindMessageTypeByName("bench.Click"))


def drawn(records: int) -> list[Click]:
    """Clicks of the shipped pipeline: the fields of its schema, and no more."""
    plan = ClickstreamPlan(malformed=0, invalid=0, delayed=0, late=0, duplicate=0)
    found = (json.loads(message["value"]) for chunk in clicks(plan, records) for message in chunk)
    return [{name: one.get(name) for name in FIELDS} for one in found]


def in_python(several: Sequence[Codec], sample: Sequence[Click], records: int, rounds: int) -> list[Row]:
    """Each format in turn, round by round; `sample` is taken again until there are so many."""
    encodes: dict[str, list[float]] = {}
    decodes: dict[str, list[float]] = {}
    sizes: dict[str, float] = {}
    for number in range(rounds):
        gc.collect()
        for codec in several:
            values = [codec.encode(click) for click in sample]
            sizes[codec.format] = mean(map(len, values))
            encode_us = _each_us(codec.encode, islice(cycle(sample), records), records)
            decode_us = _each_us(codec.decode, islice(cycle(values), records), records)
            if number:
                encodes.setdefault(codec.format, []).append(encode_us)
                decodes.setdefault(codec.format, []).append(decode_us)
    return [
        Row(
            name,
            "python",
            median(encodes[name]),
            median(decodes[name]),
            sizes[name],
            max(spread(encodes[name]), spread(decodes[name])),
        )
        for name in decodes
    ]


def _each_us(do: Callable[[Any], object], given: Iterator[Any], count: int) -> float:
    gc.disable()
    began = time.process_time()
    for one in given:
        do(one)
    took_s = time.process_time() - began
    gc.enable()
    return took_s / count * 1e6


def spread(values: Sequence[float]) -> float:
    middle = median(values)
    return (max(values) - min(values)) / middle if middle > 0 else 0.0


def in_spark(rig: Rig, spec: PipelineSpec, sample: Sequence[Click], records: int, rounds: int) -> list[Row]:
    """JSON over what reading alone costs; CPU seconds for a million are microseconds a record.

    The least of each, since a difference of two figures has the noise of both; and one more round to warm up
    than Python needs, since the JVM would still be compiling what is subtracted.
    """
    values = [JSON.encode(click) for click in sample]
    total = rig.fill(spec.source.topic, spec.source.partitions, _messages(sample, values, records))
    reads: list[float] = []
    costs: dict[Where, list[float]] = {"kernel": [], "spark": []}
    for number in range(rounds + 1):
        read, *decoded = (rig.measure(frame, total).per_million for frame in _frames(rig, spec))
        if number > 1:
            reads.append(read)
            for where, cost in zip(costs, decoded, strict=True):
                costs[where].append(cost)
    bytes_each = mean(map(len, values))
    return [
        Row("json", where, None, min(each) - min(reads), bytes_each, spread(each))
        for where, each in costs.items()
    ]


def _messages(sample: Sequence[Click], values: Sequence[bytes], records: int) -> Iterator[list[Message]]:
    made: list[Message] = [
        {"key": str(click["user_id"]).encode(), "value": value}
        for click, value in zip(sample, values, strict=True)
    ]
    for sent in range(0, records, len(made)):
        yield made[: records - sent]


def _frames(rig: Rig, spec: PipelineSpec) -> Iterator[DataFrame]:
    """Records as they are read, then with all their fields, by the kernel and by Spark."""

    def records() -> DataFrame:
        return read_source(rig.spark, spec, rig.addresses.kafka, [spec.source.topic])

    yield records()
    # All fields are asked for: what nobody reads, the kernel does not decode.
    cleanse = spec.cleanse.model_copy(update={"require": tuple(FIELDS)})
    yield decode(rig.spark, records(), spec.model_copy(update={"cleanse": cleanse}), "groups")
    yield beside_record(records(), F.from_json(F.col("value").cast("string"), spec.source.ddl))


def measured(records: int, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """All formats in all places, one after the other."""
    several, sample, spec = codecs(), drawn(min(records, _DISTINCT)), reference_spec("formats")
    with open_rig(spec, say) as rig:
        return in_python(several, sample, records, rounds) + in_spark(
            rig, spec, sample, _IN_SPARK * records, rounds
        )


COLUMNS = (
    Column("format", "format"),
    Column("where", "where"),
    Column("encode_us", "encode, CPU us", 2, drawn=True),
    Column("decode_us", "decode, CPU us", 2, drawn=True),
    Column("bytes", "bytes", drawn=True),
    Column("spread", "spread of the rounds", 2),
)


def measure(records: int, rounds: int, say: Callable[[str], None]) -> Result:
    rows = measured(records, rounds + 1, say)
    return Result(
        "formats",
        f"One click of 10 fields, {records:,} times, in turns, {in_words(rounds)} behind one that warms up;"
        " CPU time a record. In Python by the fastest library; in Spark what decoding adds to reading, by the"
        " least of each, behind two that warm up.",
        COLUMNS,
        [asdict(row) for row in rows],
    )
