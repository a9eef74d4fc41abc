"""Real-time pipelines from Kafka through Spark, in Python."""

from importlib.metadata import version

__version__ = version("penstock")
