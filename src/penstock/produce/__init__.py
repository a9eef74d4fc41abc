"""Generated events for the shipped pipelines: from a seed, on schedule, recorded before they are sent."""
