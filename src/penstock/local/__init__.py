"""The embedded default: a real Kafka, ClickHouse and PostgreSQL as child processes of a data directory.

`penstock.local.services` is the front. Nothing is imported here, so that the processes started from this
package load only what they need.
"""
