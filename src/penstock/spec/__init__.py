"""The description of a pipeline, and nothing that runs."""

from penstock.spec.loading import load
from penstock.spec.pipeline import PipelineSpec
from penstock.spec.reference import reference
from penstock.spec.sections import (
    Cleanse,
    ClickHouseSink,
    Enrich,
    KafkaSink,
    ServiceAddresses,
    Sessions,
    Sink,
    Source,
)
from penstock.spec.sql import Column, Measure
from penstock.spec.units import Count, Duration, Rate, Size
from penstock.spec.writing import to_toml

__all__ = [
    "Cleanse",
    "ClickHouseSink",
    "Column",
    "Count",
    "Duration",
    "Enrich",
    "KafkaSink",
    "Measure",
    "PipelineSpec",
    "Rate",
    "ServiceAddresses",
    "Sessions",
    "Sink",
    "Size",
    "Source",
    "load",
    "reference",
    "to_toml",
]
