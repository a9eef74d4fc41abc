"""The settings that Penstock gives to Kafka, Spark, the JVMs and the stores: what, and why.

All of them are in settings.toml, and nowhere else. For an experiment some can be turned back to the value
that their system has by itself:

    PENSTOCK_UNTUNED="producer.linger.ms, state.*" penstock run clickstream

Settings that are about correctness are never turned back.
"""

from __future__ import annotations

from penstock.tuning.settings import Area, Setting, Value, areas, find, settings
from penstock.tuning.untuned import UNTUNED, is_tuned, tuned, untuned, value

__all__ = [
    "UNTUNED",
    "Area",
    "Setting",
    "Value",
    "areas",
    "find",
    "is_tuned",
    "settings",
    "tuned",
    "untuned",
    "value",
]
