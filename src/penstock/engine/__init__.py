"""A spec as a running Spark query: source, decode, cleanse, enrich, sessions, outputs."""
