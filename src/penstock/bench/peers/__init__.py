"""The clickstream's sessions in other engines: fetched, compiled and run on demand, metered, and checked."""
