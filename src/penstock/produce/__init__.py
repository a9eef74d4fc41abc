"""The clickstream generator: events from a seed, sent on schedule, recorded before they are sent."""
