"""The description of a pipeline, and nothing that runs."""

from penstock.spec.loading import load
from penstock.spec.pipeline import PipelineSpec, Tier
from penstock.spec.reference import reference
from penstock.spec.sections import (
    Cleanse,
    Dedupe,
    Enrich,
    Grouping,
    ServiceAddresses,
    Sessions,
    Source,
    Windows,
)
from penstock.spec.sinks import ClickHouseSink, KafkaSink, PostgresSink, Sink
from penstock.spec.sql import Column, Measure
from penstock.spec.units import Count, Duration, Rate, Size
from penstock.spec.writing import to_toml

__all__ = [
    "Cleanse",
    "ClickHouseSink",
    "Column",
    "Count",
    "Dedupe",
    "Duration",
    "Enrich",
    "Grouping",
    "KafkaSink",
    "Measure",
    "PipelineSpec",
    "PostgresSink",
    "Rate",
    "ServiceAddresses",
    "Sessions",
    "Sink",
    "Size",
    "Source",
    "Tier",
    "Windows",
    "load",
    "reference",
    "to_toml",
]
